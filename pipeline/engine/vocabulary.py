"""Look up the tokens that users name as BOS, EOS or padding."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.facts import remembered
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.models import load_model, reference_name
from dataprep.pipeline.errors import ConfigError, short

NUM_NEAR = 3


def with_special(
    files: TokenizerFiles,
    *,
    bos: str | int | None = None,
    eos: str | int | None = None,
    pad: str | int | None = None,
    cache_dir: Path | None = None,
) -> TokenizerFiles:
    """Return the files with the roles that the user names, by token or by id; None and "" keep
    what was found."""
    named = {
        role: value
        for role, value in (("bos", bos), ("eos", eos), ("pad", pad))
        if value is not None and value != ""
    }
    if not named:
        return files
    depends_on = {"found": asdict(replace(files, path="")), "named": named}
    name = reference_name(files)
    found = remembered(
        cache_dir, name, depends_on, TokenizerFiles, lambda: _with_roles(files, named)
    )
    return replace(found, path=files.path)


def _with_roles(files: TokenizerFiles, named: Mapping[str, str | int]) -> TokenizerFiles:
    model = load_model(files)
    vocabulary = model.vocabulary()
    changes: dict[str, Any] = {}
    for role, value in named.items():
        changes[f"{role}_id"], changes[f"{role}_token"] = _look_up(role, value, vocabulary, files)
    changed = replace(files, **changes)
    return replace(changed, special=model.special(changed))


def _look_up(
    role: str, value: str | int, vocabulary: dict[str, int], files: TokenizerFiles
) -> tuple[int, str | None]:
    place = files.path or files.kind
    if isinstance(value, int):
        if not 0 <= value < files.vocab_size:
            raise ConfigError(
                f"{role} id {value} is outside the vocabulary of {place} (0 to "
                f"{files.vocab_size - 1}); name an id that is in it, or a token"
            )
        return value, next((token for token, id in vocabulary.items() if id == value), None)
    if value in vocabulary:
        return vocabulary[value], value
    near = difflib.get_close_matches(value, vocabulary, n=NUM_NEAR, cutoff=0.5)
    hint = f"similar: {', '.join(map(repr, near))}" if near else "nothing similar in it"
    raise ConfigError(
        f"{role} token {short(value)!r} is not in the vocabulary of {place} ({hint}); name a token "
        "that is in it, or an id"
    )
