"""Hashes of the content of many small files, remembered in one file for all of them.

A remembered hash is good while size, times and inode stay; a file that was written less than two
seconds ago is not remembered (see `sources.fingerprint`, which is for one large file). A memory
that cannot be read or written is no error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import xxhash

from dataprep.pipeline.files import write_atomic

ABSENT = "absent"
_SETTLED_NS = 2_000_000_000
_THREADS = 8
_CHUNK = 256  # files a thread takes at once
_READ_BYTES = 1 << 20

# size, mtime, ctime, inode, hash
Memory = dict[str, tuple[int, int, int, int, str]]


def hash_files(folder: str, names: Sequence[str], cache_dir: Path | None) -> list[str]:
    """xxh3-128 of each file below `folder`, in hex; ABSENT for what cannot be read.

    Why it cannot is told by who tries to decode it.
    """
    place = _memory_path(folder, cache_dir)
    memory = _recall(place)
    settled_before = time.time_ns() - _SETTLED_NS
    kept: Memory = {}

    def hash_one(name: str) -> str:
        path = os.path.join(folder, name)
        try:
            stat = os.stat(path)
            mark = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            known = memory.get(name)
            digest = known[4] if known and known[:4] == mark else _hash(path)
        except (OSError, ValueError):  # also for a name that cannot be one
            return ABSENT
        if stat.st_mtime_ns < settled_before:
            kept[name] = (*mark, digest)
        return digest

    with ThreadPoolExecutor(_THREADS) as pool:
        hashes = list(pool.map(hash_one, names, chunksize=_CHUNK))
    if place is not None and kept != memory:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, msgspec.msgpack.encode(kept))
    return hashes


def _hash(path: str) -> str:
    state = xxhash.xxh3_128()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(_READ_BYTES):
            state.update(data)
    return state.hexdigest()


def combine(names: Sequence[str], hashes: Sequence[str]) -> str:
    """One fingerprint of files by name and content."""
    state = xxhash.xxh3_128()
    for name, digest in zip(names, hashes, strict=True):
        state.update(f"{name}\0{digest}\n".encode())
    return f"xxh3-128:{state.hexdigest()}"


def _memory_path(folder: str, cache_dir: Path | None) -> Path | None:
    if cache_dir is None:
        return None
    name = xxhash.xxh3_128_hexdigest(os.fsencode(os.path.abspath(folder)))
    return cache_dir / "media" / f"{name}.msgpack"


def _recall(place: Path | None) -> Memory:
    if place is not None:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.msgpack.decode(place.read_bytes(), type=Memory)
    return {}
