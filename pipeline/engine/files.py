"""Find a tokenizer by name and describe it.

    bytes                      UTF-8 bytes as ids, needs no file
    path/to/tokenizer.json     Hugging Face tokenizers
    path/to/folder             its tokenizer.json, else its tokenizer.model
    path/to/some.model         SentencePiece
    org/name                   the same two files, from the Hugging Face hub or its local cache

`TokenizerFiles` is all that a worker needs. `special` finds which ids are BOS, EOS and padding.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.facts import remembered
from dataprep.pipeline.engine.hub import fetch, looks_like_hub_name, not_found
from dataprep.pipeline.engine.interface import EngineFailedError, failures_told
from dataprep.pipeline.engine.near import DEFINING
from dataprep.pipeline.engine.special import (
    AddedToken,
    Special,
    read_configs,
    special_of_configs,
)
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.guards.opening import read_bounded

# ids of the `bytes` tokenizer above the 256 bytes
BYTES_SPECIAL = {"<bos>": 256, "<eos>": 257, "<pad>": 258}
BYTES_DEFINITION = b"dataprep bytes: utf-8 0..255, bos 256, eos 257, pad 258"

# With these, BPE and Unigram cut the same text differently each time: meant for training a model,
# and `tokenizers` has no switch for them.
RANDOM_SETTINGS = ("dropout", "alpha", "nbest_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    kind: str  # json | sentencepiece | bytes
    path: str  # absolute; "" for bytes
    sha256: str  # of the defining file
    vocab_size: int  # highest id + 1, added tokens included
    bos_id: int | None = None  # None where the tokenizer names none
    eos_id: int | None = None
    pad_id: int | None = None
    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    special: tuple[AddedToken, ...] = ()  # what text may spell
    random: str = ""  # its settings that would choose tokens at random; they are switched off
    note: str = ""  # what a user should know about how it was found


def resolve_tokenizer(name: str, cache_dir: Path | None = None) -> TokenizerFiles:
    """Find a tokenizer; what earlier runs found out about it is kept in the cache."""
    if name == "bytes":
        return _describe_bytes()
    path = Path(os.path.expanduser(name))  # Path.expanduser raises for a user who is not known
    if path.is_dir():
        return _describe(_defining_file(path), cache_dir)
    if path.exists():
        return _describe(path.absolute(), cache_dir)
    if looks_like_hub_name(name):
        found = fetch(name)
        return replace(_describe(found.path, cache_dir), note=found.note)
    raise not_found(name, "it is not a hub name")


def read_defining_file(files: TokenizerFiles) -> bytes:
    """Return the tokenizer's own bytes, which must still be those that `resolve_tokenizer` saw."""
    data = _read(Path(files.path))
    if _sha256(data) != files.sha256:
        raise ConfigError(
            f"tokenizer {files.path} changed while it was in use (sha256 was {files.sha256}); "
            "run the command again"
        )
    return data


def parse_json(data: bytes, path: str) -> Any:
    """Return a `tokenizers.Tokenizer` that neither truncates nor pads, and draws no lots."""
    check_tokenizers_version()
    from tokenizers import Tokenizer

    try:
        with failures_told():
            tokenizer = Tokenizer.from_str(data.decode("utf-8"))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            for name in RANDOM_SETTINGS:
                if getattr(tokenizer.model, name, None):
                    setattr(tokenizer.model, name, None)
    except EngineFailedError as error:
        raise ConfigError(
            f"{path} is not a tokenizer that `tokenizers` can load: {error}; "
            "save it again with `save_pretrained` or name another"
        ) from error
    return tokenizer


def check_tokenizers_version() -> None:
    found = distribution_version("tokenizers")
    if not found.startswith("0."):
        raise ConfigError(
            f"tokenizers {found} is installed, but this dataprep works with versions below 1.0; "
            "pip install 'tokenizers>=0.21,<1.0'"
        )


