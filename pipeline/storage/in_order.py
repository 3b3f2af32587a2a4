"""All records of an uncompressed shard, from its first byte to its last, read and hashed once.

    file     ┊▒▒ signature │ chunk │ record … ┊▒▒ … record │ chunk │ record │ footer …┊
    gaps      ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒            ▒▒           ▒▒▒▒▒▒▒          ▒▒▒▒▒▒▒▒▒    forgotten
    data                            record …      … record         record

The system itself leaves the gaps out while it copies (`readv`). Whether the bytes are those of the
manifest is known at the end: nothing that was made of them may be committed before. `riegeli` has
the arithmetic, `checked` what else is asked of files of a dataset.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.checked import check_hash, unchanged_while
from dataprep.pipeline.storage.kinds import AnyFile
from dataprep.pipeline.storage.riegeli import (
    BLOCK_BYTES,
    check_footer,
    cut_at_blocks,
    physical,
    record_places,
    record_starts,
)
from dataprep.pipeline.types import Offsets

BYTES_AT_ONCE = 2 << 20  # of records
_ALIGNED = 8  # bytes: where records begin in memory
_MOST_VIEWS = 1024  # that the system takes at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Records that follow each other."""

    first: int  # number of the first
    data: NDArray[np.uint8]
    starts: Offsets  # i64[n]: where each begins in `data`
    sizes: Offsets  # i64[n]

    def record(self, number: int) -> memoryview:
        """Return the bytes of a record, by its number in the stretch."""
        start = int(self.starts[number])
        return self.data.data[start : start + int(self.sizes[number])]


@contextmanager
def records_in_order(
    folder: Path, entry: AnyFile, sizes: NDArray[Any], *, apart: bool
) -> Iterator[Iterator[Stretch]]:
    """Read a shard with records of these sizes; raise CorruptError at the end unless it is the one
    that the manifest lists, whatever else was found wrong with it meanwhile.

    `apart`: each record begins at a multiple of eight bytes. If not, they are as in the file, with
    some bytes between them: faster for small records.
    """
    path = folder / entry.path
    sizes = np.asarray(sizes, np.int64)
    with unchanged_while(folder, entry), _HashedFile(path) as file:
        try:
            check_footer(path, entry.num_bytes, record_starts(sizes)[1])
            yield _stretches(file, sizes, apart)
        except Exception:
            check_hash(path, entry, file.digest())
            raise
        check_hash(path, entry, file.digest())


def _stretches(file: _HashedFile, sizes: Offsets, apart: bool) -> Iterator[Stretch]:
    places = record_places(sizes)
    stops = np.cumsum(sizes)
    first = done = 0
    while first < len(sizes):
        last = int(np.searchsorted(stops, done + BYTES_AT_ONCE, side="right"))
        last = min(max(last, first + 1), len(sizes))
        own, lengths = places[first:last], sizes[first:last]
        if apart:
            room = -(-lengths // _ALIGNED) * _ALIGNED
            starts = np.cumsum(room) - room
            data = file.read(own, lengths, starts, int(room.sum()))
        else:
            starts = own - own[0]
            whole = starts[-1:] + lengths[-1:]
            data = file.read(own[:1], whole, starts[:1], int(whole[0]))
        yield Stretch(first=first, data=data, starts=starts, sizes=lengths)
        first, done = last, int(stops[last - 1])


class _HashedFile:
    """A file that is read from its first byte to its last."""

    def __init__(self, path: Path) -> None:
        self._path, self._place = path, 0
        self._state = xxhash.xxh3_128()

    def __enter__(self) -> _HashedFile:
        try:
            self._file = open(self._path, "rb", buffering=0)
        except OSError as error:
            raise CorruptError(f"{self._path} cannot be read: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(
        self, places: Offsets, lengths: Offsets, targets: Offsets, size: int
    ) -> NDArray[np.uint8]:
        """Return `size` bytes, of which `lengths` from logical `places` on stand at `targets`."""
        places, lengths, targets = cut_at_blocks(places, lengths, targets)
        starts = physical(places)
        gaps = starts - np.concatenate(([self._place], starts[:-1] + lengths[:-1]))
        data, skipped = np.empty(size, np.uint8), memoryview(bytearray(int(gaps.sum())))
        into, views, place = data.data, [], 0
        ranges = zip(gaps.tolist(), targets.tolist(), (targets + lengths).tolist(), strict=True)
        for gap, start, stop in ranges:
            if gap:
                views.append(skipped[place : place + gap])
                place += gap
            views.append(into[start:stop])
        for number in range(0, len(views), _MOST_VIEWS):
            self._fill(views[number : number + _MOST_VIEWS])
        self._place = int(starts[-1] + lengths[-1])
        return data

    def _fill(self, views: list[memoryview]) -> None:
        count = self._readv(views)
        for view in views:
            # File systems behind a network may read less than is asked for.
            while count < len(view):
                if not (more := self._readv([view[count:]])):
                    raise CorruptError(
                        f"{self._path} was cut short while it was read; make the dataset again"
                    )
                count += more
            count -= len(view)
            self._state.update(view)

    def _readv(self, views: list[memoryview]) -> int:
        try:
            return os.readv(self._file.fileno(), views)
        except OSError as error:
            raise CorruptError(f"{self._path} cannot be read: {error.strerror}") from None

    def digest(self) -> str:
        """Return the hash of the file, after the rest of it is read."""
        buffer = memoryview(bytearray(BLOCK_BYTES))  # the rest is a footer, mostly less than two
        try:
            while count := self._file.readinto(buffer):
                self._state.update(buffer[:count])
        except OSError as error:
            raise CorruptError(f"{self._path} cannot be read: {error.strerror}") from None
        return self._state.hexdigest()
