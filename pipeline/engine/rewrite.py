"""Rewrite a tokenizer.json for engines that refuse the original.

A rewritten file means the same to `tokenizers`; the proof is made with it, so that a mistake here
rules an engine out and never changes an id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

# With more missing ids than this, the file is not a vocabulary with a few gaps.
MAX_HOLES = 100_000


def without_holes(data: bytes) -> str | None:
    """Give every missing id of a BPE vocabulary a token that no text can reach.

        {"a": 0, "b": 3}  ->  {"a": 0, "b": 3, "\\0unused 1": 1, "\\0unused 2": 2}

    fastokens refuses gaps between ids (cl100k and o200k leave some before their special tokens).
    BPE reaches a token through merges, and no merge makes these. Return None if there is nothing to
    do, or if a whole word may be looked up without merging (`ignore_merges`).
    """
    tokenizer: dict[str, Any] = json.loads(data)
    model = tokenizer.get("model") or {}
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or "merges" not in model or model.get("ignore_merges"):
        return None
    taken = set(vocabulary.values())
    num_holes = max(taken, default=-1) + 1 - len(taken)
    if not 0 < num_holes <= MAX_HOLES:
        return None
    for id in range(max(taken)):
        if id not in taken:
            vocabulary[f"\0unused {id}"] = id
    return json.dumps(tokenizer, ensure_ascii=False)


def without_settings(data: bytes, names: Iterable[str]) -> bytes:
    """Remove settings of the model, which then has their defaults."""
    tokenizer: dict[str, Any] = json.loads(data)
    for name in names:
        tokenizer["model"].pop(name, None)
    return json.dumps(tokenizer, ensure_ascii=False).encode()


def without_control_tokens(data: str | bytes | None) -> str | None:
    """Remove the special tokens, so that no text matches one; return None if there is no JSON."""
    if data is None:
        return None
    tokenizer: dict[str, Any] = json.loads(data)
    tokenizer["added_tokens"] = [t for t in tokenizer["added_tokens"] if not t["special"]]
    return json.dumps(tokenizer, ensure_ascii=False)
