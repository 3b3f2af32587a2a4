"""Shards that are fetched when they are needed, mapped as local ones are.

    reserve   ├── shard 0 ──┼── shard 1 ──┼── shard 2 ──┤     addresses for all of them
    map                     ├── shard 1 ──┤                   what has come
    rows of shard 1  ─►  read as from any map;   rows of shard 0  ─►  `need` waits until it has come

What is evicted is unmapped only when nobody reads any more who may have found it mapped: a reader
takes a number, and keeps it as long as it holds what `fetch` returned.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.gather import RowBytes
from dataprep.loaders.paging import MappedFiles, SparseArray
from dataprep.loaders.whole import Verify, prove_bytes
from dataprep.pipeline.errors import ConfigError, CorruptError, ResourceError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import array_in
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.riegeli import check_footer, record_starts
from dataprep.pipeline.types import Offsets

AnyShard = RowShard | DocumentShard


class FetchedShards:
    """The shards of a dataset in an object store; `need` is set by who fetches them."""

    def __init__(
        self, folder: Path, shards: Sequence[AnyShard], verify: Verify, least: int = 0
    ) -> None:
        self.folder, self.shards, self._least = folder, shards, least
        self.is_checked = verify != "off"
        self.starts = offsets_of([shard.num_records for shard in shards])
        self._places = offsets_of([shard.num_bytes for shard in shards])
        try:
            # Of each row; memory is taken for those of mapped shards only.
            self._firsts = SparseArray(int(self.starts[-1]), np.int64)
            self._sizes = SparseArray(int(self.starts[-1]), np.uint32)
            self._files = MappedFiles([], reserved=int(self._places[-1]))
        except OSError as error:
            raise ResourceError(
                f"cannot reserve addresses for the {self._places[-1]:,} bytes of {folder} "
                f"({error.strerror}); raise the limit on memory (ulimit -v)"
            ) from None
        self._first, self._size = self._firsts.values, self._sizes.values
        self.is_mapped = np.zeros(len(shards), np.bool_)
        self.need: Callable[[Sequence[int]], None] = self._cannot
        self._numbers = itertools.count()
        self._readers = weakref.WeakValueDictionary[int, NDArray[np.uint8]]()
        self._leaving: dict[int, int] = {}  # shards, and the reader from which on nobody has them
        self._guarded = False

    def fetch(self, rows: Offsets) -> RowBytes:
        memory = self._files.memory[:]
        self._readers[next(self._numbers)] = memory  # first: see `reclaim`
        if not self._guarded:
            self._guarded = self._files.guard()
        numbers = np.searchsorted(self.starts, rows, side="right") - 1
        missing = numbers[~self.is_mapped[numbers]]
        if len(missing):
            self.need(np.unique(missing).tolist())
        size = self._size[rows].astype(np.int64)
        return RowBytes(memory=memory, first=self._first[rows], size=size, in_blocks=True)

    def numbers_of(self, rows: Offsets) -> list[int]:
        """Return the shards that these rows are in."""
        found: list[int] = np.unique(np.searchsorted(self.starts, rows, side="right") - 1).tolist()
        return found

    def check(self) -> None:
        if self._files.torn:
            raise CorruptError(f"a cached shard of {self.folder} was cut short while it was read")

    def prove_all(self) -> None:
        raise ConfigError(
            f"verify='open' reads all of {self.folder} before the first batch: leave it out, each "
            "shard is checked when it comes; or dataprep verify a copy of it"
        )

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
        numbers = np.searchsorted(self.starts, rows, side="right") - 1
        here = rows[self.is_mapped[numbers]]
        self._files.will_need(self._first[here], self._size[here].astype(np.int64))

    # --- for who fetches, in one thread ---

    def map(self, number: int, path: Path, index: bytes) -> None:
        """Make the rows of a shard readable; a CorruptError if the files are not those of it."""
        shard = self.shards[number]
        sizes = self._sizes_in(shard, index)
        starts, footer = record_starts(sizes)
        check_footer(path, shard.num_bytes, footer)
        self._leaving.pop(number, None)
        self._files.map_at(int(self._places[number]), path, shard.num_bytes)
        rows = slice(self.starts[number], self.starts[number + 1])
        self._first[rows] = starts + self._places[number]
        self._size[rows] = sizes
        self.is_mapped[number] = True

    def drop(self, number: int) -> None:
        """Have nobody read a shard from now on."""
        if self.is_mapped[number]:
            self.is_mapped[number] = False
            self._leaving[number] = next(self._numbers)

    def reclaim(self) -> None:
        """Unmap what was dropped, and what no reader may have found mapped before."""
        first = min(self._readers.keys(), default=None)
        for number, reader in list(self._leaving.items()):
            if first is None or first > reader:
                del self._leaving[number]
                self._files.unmap_at(int(self._places[number]), self.shards[number].num_bytes)
                for array in (self._firsts, self._sizes):
                    array.free(int(self.starts[number]), int(self.starts[number + 1]))

    def _sizes_in(self, shard: AnyShard, index: bytes) -> NDArray[np.uint32]:
        if isinstance(shard, DocumentShard):
            return np.array(shard.record_bytes, np.uint32)
        path = self.folder / shard.index.path
        prove_bytes(path, index, shard.index)
        sizes: NDArray[np.uint32] = array_in(path, index, U32, shard.num_records)
        if len(sizes) and int(sizes.min()) < self._least:
            raise CorruptError(
                f"{path} lists a row of {sizes.min()} bytes, the least is {self._least}"
            )
        return sizes

    def _cannot(self, numbers: Sequence[int]) -> None:
        raise ConfigError(f"nothing fetches the shards of {self.folder}")


def bytes_of(entry: AnyShard) -> int:
    """Return how many bytes of a cache a shard takes."""
    index = 0 if isinstance(entry, DocumentShard) else entry.index.num_bytes
    return entry.num_bytes + index
