"""Look up tokens by name, and list the texts of a vocabulary.

Nothing here encodes: it looks up the tokens that users name as BOS, EOS or padding, and gives the
proof the strings on which two engines are most likely to differ.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.facts import remembered
from dataprep.pipeline.engine.files import (
    BYTES_SPECIAL,
    TokenizerFiles,
    added_tokens_of,
    parse_json,
    parse_sentencepiece,
    read_defining_file,
    with_special_tokens,
)
from dataprep.pipeline.engine.reference import reference_name
from dataprep.pipeline.engine.special import AddedToken
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
    vocabulary = read_vocabulary(files)
    changes: dict[str, Any] = {}
    for role, value in named.items():
        changes[f"{role}_id"], changes[f"{role}_token"] = _look_up(role, value, vocabulary, files)
    return with_special_tokens(replace(files, **changes))


def read_vocabulary(files: TokenizerFiles) -> dict[str, int]:
    """Return the id of each token, added tokens included."""
    if files.kind == "bytes":
        return dict(BYTES_SPECIAL)
    data = read_defining_file(files)
    if files.kind == "sentencepiece":
        processor = parse_sentencepiece(data, files.path)
        return {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    vocabulary: dict[str, int] = parse_json(data, files.path).get_vocab(with_added_tokens=True)
    return vocabulary


def read_token_texts(files: TokenizerFiles) -> list[str]:
    """Return the text of each token, in order of ids, without tokens that are only a part of one.

    Ġthe -> " the", ##ing -> "ing", ▁the -> " the", half of a UTF-8 sequence -> left out
    """
    if files.kind == "bytes":
        return []
    data = read_defining_file(files)
    if files.kind == "sentencepiece":
        processor = parse_sentencepiece(data, files.path)
        texts = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    else:
        tokenizer = parse_json(data, files.path)
        by_id = sorted(
            tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1]
        )
        decoded = tokenizer.decode_batch([[id] for _, id in by_id], skip_special_tokens=False)
        if "ByteLevel" in json.dumps(json.loads(data).get("decoder")):
            texts = decoded
        else:
            # Decoders drop the sign for a leading space; the token itself has it.
            texts = [token.removeprefix("##").removesuffix("</w>") for token, _ in by_id]
    spelled = [text.replace("▁", " ") for text in texts]
    return list(dict.fromkeys(text for text in spelled if text and "\ufffd" not in text))


def read_added_tokens(files: TokenizerFiles) -> list[AddedToken]:
    """Return the added tokens of a tokenizer.json, or the special pieces of SentencePiece."""
    if files.kind == "bytes":
        return []
    data = read_defining_file(files)
    if files.kind == "sentencepiece":
        processor = parse_sentencepiece(data, files.path)
        return [
            AddedToken(content=processor.id_to_piece(i))
            for i in range(processor.get_piece_size())
            if processor.is_control(i) or processor.is_unknown(i) or processor.get_score(i) == 0
        ]
    return added_tokens_of(parse_json(data, files.path), json.loads(data)["model"])


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
