"""Write ArrayRecord files, open and check them, with errors that say what to do.

`riegeli` knows where the bytes are in such a file, `documents` and `rows` what a record holds.
"""

from __future__ import annotations

import _thread
import os
import resource
import time
from collections.abc import Iterator, Sequence
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import Any, cast

import numpy as np
import xxhash
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError, ResourceError
from dataprep.pipeline.files import NewFile, Written, commit, lost, temporary, written_at
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.riegeli import hash_records

# Options of every file that is read in random order or mapped.
MAPPABLE = "group_size:1,uncompressed"
WRITER_THREADS = 64  # that ArrayRecord starts with its first file
BYTES_AT_ONCE = 2 << 20  # of records
# Options to read a file from start to end: less than half the time of no options.
IN_ORDER = "readahead_buffer_size:1048576"
HEAP_BYTES = 64 << 20  # of addresses that glibc reserves for a thread, up to eight times a core


_UNREADABLE = (RuntimeError, ValueError, IndexError, OSError)  # what the reader raises


class RecordWriter:
    """ArrayRecord's writer, under a temporary name, whose errors say what to do."""

    def __init__(self, path: Path, options: str) -> None:
        _check_threads()
        self._path, self._temp = path, temporary(path)
        self._options, self._hash, self._sizes = options, xxhash.xxh3_128(), list[int]()
        self._writer = array_record_module.ArrayRecordWriter(str(self._temp), options)

    def write(self, *records: bytes) -> None:
        self._sizes += map(len, records)
        update, write = self._hash.update, self._writer.write
        try:
            for record in records:
                update(record)
                write(record)
        except RuntimeError as error:  # a full disk is one, not an OSError
            raise self._named(error) from None

    def close(self) -> None:
        try:
            self._writer.close()
        except RuntimeError as error:
            raise self._named(error) from None

    def commit(self) -> Written:
        """Close the file and make it durable under its name, if its records are those written.

        The bytes of the file are ArrayRecord's own, so they are hashed when they are in it, and its
        records are read back from these very bytes: if they are those that were written, the hash
        is of a file that has them. What is between records has riegeli's checksums.
        """
        self.close()
        _check_footer(self._temp, len(self._sizes))
        found = ""

        def hash_both(path: Path) -> str:
            nonlocal found
            whole, found = _hashes(path, self._options, self._sizes)
            return whole

        written = written_at(self._temp, hash_both)
        if found != self._hash.hexdigest():
            raise lost(self._temp)
        commit(self._temp, self._path)
        return written

    def _named(self, error: RuntimeError) -> ResourceError:
        return ResourceError(
            f"cannot write {self._temp}: {error}; make room and run the same command again"
        )


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


def save_array(path: Path, array: NDArray[Any]) -> NewFile:
    """Write an array; the file is still to be committed."""
    file = NewFile(path)
    np.save(cast(Any, file), array)
    file.close()
    return file


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
    reader = open_records(path, shard.num_records, IN_ORDER)
    last = 0
    try:
        for first, records in _in_order(reader, shard.num_records, shard.num_bytes):
            yield first, records
            last = first + len(records)
    except _UNREADABLE as error:
        raise CorruptError(f"cannot read {path} from record {last} on: {error}") from None
    reader.close()


def _in_order(reader: Any, num_records: int, num_bytes: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield all records, many at a time, with the number of the first; raise _UNREADABLE."""
    step = max(1, BYTES_AT_ONCE * num_records // max(1, num_bytes))
    for first in range(0, num_records, step):
        stop = min(first + step, num_records)
        records: list[bytes] = reader.read(first, stop)
        if len(records) != stop - first:
            raise ValueError("records are missing")
        yield first, records


def _hashes(path: Path, options: str, sizes: Sequence[int]) -> tuple[str, str]:
    """Return the xxh3-128 of a file and of its records, one after another."""
    if options == MAPPABLE:
        return hash_records(path, np.array(sizes, np.int64))
    whole, found = hash_file(path), xxhash.xxh3_128()
    reader = open_records(path, len(sizes), IN_ORDER)
    try:
        for _, records in _in_order(reader, len(sizes), sum(sizes)):
            for record in records:
                found.update(record)
    except _UNREADABLE:
        raise lost(path) from None
    reader.close()
    return whole, found.hexdigest()


def _check_footer(path: Path, num_records: int) -> None:
    """Read the footer of a new file: it may be the only sign that the disk was full."""
    try:
        open_records(path, num_records).close()
    except CorruptError:
        raise ResourceError(
            f"{path} was not written completely; run the same command again"
        ) from None
