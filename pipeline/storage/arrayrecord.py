"""Write ArrayRecord files, open and check them, with errors that say what to do.

`riegeli` knows where the bytes are in such a file, `documents` and `rows` what a record holds.
"""

from __future__ import annotations

import _thread
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from mmap import mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError, ResourceError
from dataprep.pipeline.storage.entries import DocumentShard, RowShard

# Options of every file that is read in random order or mapped.
MAPPABLE = "group_size:1,uncompressed"
WRITER_THREADS = 64  # that ArrayRecord starts with its first file
BYTES_AT_ONCE = 2 << 20  # of records
HEAP_BYTES = 64 << 20  # of addresses that glibc reserves for a thread, up to eight times a core


class RecordWriter:
    """ArrayRecord's writer, whose errors say what to do."""

    def __init__(self, path: Path, options: str) -> None:
        _check_threads()
        self._path = path
        self._writer = array_record_module.ArrayRecordWriter(str(path), options)

    def write(self, *records: bytes) -> None:
        with self._errors_named():
            for record in records:
                self._writer.write(record)

    def close(self) -> None:
        with self._errors_named():
            self._writer.close()

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # a full disk is one, not an OSError
            raise ResourceError(
                f"cannot write {self._path}: {error}; make room and run the same command again"
            ) from None


@cache
def _check_threads() -> None:
    """Raise if ArrayRecord could not start its threads: it would wait for them for ever."""
    if not (_has_room_for_stacks() and _can_start_threads()):
        raise ResourceError(
            f"cannot start {WRITER_THREADS} threads to write shards; use fewer --workers, or raise "
            "the limit on memory (ulimit -v) or on processes (ulimit -u)"
        )


def _has_room_for_stacks() -> bool:
    """Return whether a limit on addresses leaves room for a stack and a heap for each thread."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return True
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    stacks = WRITER_THREADS * (8 << 20 if stack == resource.RLIM_INFINITY else stack)
    heaps = min(WRITER_THREADS, 8 * (os.cpu_count() or 1)) * HEAP_BYTES
    try:
        mmap(-1, stacks + heaps).close()
    except OSError:
        return False
    return True


def _can_start_threads() -> bool:
    """Return whether the system lets us have so many; they are gone when this returns."""
    before, gate = _thread._count(), _thread.allocate_lock()

    def wait() -> None:
        with gate:
            pass

    with gate:
        try:
            # Not `threading`: its `start` waits for ever for a thread that has no memory to begin.
            for _ in range(WRITER_THREADS):
                _thread.start_new_thread(wait, ())
        except RuntimeError:
            return False
    while _thread._count() > before:
        time.sleep(0.001)
    return True


def save_array(path: Path, array: NDArray[Any]) -> None:
    with open(path, "wb") as file:
        # NumPy writes to a file in a way of its own, whose errors do not say that a disk is full.
        np.save(cast(Any, SimpleNamespace(write=file.write)), array)


def open_records(path: Path, num_records: int, options: str = "") -> Any:
    """Open a file with ArrayRecord's reader; raise CorruptError unless it lists so many records."""
    try:
        reader = array_record_module.ArrayRecordReader(str(path), options)
    except (RuntimeError, ValueError, OSError) as error:
        raise CorruptError(f"{path} cannot be opened: {error}") from None
    # It opens damaged files without an error.
    if not reader.ok() or reader.num_records() != num_records:
        raise CorruptError(
            f"{path} is damaged: its footer does not list the records of its manifest "
            f"({num_records:,})"
        )
    return reader


def read_records(
    folder: Path, shard: DocumentShard | RowShard
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield all records of a shard, many at a time, with the number of the first."""
    path = folder / shard.path
    reader = open_records(path, shard.num_records)
    step = max(1, BYTES_AT_ONCE * shard.num_records // max(1, shard.num_bytes))
    for first in range(0, shard.num_records, step):
        numbers = list(range(first, min(first + step, shard.num_records)))
        try:
            records: list[bytes] = reader.read(numbers)
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            raise CorruptError(f"cannot read {path}: {error}") from None
        if len(records) != len(numbers):
            raise CorruptError(f"{path} is damaged: records are missing from {first} on")
        yield first, records
    reader.close()


def check_written(path: Path, num_records: int) -> None:
    """Read the file's footer back: it may be the only sign that the disk was full."""
    try:
        open_records(path, num_records).close()
    except CorruptError:
        raise ResourceError(
            f"{path} was not written completely; run the same command again"
        ) from None
