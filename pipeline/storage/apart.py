"""A long sequence in several files, each of which is read when something in it is needed.

    provenance/files-00000.json   4,096 entries     len(files)     reads nothing
    provenance/files-00001.json   4,096 entries     files[5000]    reads the second
    provenance/files-00002.json      17 entries     for file in    reads one after another

Of a dataset in a store a file is one request. What is read has the hash of the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Generic, TypeVar, overload

import msgspec
import numpy as np

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import check_hash, read_whole
from dataprep.pipeline.storage.entries import FileEntry
from dataprep.pipeline.storage.objects import NoSuchObjectError, is_remote, open_objects
from dataprep.pipeline.typed import decode_as

S = TypeVar("S")
T = TypeVar("T")

Place = tuple[int, Callable[[], Sequence[S]]]  # how many stand there, and what reads them

MOST_KEPT = 16  # places of which what was read is kept


class Apart(Sequence[S], Generic[S]):
    """What stands in several places, as one sequence."""

    def __init__(self, places: Iterable[Place[S]]) -> None:
        self.places = tuple(places)
        self._starts = offsets_of([count for count, _ in self.places])
        self._read = lru_cache(MOST_KEPT)(lambda place: self.places[place][1]())

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[S]:
        for _, read in self.places:
            yield from read()

    @overload
    def __getitem__(self, number: int) -> S: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[S, ...]: ...
    def __getitem__(self, number: int | slice) -> S | tuple[S, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        number %= len(self)
        place = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._read(place)[number - int(self._starts[place])]

    def mapped(self, change: Callable[[S], T]) -> Apart[T]:
        """Return the same, with each changed when it is read."""
        return Apart((count, partial(_changed, read, change)) for count, read in self.places)


def joined_apart(each: Iterable[Apart[S]]) -> Apart[S]:
    return Apart(place for one in each for place in one.places)


def _changed(read: Callable[[], Sequence[S]], change: Callable[[S], T]) -> list[T]:
    return [change(each) for each in read()]


def read_entries(
    folder: Path, entry: FileEntry, kind: type[Sequence[S]], count: int
) -> Sequence[S]:
    """Return so many entries of a file, which has the hash of the manifest."""
    path = folder / entry.path
    data = _bytes_of(folder, entry)
    try:
        found = decode_as(data, kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise CorruptError(f"{path} is damaged: {error}") from None
    if len(found) != count:
        raise CorruptError(f"{path} has {len(found):,} entries, by its manifest it has {count:,}")
    return found


def _bytes_of(folder: Path, entry: FileEntry) -> bytes:
    if not is_remote(folder):
        return read_whole(folder, entry)
    try:
        data = open_objects(str(folder)).get(entry.path)
    except NoSuchObjectError:
        raise CorruptError(f"{folder / entry.path} is missing; make the dataset again") from None
    check_hash(folder / entry.path, entry, hash_bytes(data))
    return data