def parse_sentencepiece(data: bytes, path: str) -> Any:
    """Return a `sentencepiece.SentencePieceProcessor`."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise ConfigError(
            f"{path} is a SentencePiece model, but the package sentencepiece is not installed; "
            "pip install 'dataprep-jax[sentencepiece]'"
        ) from error
    try:
        with failures_told():
            processor = SentencePieceProcessor(model_proto=data)
            if processor.get_piece_size() <= 0:
                raise ValueError("it has no pieces")
            for id in range(processor.get_piece_size()):
                processor.id_to_piece(id)  # of a damaged model it may not be text
    except EngineFailedError as error:
        raise ConfigError(
            f"{path} is not a model that sentencepiece can load: {error}; name another file"
        ) from error
    return processor


def _defining_file(folder: Path) -> Path:
    for name in DEFINING:
        if (folder / name).is_file():
            return (folder / name).absolute()
    raise ConfigError(
        f"folder {folder.absolute()} has neither tokenizer.json nor tokenizer.model; name the file "
        "itself, or save the tokenizer there with `save_pretrained`"
    )


def _describe(path: Path, cache_dir: Path | None) -> TokenizerFiles:
    data = _read(path)
    if path.suffix == ".model":
        parser, configs = "sentencepiece", dict[str, bytes]()
        describe = partial(_describe_sentencepiece, path, data)
    else:
        parser, configs = "tokenizers", read_configs(path.parent)
        describe = partial(_describe_json, path, data, configs)
    depends_on = {
        "sha256": _sha256(data),
        # They decide which ids are BOS, EOS and padding.
        "configs": {name: _sha256(config) for name, config in configs.items()},
    }
    found = remembered(cache_dir, parser, depends_on, TokenizerFiles, describe)
    return replace(found, path=str(path))


def _describe_json(path: Path, data: bytes, configs: Mapping[str, bytes]) -> TokenizerFiles:
    tokenizer = parse_json(data, str(path))
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise ConfigError(f"{path} has an empty vocabulary; name another tokenizer")
    largest = max(vocabulary, key=vocabulary.__getitem__)
    if vocabulary[largest] >= 1 << 31:
        raise ConfigError(
            f"{path} gives {short(largest)!r} the id {vocabulary[largest]}, but batches hold "
            "32-bit integers; name a tokenizer whose ids are below 2147483648"
        )
    files = _record(
        "json", path, data, vocabulary, special_of_configs(path.parent, configs, vocabulary)
    )
    model = _model_in(data)
    random = [f"{name} {model[name]}" for name in RANDOM_SETTINGS if model.get(name)]
    special = _special_of_json(files, tokenizer, model)
    return replace(files, special=special, random=", ".join(random))


def _model_in(data: bytes) -> Mapping[str, Any]:
    model: Mapping[str, Any] = json.loads(data)["model"]
    return model


def with_special_tokens(files: TokenizerFiles) -> TokenizerFiles:
    """Return the files with the special tokens that their roles make so."""
    if files.kind == "bytes":
        return files
    data = read_defining_file(files)
    if files.kind == "sentencepiece":
        special = _special_of_pieces(files, parse_sentencepiece(data, files.path))
    else:
        special = _special_of_json(files, parse_json(data, files.path), _model_in(data))
    return replace(files, special=special)


def _special_of_json(
    files: TokenizerFiles, tokenizer: Any, model: Mapping[str, Any]
) -> tuple[AddedToken, ...]:
    """Return the special tokens: those that say so, and BOS, EOS and padding.

    Padding that is a word of the model is none: it is known by its place, never by its id.
    """
    unknown = _unknown_of(tokenizer, model)
    added = added_tokens_of(tokenizer, model)
    known = {token.id for token in added}
    roles = _roles_of(files)
    return (
        *(token for token in added if token.special or token.id in roles),
        *(
            AddedToken(content=token, id=id, is_unknown=id == unknown, in_model=True)
            for id, token in roles.items()
            if id not in known and id in (files.bos_id, files.eos_id)
        ),
    )


def _special_of_pieces(files: TokenizerFiles, processor: Any) -> tuple[AddedToken, ...]:
    """Return BOS and EOS where a text can become them: control pieces are never made."""
    return tuple(
        AddedToken(content=token, id=id, in_model=True)
        for id, token in _roles_of(files).items()
        if id in (files.bos_id, files.eos_id)
        and not processor.is_control(id)
        and not processor.is_unknown(id)
    )


def _roles_of(files: TokenizerFiles) -> dict[int, str]:
    """Return BOS, EOS and padding by their ids."""
    roles = (
        (files.bos_id, files.bos_token),
        (files.eos_id, files.eos_token),
        (files.pad_id, files.pad_token),
    )
    return {id: token for id, token in roles if id is not None and token is not None}


def added_tokens_of(tokenizer: Any, model: Mapping[str, Any]) -> list[AddedToken]:
    """Return the added tokens of a tokenizer.json, with the ids that `tokenizers` gives them."""
    unknown = _unknown_of(tokenizer, model)
    return [
        AddedToken(
            content=token.content,
            id=id,
            special=token.special,
            is_unknown=id == unknown,
            flags=(token.single_word, token.lstrip, token.rstrip, token.normalized),
        )
        for id, token in sorted(tokenizer.get_added_tokens_decoder().items())
    ]


def _unknown_of(tokenizer: Any, model: Mapping[str, Any]) -> int | None:
    """Return the id that the model gives to what it does not know."""
    unknown: int | None = model.get("unk_id")  # of Unigram
    if unknown is None and model.get("unk_token") is not None:
        unknown = tokenizer.token_to_id(model["unk_token"])
    return unknown


def _describe_sentencepiece(path: Path, data: bytes) -> TokenizerFiles:
    processor = parse_sentencepiece(data, str(path))
    vocabulary = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    special = {
        name: Special(id=id, token=processor.id_to_piece(id))
        for name, id in (
            ("bos", processor.bos_id()),
            ("eos", processor.eos_id()),
            ("pad", processor.pad_id()),
        )
        if id >= 0
    }
    files = _record("sentencepiece", path, data, vocabulary, special)
    return replace(files, special=_special_of_pieces(files, processor))


def _describe_bytes() -> TokenizerFiles:
    special = {token[1:-1]: Special(id=id, token=token) for token, id in BYTES_SPECIAL.items()}
    return _record("bytes", None, BYTES_DEFINITION, BYTES_SPECIAL, special)


def _record(
    kind: str,
    path: Path | None,
    data: bytes,
    vocabulary: dict[str, int],
    special: dict[str, Special],
) -> TokenizerFiles:
    roles: dict[str, Any] = {}  # {"bos_id": 1, "bos_token": "<s>"}
    for role, found in special.items():
        roles[f"{role}_id"], roles[f"{role}_token"] = found.id, found.token
    return TokenizerFiles(
        kind=kind,
        path=str(path) if path else "",
        sha256=_sha256(data),
        vocab_size=max(vocabulary.values()) + 1,
        **roles,
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path)
    except OSError as error:
        raise ConfigError(
            f"tokenizer {path} cannot be read: {error.strerror}; name another or make it readable"
        ) from error
