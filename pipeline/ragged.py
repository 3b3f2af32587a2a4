"""A column of flat lists of integers, as two arrays.

    lists     [754, 1512], [], [3]
    values    754 1512 3
    offsets   0 2 2 3

What readers give for a column of codes, and what takes the place of a list of lists: it has a
length, can be iterated, indexed and sliced. A list of it is an array, and shares its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import MODALITIES, Offsets

# What the value of a top-level key may be besides a plain value: codes, or a list of segments.
Holds = Literal["", "codes", "segments"]
HeldBy = Callable[[str], Holds]
# Where a segment has its codes.
CODE_KEYS = frozenset(("codes", *MODALITIES))


def nothing_held(key: str) -> Holds:
    """No key has codes."""
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class IntegerLists(Sequence[NDArray[Any]]):
    """n lists; list i is values[offsets[i]:offsets[i + 1]]."""

    values: NDArray[Any]  # of any integer type
    offsets: Offsets  # i64[n + 1], ascending; need not start at 0 nor end at the last value

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
        """Some of the lists, in the order of `rows`, copied.

        >>> lists = IntegerLists(np.array([754, 1512, 3]), np.array([0, 2, 2, 3]))
        >>> [codes.tolist() for codes in lists.take(np.array([2, 0]))]
        [[3], [754, 1512]]
        """
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Where each value stands now, less where it is going to stand: the same within a list.
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return IntegerLists(self.values[places], offsets)
