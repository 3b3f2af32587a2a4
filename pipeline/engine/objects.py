"""Tokenizers that a Python program holds: their files, saved where `resolve` finds them.

    a fast tokenizer of transformers   ─►   CACHE/tokenizers/9f86d0…/tokenizer.json, its config,
                                            its chat template
    a Tokenizer of tokenizers          ─►   CACHE/tokenizers/2c26b4…/tokenizer.json

The folder is named by the content of its files, and stays: datasets name it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import make_folder, write_atomic

_FOLDER = "tokenizers"


def name_of_tokenizer(given: Any, cache_dir: Path) -> str:
    """Return the name of a tokenizer: a path or name as it is, or the folder it is saved to."""
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    files = _files_of(given)
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    folder = cache_dir / _FOLDER / digest.hexdigest()[:32]
    for name, data in files.items():
        if not (folder / name).is_file():
            make_folder(folder)
            write_atomic(folder / name, data)
    return str(folder)


def _files_of(given: Any) -> dict[str, bytes]:
    if getattr(given, "is_fast", False) and hasattr(given, "save_pretrained"):
        with tempfile.TemporaryDirectory() as folder:
            given.save_pretrained(folder)
            kept = (p for p in Path(folder).iterdir() if p.suffix in (".json", ".jinja"))
            return {path.name: path.read_bytes() for path in kept}
    if hasattr(given, "is_fast"):
        raise ConfigError(
            f"{type(given).__name__} is a slow tokenizer of transformers, which only it can run; "
            "load it with use_fast=True, or name its .model file"
        )
    if hasattr(given, "to_str") and hasattr(given, "get_vocab"):
        return {"tokenizer.json": given.to_str().encode("utf-8")}
    raise ConfigError(
        f"{type(given).__name__} is no tokenizer; give a path, a hub name, a fast tokenizer of "
        "transformers or a Tokenizer of tokenizers"
    )
