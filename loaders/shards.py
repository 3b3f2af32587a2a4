"""The rows of a packed dataset as bytes, from all of its shards at once.

    rows [1, 0, 2]  ─►  memory   of all files, end to end
                        first    [160, 107, 131179]        row 2 is the first of the second file
                        size     [10, 10, 12]

Uncompressed shards are mapped. Opening checks the size of every file, the index that says how long
its rows are, and that the file's own footer starts where the index says. So no row can lie outside
of its file, and reading needs no further check of places. Compressed shards, and those on a file
system that cannot map, are read by the official reader, with the same results.

Before the first row of a shard is read, its bytes are proven (`whole`). Once all are, a read costs
little more than a look at the clock: about once a second `Watch` asks the system whether a mapped
file changed, which is then proven again before its next row is read. A file that was
deleted or replaced lives on in the map.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.gather import RowBytes
from dataprep.loaders.paging import MappedFiles
from dataprep.loaders.ranged import RangedShards
from dataprep.loaders.watch import Watch
from dataprep.loaders.whole import Verify, check_places, prove, prove_bytes
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.objects import is_remote
from dataprep.pipeline.storage.parts import check_parts_there
from dataprep.pipeline.storage.riegeli import check_footer, locate, record_starts
from dataprep.pipeline.types import Offsets

AnyShard = RowShard | DocumentShard


class Shards(Protocol):
    def fetch(self, rows: Offsets) -> RowBytes:
        """Return where the bytes of these rows are, which are proven."""
        ...

    def check(self) -> None:
        """Raise a CorruptError if a file changed while rows were read that `fetch` returned."""
        ...

    def prove_all(self) -> None:
        """Raise a CorruptError unless every shard is as it was written."""
        ...

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
        """Start to read rows that are fetched soon; `part`: of each only so many bytes, from one
        on, as (first, number)."""
        ...


def open_shards(
    folder: Path, manifest: PackedManifest, least: int, verify: Verify = "lazy"
) -> Shards:
    """Open all shards of a packed dataset; `least` is the size in bytes of the smallest row."""
    if is_remote(folder):
        return RangedShards(folder, manifest, least, verify)
    check_places(folder, [entry for shard in manifest.shards for entry in (shard, shard.index)])
    sizes = [read_index(folder, shard, least, verify) for shard in manifest.shards]
    is_mapped = manifest.compression == "none"
    shards = _open(folder, manifest.shards, sizes, verify, is_mapped=is_mapped)
    if verify == "open":
        shards.prove_all()
    return shards


def open_document_shards(folder: Path, manifest: TokenizedManifest, verify: Verify) -> Shards:
    """Open all shards of a tokenized dataset, whose rows are its records: many documents each."""
    sizes = [np.array(shard.record_bytes, np.uint32) for shard in manifest.shards]
    return _open(folder, manifest.shards, sizes, verify)


def _open(
    folder: Path,
    shards: Sequence[AnyShard],
    sizes: Sequence[NDArray[np.uint32]],
    verify: Verify,
    *,
    is_mapped: bool = True,
) -> Shards:
    if is_mapped:
        try:
            return MappedShards(folder, shards, sizes, verify)
        except OSError as error:
            message = f"cannot map {folder} ({error}); it is read in another way, which is slower"
            warnings.warn(message, stacklevel=2)
    return ReadShards(folder, shards, sizes, verify)


class MappedShards:
    """Mapped files. Takes 12 bytes of memory for each row; the rest is the system's page cache."""

    def __init__(
        self,
        folder: Path,
        shards: Sequence[AnyShard],
        sizes: Sequence[NDArray[np.uint32]],
        verify: Verify,
    ) -> None:
        self._starts = offsets_of([shard.num_records for shard in shards])
        self._first = np.empty(int(self._starts[-1]), np.int64)  # byte of the mapped memory
        self._size = np.concatenate([np.zeros(0, np.uint32), *sizes])
        self._places = offsets_of([shard.num_bytes for shard in shards])
        for number, shard in enumerate(shards):
            starts, footer = record_starts(sizes[number])
            check_footer(folder / shard.path, shard.num_bytes, footer)
            rows = slice(self._starts[number], self._starts[number + 1])
            self._first[rows] = starts + self._places[number]
        self._folder, self._shards = folder, shards
        self._files = MappedFiles([(folder / shard.path, shard.num_bytes) for shard in shards])
        self._is_checked = verify != "off"
        self._proven = np.zeros(len(shards), np.int64)  # the changes that are
        self._watch = Watch(self._files, [folder / shard.path for shard in shards])

    def fetch(self, rows: Offsets) -> RowBytes:
        self._watch.before_reading()
        changes = self._watch.changes
        if self._is_checked and (changes != self._proven).any():
            numbers = np.unique(np.searchsorted(self._starts, rows, side="right") - 1)
            for number in numbers[changes[numbers] != self._proven[numbers]].tolist():
                self._prove(number)
        return RowBytes(
            memory=self._files.memory,
            first=self._first[rows],
            size=self._size[rows].astype(np.int64),
            in_blocks=True,
        )

    def check(self) -> None:
        self._watch.after_reading()

    def prove_all(self) -> None:
        for number in range(len(self._shards)):
            self._prove(number)

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
        # The block headers inside of a row are not counted: at most its last bytes are left out.
        first, size = self._first[rows], self._size[rows].astype(np.int64)
        if part is not None:
            start = np.minimum(part[0], size)  # an index may say more than the row has
            first, size = locate(first, start)[0], np.minimum(part[1], size - start)
        self._files.will_need(first, size)

    def _prove(self, number: int) -> None:
        shard, changes = self._shards[number], self._watch.changes[number]
        if self._watch.current(number) is not None:
            prove(self._folder, shard)
        else:  # deleted or replaced since it was mapped
            place = slice(self._places[number], self._places[number + 1])
            prove_bytes(self._folder / shard.path, self._files.memory[place], shard)
        self._proven[number] = changes


