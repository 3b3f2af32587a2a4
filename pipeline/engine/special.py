"""Find which ids are BOS, EOS and padding in the tokenizer's own files, and which are special.

`tokenizer_config.json` first, then `special_tokens_map.json`: a token is a string, an object with
`content`, or null for "there is none". The ids of `config.json` and `generation_config.json` count
only if neither file names the role at all: those are the model's, and some models give a BOS id
that their tokenizer never uses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.guards.opening import read_bounded

ROLES = ("bos", "eos", "pad")
TOKEN_FILES = ("tokenizer_config.json", "special_tokens_map.json")
ID_FILES = ("config.json", "generation_config.json")
CONFIG_FILES = (*TOKEN_FILES, *ID_FILES)
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")  # of an added token, as JSON names them


@dataclass(frozen=True, slots=True, kw_only=True)
class Special:
    id: int
    token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToken:
    """A string that is taken out of a text before the model sees it, or that the model itself has
    among its words."""

    content: str
    id: int = -1
    special: bool = False
    is_unknown: bool = False  # also the model's id for what it does not know
    in_model: bool = False  # not an added token: the model makes it of text
    flags: tuple[bool, ...] = (False,) * len(FLAGS)


def read_configs(folder: Path) -> dict[str, bytes]:
    """Return the config files that stand beside a tokenizer."""
    paths = [folder / name for name in CONFIG_FILES]
    return {path.name: _read(path) for path in paths if os.path.lexists(path)}


def special_of_configs(
    folder: Path, configs: Mapping[str, bytes], vocabulary: Mapping[str, int]
) -> dict[str, Special]:
    """Return roles whose named token is in the vocabulary: {"eos": Special(id=2, token="</s>")}."""
    by_token, by_id = (
        [read_json_object(folder / name, configs[name]) for name in names if name in configs]
        for names in (TOKEN_FILES, ID_FILES)
    )
    token_of = {id: token for token, id in vocabulary.items()}
    found = {}
    for role in ROLES:
        if any(f"{role}_token" in config for config in by_token):
            special = _by_token(by_token, f"{role}_token", vocabulary, folder)
        else:
            special = _by_id(by_id, f"{role}_token_id", token_of)
        if special is not None:
            found[role] = special
    return found


def read_tokenizer_config(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return read_json_object(path, _read(path)) if os.path.lexists(path) else {}


def _by_token(
    configs: list[dict[str, Any]], key: str, vocabulary: Mapping[str, int], folder: Path
) -> Special | None:
    unknown = None
    for config in configs:
        if key in config:
            value = config[key]
            token = value.get("content") if isinstance(value, dict) else value
            if token is None:
                return None
            if isinstance(token, str) and token in vocabulary:
                return Special(id=vocabulary[token], token=token)
            unknown = token
    if unknown is not None and key != "pad_token":  # padding is no part of a document
        raise ConfigError(
            f"the files in {folder} name {short(str(unknown))!r} as {key}, which is not a token of "
            "the tokenizer; fix them, or move them away and name special tokens yourself"
        )
    return None


def _by_id(configs: list[dict[str, Any]], key: str, token_of: Mapping[int, str]) -> Special | None:
    for config in configs:
        value = config.get(key)
        # Several EOS ids: the first is the end of a text, the others end a turn.
        first = value[0] if isinstance(value, list) and value else value
        if type(first) is int and first in token_of:  # true is an int too
            return Special(id=first, token=token_of[first])
    return None


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path)
    except OSError as error:
        raise _unreadable(path, error) from None


def read_json_object(path: Path, data: bytes) -> dict[str, Any]:
    """Return the object in a config file, of which these are the bytes."""
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is not a JSON object; fix it or move it away")
    return config


def _unreadable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        f"{path} cannot be read: {error}; fix it, or move it away and name special tokens yourself"
    )
