"""Hash the content of local files; hashes are cached while the files stay as they are.

    cache/hashes/1f0c….msgpack      one cache file for each folder
        a.jsonl   size, mtime, ctime, inode ─► 99aa06d3…

A cached hash is used for a file that has the same four numbers. The hash of a file that was written
less than two seconds ago is not cached: the file could change again within the resolution of the
clock and look the same. Folders with few bytes in few files are hashed each time, which is as fast
as using the cache. A cache file that cannot be read or written is not an error.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec
import xxhash

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.opening import check_regular, open_regular, read_bounded
from dataprep.pipeline.threads.several import in_threads

ABSENT = "absent"
PREFIX = "xxh3-128:"
_SETTLED_NS = 2_000_000_000
_CACHED_BYTES = 1 << 20  # of the files of one folder together, at least
_OPEN_BYTES = 1 << 13  # to open a file takes as long as to read so many bytes more
_READ_BYTES = 4 << 20
_THREADS = 8
_CHUNK = 256  # files that a thread takes at once, if they are small

Mark = tuple[int, int, int, int]  # size, mtime, ctime, inode
HashCache = dict[str, tuple[Mark, str]]  # by file name


def fingerprint_file(path: str, cache_dir: Path | None) -> tuple[int, str]:
    return fingerprint_files([path], cache_dir)[0]


def fingerprint_files(paths: Sequence[str], cache_dir: Path | None) -> list[tuple[int, str]]:
    """Return (size, `xxh3-128:` + hex) of each file."""
    marks = _marks(paths)
    hashed = _hash_all(paths, marks, cache_dir)
    found: list[tuple[int, str]] = []
    for path, mark, digest in zip(paths, marks, hashed, strict=True):
        if isinstance(digest, OSError):
            raise _unreadable(path, digest) from digest
        found.append((mark[0], f"{PREFIX}{digest}"))
    return found


def unread_files(paths: Sequence[str]) -> list[tuple[int, str]]:
    """Return (size, "") of each file, for those who only look at their beginnings."""
    return [(mark[0], "") for mark in _marks(paths)]


def _marks(paths: Sequence[str]) -> list[Mark]:
    marks: list[Mark] = []
    for path in paths:
        try:
            marks.append(_mark(check_regular(path)))
        except OSError as error:
            raise _unreadable(path, error) from error
    return marks


def hash_files(folder: str, names: Sequence[str], cache_dir: Path | None) -> list[str]:
    """Return the xxh3-128 of each file below `folder`, in hex; ABSENT for a file that cannot be
    read, which is reported when it is decoded."""
    found: dict[str, Mark] = {}
    for name in names:
        with suppress(OSError, ValueError):  # ValueError: a name that no file can have
            path = os.path.join(folder, name)
            found[path] = _mark(check_regular(path))
    hashed = dict(zip(found, _hash_all(list(found), list(found.values()), cache_dir), strict=True))
    digests = (hashed.get(os.path.join(folder, name), ABSENT) for name in names)
    return [digest if isinstance(digest, str) else ABSENT for digest in digests]


def combine(names: Sequence[str], hashes: Sequence[str]) -> str:
    """Return one fingerprint of several files, made from their names and hashes."""
    state = xxhash.xxh3_128()
    for name, digest in zip(names, hashes, strict=True):
        state.update(f"{name}\0{digest}\n".encode())
    return f"{PREFIX}{state.hexdigest()}"


def _unreadable(path: str, error: OSError) -> InputError:
    return InputError(f"cannot read {path}: {error.strerror or error}")


def _mark(stat: os.stat_result) -> Mark:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _hash_all(
    paths: Sequence[str], marks: Sequence[Mark], cache_dir: Path | None
) -> list[str | OSError]:
    """Return the hash of each file, or the error of reading it; `marks` were taken just now."""
    settled_before = time.time_ns() - _SETTLED_NS
    places = [os.path.split(path) for path in paths]
    caches: dict[str, HashCache] = {}
    if cache_dir is not None:
        caches = {f: _read_cache(_place(f, cache_dir)) for f in _large_folders(places, marks)}
    hashed: dict[int, str | OSError] = {}
    for i, (folder, name) in enumerate(places):
        known = caches[folder].get(name) if folder in caches else None
        if known is not None and known[0] == marks[i]:
            hashed[i] = known[1]
    new: dict[str, HashCache] = {}
    for i, digest in _hash_each(paths, marks, [i for i in range(len(paths)) if i not in hashed]):
        hashed[i] = digest
        folder, name = places[i]
        if folder in caches and isinstance(digest, str) and marks[i][1] < settled_before:
            new.setdefault(folder, {})[name] = (marks[i], digest)
    if cache_dir is not None:
        for folder, found in new.items():
            _write_cache(folder, _place(folder, cache_dir), caches[folder] | found)
    return [hashed[i] for i in range(len(paths))]


def _large_folders(places: Sequence[tuple[str, str]], marks: Sequence[Mark]) -> list[str]:
    """Return the folders with enough bytes and files to be worth a cache file."""
    totals = Counter[str]()
    for (folder, _), mark in zip(places, marks, strict=True):
        totals[folder] += mark[0] + _OPEN_BYTES
    return [folder for folder, total in totals.items() if total >= _CACHED_BYTES]


def _hash_each(
    paths: Sequence[str], marks: Sequence[Mark], chosen: Sequence[int]
) -> Iterator[tuple[int, str | OSError]]:
    """Yield the chosen files with their hashes; several are read at once."""

    def hash_chunk(chunk: list[int]) -> list[tuple[int, str | OSError]]:
        return [(i, _hash(paths[i], marks[i])) for i in chunk]

    chunks = list(_chunks(chosen, [marks[i][0] for i in chosen]))
    return chain.from_iterable(in_threads(hash_chunk, chunks, _THREADS))


def _chunks(items: Iterable[int], sizes: Iterable[int]) -> Iterator[list[int]]:
    """Group neighbours until a group is large or has many files."""
    chunk: list[int] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        chunk.append(item)
        total += size
        if len(chunk) == _CHUNK or total >= _READ_BYTES:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def _hash(path: str, mark: Mark) -> str | OSError:
    try:
        with open_regular(path) as file:
            state = xxhash.xxh3_128()
            buffer = memoryview(bytearray(min(mark[0] + 1, _READ_BYTES)))
            while (count := file.readinto(buffer)) > 0:
                state.update(buffer[:count])
            after = _mark(os.fstat(file.fileno()))
    except OSError as error:
        return error
    if after != mark:
        raise InputError(f"{path} changed while it was read; run again when it is complete")
    return state.hexdigest()


def _place(folder: str, cache_dir: Path) -> Path:
    name = xxhash.xxh3_128_hexdigest(os.fsencode(os.path.abspath(folder)))
    return cache_dir / "hashes" / f"{name}.msgpack"


def _read_cache(place: Path) -> HashCache:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.msgpack.decode(read_bounded(place), type=HashCache)
    return {}


def _write_cache(folder: str, place: Path, cache: HashCache) -> None:
    with suppress(OSError, UnicodeEncodeError):  # UnicodeEncodeError: a name that is not UTF-8
        present = set(os.listdir(folder))
        kept = {name: known for name, known in cache.items() if name in present}
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.msgpack.encode(kept))
            os.replace(temporary, place)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
