"""Lists of different lengths as flat arrays, and the arithmetic on them.

    lists           [754, 1512]  []  [3]
    values          754 1512 3
    sizes           2 0 1
    offsets         0 2 2 3          offsets_of(sizes): list i is values[offsets[i]:offsets[i + 1]]
    owner           0 0 2            owner_of(sizes): the list that each value is in
    number          0 1 0            numbers_within(sizes): the place of each value in its list

`IntegerLists` replaces a list of lists: it has a length, can be iterated, indexed and sliced, and
each of its lists is an array that shares its memory. Readers return it for a column of codes.
Everything else here is arithmetic on sizes, with no Python loop over lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataprep.pipeline.types import MODALITIES, Offsets

# What a top-level key may hold besides a plain value: codes, a list of segments, or numbers.
Holds = Literal["", "codes", "segments", "numbers"]
HeldBy = Callable[[str], Holds]
# The keys of a segment that hold its codes.
CODE_KEYS = frozenset(("codes", *MODALITIES))


def offsets_of(sizes: ArrayLike) -> Offsets:
    """Return where each list starts among the values, and where the last one ends.

    >>> offsets_of([3, 1, 2])
    array([0, 3, 4, 6])
    """
    sizes = np.asarray(sizes, np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def owner_of(sizes: Offsets) -> Offsets:
    """Return, for each value, the number of the list that it is in.

    >>> owner_of(np.array([2, 0, 3]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(sizes)), sizes)


def numbers_within(sizes: Offsets) -> Offsets:
    """Return, for each value, its place in its own list.

    >>> numbers_within(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return ranges(np.zeros(len(sizes), np.int64), sizes)


def ranges(first: Offsets, size: Offsets, step: int = 1) -> Offsets:
    """Return ranges of `size` numbers from `first` on, one range after another.

    >>> ranges(np.array([7, 0]), np.array([2, 3]))
    array([7, 8, 0, 1, 2])
    >>> ranges(np.array([7, 0]), np.array([2, 3]), step=4)
    array([ 7, 11,  0,  4,  8])
    """
    before: Offsets = np.cumsum(size)
    before -= size
    if step != 1:
        before *= step
    # What each range adds to a running count; it is the same for all numbers of a range.
    places = np.repeat(first - before, size)
    places += np.arange(0, step * len(places), step)
    return places


def nothing_held(key: str) -> Holds:
    """Return that this key holds neither codes nor segments."""
    return ""


def taken(values: Sequence[Any], rows: Offsets) -> Sequence[Any]:
    """Return the values at some places."""
    if isinstance(values, IntegerLists):
        return values.take(rows)
    return [values[i] for i in rows.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class IntegerLists(Sequence[NDArray[Any]]):
    """n lists; list i is values[offsets[i]:offsets[i + 1]]."""

    values: NDArray[Any]  # of any integer type; of a key that holds numbers, also floats or bools
    offsets: Offsets  # i64[n + 1], ascending; need not start at 0 or end at the last value

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for start, stop in pairwise(self.offsets.tolist()):
            yield self.values[start:stop]

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> IntegerLists: ...
    def __getitem__(self, index: int | slice) -> NDArray[Any] | IntegerLists:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return IntegerLists(self.values, self.offsets[start : max(start, stop) + 1])
        index = range(len(self))[index]
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: Offsets) -> IntegerLists:
        """Return a copy of some of the lists, in the order of `rows`.

        >>> lists = IntegerLists(np.array([754, 1512, 3]), np.array([0, 2, 2, 3]))
        >>> [codes.tolist() for codes in lists.take(np.array([2, 0]))]
        [[3], [754, 1512]]
        """
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts
        return IntegerLists(self.values[ranges(starts, lengths)], offsets_of(lengths))