class ReadShards:
    """Files read by the official reader: for a batch, all rows of one shard at a time."""

    def __init__(
        self,
        folder: Path,
        shards: Sequence[AnyShard],
        sizes: Sequence[NDArray[np.uint32]],
        verify: Verify,
    ) -> None:
        self._folder, self._shards = folder, shards
        self._starts = offsets_of([shard.num_records for shard in shards])
        # Not a method: a cycle would keep what is dropped, with its open files.
        self._open = lru_cache(maxsize=256)(lambda i: open_proven(folder, shards[i], verify))
        self._size = np.concatenate([np.zeros(0, np.uint32), *sizes])

    def fetch(self, rows: Offsets) -> RowBytes:
        own, owner = np.unique(rows, return_inverse=True)  # documents may share a record
        return self._fetch(own).part(owner)

    def _fetch(self, rows: Offsets) -> RowBytes:
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

    def check(self) -> None:
        """Do nothing: the official reader checks each record that it reads."""

    def prove_all(self) -> None:
        for shard in self._shards:
            prove(self._folder, shard)

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
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


class RemovedShards:
    """Files that are not there any more, of a generation that nobody needs to read again."""

    def __init__(self, folder: Path, manifest: PackedManifest) -> None:
        self._folder, self._manifest = folder, manifest

    def fetch(self, rows: Offsets) -> RowBytes:
        check_parts_there(self._folder, self._manifest)
        raise ConfigError(f"{self._folder} changed while it was open; open it again")

    def check(self) -> None:
        """Do nothing: nothing was read."""

    def prove_all(self) -> None:
        """Do nothing: there is nothing to be read."""

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
        """Do nothing: `fetch` says what is wrong."""


def open_proven(folder: Path, shard: AnyShard, verify: Verify) -> Any:
    """Open a shard with the official reader, proven unless `verify` is off."""
    # Rows that are mapped, as nearly all are, do not need it.
    from dataprep.pipeline.storage.arrayrecord import open_records

    if verify != "off":
        prove(folder, shard)
    return open_records(folder / shard.path, shard.num_records, "readahead_buffer_size:0")


def read_index(folder: Path, shard: RowShard, least: int, verify: Verify) -> NDArray[np.uint32]:
    """Return the size in bytes of each row of a shard."""
    sizes: NDArray[np.uint32] = read_array(
        folder, shard.index, U32, shard.num_records, is_hashed=verify != "off"
    )
    if len(sizes) and int(sizes.min()) < least:
        path = folder / shard.index.path
        raise CorruptError(f"{path} lists a row of {sizes.min()} bytes, the least is {least}")
    return sizes
