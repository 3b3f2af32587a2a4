"""The fingerprint of a local file: a hash of its content, remembered while the file stays as it is.

The memory is one small JSON file for each path, valid for one (size, mtime, ctime, inode). A file
that was written less than two seconds ago is not remembered: it could change again within the
clock's grain and look the same. A memory that cannot be read or written is no error.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import xxhash

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.stream import naming

_READ_BYTES = 4 << 20
_SETTLED_NS = 2_000_000_000


def fingerprint_file(path: str, cache_dir: Path | None) -> tuple[int, str]:
    """(size, `xxh3-128:` + hex of the whole content)."""
    with naming(path):
        before = os.stat(path)
        remembered = _recall(path, before, cache_dir)
        if remembered is not None:
            return before.st_size, remembered
        settled = time.time_ns() - before.st_mtime_ns > _SETTLED_NS
        fingerprint = f"xxh3-128:{_hash(path)}"
        after = os.stat(path)
    if _identity(before) != _identity(after):
        raise InputError(f"{path} changed while it was read; start again when it is complete")
    if cache_dir is not None and settled:
        _remember(path, before, cache_dir, fingerprint)
    return before.st_size, fingerprint


def _hash(path: str) -> str:
    state = xxhash.xxh3_128()
    buffer = memoryview(bytearray(_READ_BYTES))
    with open(path, "rb", buffering=0) as file:
        while (count := file.readinto(buffer)) > 0:
            state.update(buffer[:count])
    return state.hexdigest()


def _identity(stat: os.stat_result) -> list[int]:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _memory_path(path: str, cache_dir: Path) -> Path:
    name = xxhash.xxh3_128_hexdigest(os.fsencode(os.path.abspath(path)))
    return cache_dir / "sources" / f"{name}.json"


def _recall(path: str, stat: os.stat_result, cache_dir: Path | None) -> str | None:
    if cache_dir is None:
        return None
    try:
        memory = json.loads(_memory_path(path, cache_dir).read_bytes())
        fingerprint = memory["fingerprint"]
        valid = memory["identity"] == _identity(stat) and fingerprint.startswith("xxh3-128:")
        return str(fingerprint) if valid else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _remember(path: str, stat: os.stat_result, cache_dir: Path, fingerprint: str) -> None:
    target = _memory_path(path, cache_dir)
    memory = {"path": path, "identity": _identity(stat), "fingerprint": fingerprint}
    with suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(memory, file)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
