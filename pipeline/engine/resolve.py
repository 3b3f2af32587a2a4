"""Find a tokenizer by name and describe it.

    bytes                      UTF-8 bytes as ids, needs no file
    path/to/tokenizer.json     Hugging Face tokenizers
    path/to/folder             its tokenizer.json, else its tokenizer.model
    path/to/some.model         SentencePiece
    org/name                   the same two files, from the Hugging Face hub or its local cache

What is found is `TokenizerFiles`. `special` finds which ids are BOS, EOS and padding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.pipeline.engine.facts import remembered
from dataprep.pipeline.engine.files import TokenizerFiles, read_file, sha256_of
from dataprep.pipeline.engine.hub import fetch, looks_like_hub_name, not_found
from dataprep.pipeline.engine.models import DEFINING, model_of_file
from dataprep.pipeline.engine.models.model import TokenizerModel
from dataprep.pipeline.engine.models.utf8 import DEFINITION, Utf8Model
from dataprep.pipeline.engine.special import read_configs
from dataprep.pipeline.errors import ConfigError, short


def resolve_tokenizer(name: str, cache_dir: Path | None = None) -> TokenizerFiles:
    """Find a tokenizer; what earlier runs found out about it is kept in the cache."""
    if name == "bytes":
        return _described(Utf8Model, "", DEFINITION, {})
    path = Path(os.path.expanduser(name))  # Path.expanduser raises for a user who is not known
    if path.is_dir():
        return _describe(_defining_file(path), cache_dir)
    if path.exists():
        return _describe(path.absolute(), cache_dir)
    if looks_like_hub_name(name):
        found = fetch(name)
        return replace(_describe(found.path, cache_dir), note=found.note)
    raise not_found(name, "it is not a hub name")


def _defining_file(folder: Path) -> Path:
    for name in DEFINING:
        if (folder / name).is_file():
            return (folder / name).absolute()
    raise ConfigError(
        f"folder {folder.absolute()} has neither tokenizer.json nor tokenizer.model; name the file "
        "itself, or save the tokenizer there with `save_pretrained`"
    )


def _describe(path: Path, cache_dir: Path | None) -> TokenizerFiles:
    model, data = model_of_file(path), read_file(path)
    configs = read_configs(path.parent) if model.has_configs else {}
    depends_on = {
        "sha256": sha256_of(data),
        # They decide which ids are BOS, EOS and padding.
        "configs": {name: sha256_of(config) for name, config in configs.items()},
    }
    describe = partial(_described, model, str(path), data, configs)
    found = remembered(cache_dir, model.parser, depends_on, TokenizerFiles, describe)
    return replace(found, path=str(path))


def _described(
    kind: type[TokenizerModel], path: str, data: bytes, configs: Mapping[str, bytes]
) -> TokenizerFiles:
    unknown = TokenizerFiles(kind=kind.kind, path=path, sha256=sha256_of(data), vocab_size=0)
    model = kind(unknown, data)
    vocabulary = model.vocabulary()
    if not vocabulary:
        raise ConfigError(f"{path} has an empty vocabulary; name another tokenizer")
    largest = max(vocabulary, key=vocabulary.__getitem__)
    if vocabulary[largest] >= 1 << 31:
        raise ConfigError(
            f"{path} gives {short(largest)!r} the id {vocabulary[largest]}, but batches hold "
            "32-bit integers; name a tokenizer whose ids are below 2147483648"
        )
    roles: dict[str, Any] = {}  # {"bos_id": 1, "bos_token": "<s>"}
    for role, found in model.roles(vocabulary, configs).items():
        roles[f"{role}_id"], roles[f"{role}_token"] = found.id, found.token
    files = replace(unknown, vocab_size=vocabulary[largest] + 1, **roles)
    return replace(files, special=model.special(files), random=model.random())
