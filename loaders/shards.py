"""The rows of a packed dataset as bytes, from all of its shards at once.

    rows [1, 0, 2]  ─►  memory   of all files, end to end
                        first    [160, 107, 131179]        row 2 is the first of the second file
                        size     [10, 10, 12]

Uncompressed shards are mapped. Opening checks the size of every file, the index that says how long
its rows are, and that the file's own footer starts where the index says. So no row can lie outside
of its file, and reading needs no further check of places. Compressed shards, and those on a file
system that cannot map, are read by the official reader, with the same results.

Shards are immutable: cutting a mapped file short while it is in use ends the process.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.loaders.gather import RowBytes
from dataprep.loaders.paging import MappedFiles
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.riegeli import footer_start, record_starts
from dataprep.pipeline.types import Offsets


class Shards(Protocol):
    def fetch(self, rows: Offsets) -> RowBytes:
        """Return where the bytes of these rows are."""
        ...

    def will_need(self, rows: Offsets) -> None:
        """Start to read rows that are fetched soon."""
        ...


def open_shards(folder: Path, manifest: PackedManifest, least: int) -> Shards:
    """Open all shards of a packed dataset; `least` is the size in bytes of the smallest row."""
    check_sizes(folder, manifest.shards)
    if manifest.compression == "none":
        try:
            return MappedShards(folder, manifest.shards, least)
        except OSError as error:
            message = f"cannot map {folder} ({error}); it is read in another way, which is slower"
            warnings.warn(message, stacklevel=2)
    return ReadShards(folder, manifest.shards, least)


class MappedShards:
    """Mapped files. Takes 12 bytes of memory for each row; the rest is the system's page cache."""

    def __init__(self, folder: Path, shards: Sequence[RowShard], least: int) -> None:
        total = sum(shard.num_records for shard in shards)
        self._first = np.empty(total, np.int64)  # byte of the mapped memory
        self._size = np.empty(total, np.uint32)
        row = place = 0
        for shard in shards:
            sizes = read_index(folder, shard, least)
            starts, footer = record_starts(sizes)
            check_footer(folder / shard.path, shard.num_bytes, footer)
            rows = slice(row, row + len(sizes))
            self._first[rows], self._size[rows] = starts + place, sizes
            row, place = row + len(sizes), place + shard.num_bytes
        files = [(folder / shard.path, shard.num_bytes) for shard in shards]
        self._files = MappedFiles(files)

    def fetch(self, rows: Offsets) -> RowBytes:
        return RowBytes(
            memory=self._files.memory,
            first=self._first[rows],
            size=self._size[rows].astype(np.int64),
            in_blocks=True,
        )

    def will_need(self, rows: Offsets) -> None:
        # The block headers inside of a row are not counted: at most its last bytes are left out.
        self._files.will_need(self._first[rows], self._size[rows].astype(np.int64))


class ReadShards:
    """Files read by the official reader: for a batch, all rows of one shard at a time."""

    def __init__(self, folder: Path, shards: Sequence[RowShard], least: int) -> None:
        self._folder, self._shards = folder, shards
        self._starts = offsets_of([shard.num_records for shard in shards])
        self._open = lru_cache(maxsize=256)(self._open_reader)
        indexes = (read_index(folder, shard, least) for shard in shards)
        self._size = np.concatenate([np.zeros(0, np.uint32), *indexes])

    def fetch(self, rows: Offsets) -> RowBytes:
        payloads: list[bytes] = [b""] * len(rows)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            wanted = (rows[places] - self._starts[number]).tolist()
            for place, payload in zip(places.tolist(), self._read(number, wanted), strict=True):
                payloads[place] = payload
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        if (sizes != self._size[rows]).any():
            raise CorruptError(f"rows of {self._folder} have other sizes than its index says")
        return RowBytes(
            memory=np.frombuffer(b"".join(payloads), np.uint8),
            first=offsets_of(sizes)[:-1],
            size=sizes,
            in_blocks=False,
        )

    def will_need(self, rows: Offsets) -> None:
        """Do nothing: the official reader cannot be told."""

    def _read(self, number: int, records: list[int]) -> list[bytes]:
        path = self._folder / self._shards[number].path
        try:
            found: list[bytes] = self._open(number).read(records)
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            raise CorruptError(f"cannot read {path}: {error}") from None
        if not all(found):
            raise CorruptError(f"records of {path} are gone: the file changed underneath")
        return found

    def _open_reader(self, number: int) -> Any:
        shard = self._shards[number]
        return open_reader(self._folder / shard.path, shard.num_records)


def check_sizes(folder: Path, shards: Iterable[RowShard | DocumentShard]) -> None:
    """Raise a CorruptError if a shard or its index is not as long as the manifest says."""
    for shard in shards:
        for entry in (shard, shard.index):
            path, num_bytes = folder / entry.path, entry.num_bytes
            try:
                actual = path.stat().st_size
            except OSError as error:
                raise CorruptError(f"{path} cannot be opened: {error.strerror}") from None
            if actual != num_bytes:
                raise CorruptError(f"{path} has {actual} bytes, the manifest says {num_bytes}")


def open_reader(path: Path, num_records: int) -> Any:
    """Open a shard with the official reader, and check that it is whole."""
    reader = array_record_module.ArrayRecordReader(str(path), "readahead_buffer_size:0")
    # It opens damaged files without an error.
    if not reader.ok() or reader.num_records() != num_records:
        raise CorruptError(
            f"{path} is damaged: its footer does not list the records of the manifest "
            f"({num_records})"
        )
    return reader


def read_index(folder: Path, shard: RowShard, least: int) -> NDArray[np.uint32]:
    """Return the size in bytes of each row of a shard."""
    path = folder / shard.index.path
    try:
        sizes: NDArray[np.uint32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptError(f"{path} is damaged: {error}") from None
    if sizes.dtype != np.uint32 or sizes.shape != (shard.num_records,):
        raise CorruptError(f"{path} does not list the rows of its shard ({shard.num_records})")
    if len(sizes) and int(sizes.min()) < least:
        raise CorruptError(f"{path} lists a row of {sizes.min()} bytes, the least is {least}")
    return sizes


def check_footer(path: Path, num_bytes: int, expected: int) -> None:
    """Raise a CorruptError if the footer of a shard is not where its index says."""
    found = footer_start(path, num_bytes)
    if found != expected:
        raise CorruptError(
            f"{path} is damaged or of another dataset: its rows end at byte {found}, "
            f"its index says {expected}"
        )
