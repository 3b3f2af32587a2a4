"""Find documents whose content occurred before, among any number of them, in bounded memory.

    contents   a b a | b c c      of two datasets, in order
    first      1 1 0 | 0 1 0

Contents are hashes (`storage.keys`), so that ranges of them hold about as many each. All arrays are
read once for each range; of a range, only distinct contents are kept, and of what was there before
only those that are looked for: what comes in each night is little beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataprep.pipeline.types import Mask, Offsets

Contents = NDArray[np.uint64]  # u64[n, 2]
Half = NDArray[np.uint64]  # u64[n], the first of the two

MEMORY_BYTES = 256 << 20
_BYTES_OF_KEY = 64  # while keys are sorted: they, their copies and places
_PARTS_KNOWN = 3  # of four, for contents of before; the fourth for those that are looked for


class _Range(NamedTuple):
    """One of several ranges of hashes, and how many contents are looked at together."""

    number: int
    of: int
    most: int

    def has(self, half: Half) -> Mask:
        high = half >> np.uint64(32)
        is_here: Mask = (high * np.uint64(self.of)) >> np.uint64(32) == self.number
        return is_here


class _SortedRange(NamedTuple):
    """Contents of one range, in order, and where they are."""

    array: int
    place: Offsets  # in the array
    content: Contents


def first_of_each(
    keys: Sequence[ArrayLike],
    new_from: int,
    memory_bytes: int = MEMORY_BYTES,
    *,
    counted: Mapping[int, Mask] | None = None,
) -> list[Mask]:
    """Return, for the arrays from `new_from` on, where a content occurs for the first time.

    Each array is u64[n, 2]; it may be mapped, and is read in parts. `counted` says of some arrays
    which of their contents count; of others all do. The result does not depend on `memory_bytes`,
    which is about what is used beside it.

    >>> a, b, c = [1, 1], [2, 2], [3, 3]
    >>> [first.tolist() for first in first_of_each([[a, b, a], [b, c, c]], new_from=1)]
    [[False, True, False]]
    """
    arrays = [_contents(array) for array in keys]
    most = max(1, memory_bytes // _BYTES_OF_KEY // (_PARTS_KNOWN + 1))
    total = sum(map(len, arrays[new_from:]))
    num_ranges = max(1, -(-total // (most * _PARTS_KNOWN)))
    first = [np.zeros(len(array), np.bool_) for array in arrays[new_from:]]
    for number in range(num_ranges):
        known: Contents = np.zeros((0, 2), np.uint64)
        within = _Range(number=number, of=num_ranges, most=most)
        for group in _grouped(_in_range(arrays, new_from, counted or {}, within), most):
            is_new, known = _news(known, np.concatenate([part.content for part in group]))
            start = 0
            for part in group:
                stop = start + len(part.place)
                if part.array >= new_from:
                    first[part.array - new_from][part.place] = is_new[start:stop]
                start = stop
    return first


def _contents(array: ArrayLike) -> Contents:
    found = np.asarray(array)
    return found if len(found) else np.zeros((0, 2), np.uint64)


def _in_range(
    arrays: Sequence[Contents], new_from: int, counted: Mapping[int, Mask], within: _Range
) -> Iterator[_SortedRange]:
    """Yield the contents of a range of hashes, from at most so many of an array at a time."""
    asked = _halves(arrays[new_from:], within) if new_from else None
    for i, array in enumerate(arrays):
        for start in range(0, len(array), within.most):
            part = np.asarray(array[start : start + within.most], np.uint64)
            is_here = within.has(part[:, 0])
            if i in counted:
                is_here &= counted[i][start : start + within.most]
            place = np.flatnonzero(is_here)
            if asked is not None and i < new_from:
                place = place[_is_among(asked, part[place, 0])]
            if len(place):
                yield _SortedRange(i, start + place, part[place])


def _halves(arrays: Sequence[Contents], within: _Range) -> Half:
    """Return the first halves of the contents of a range, in order, each once."""
    found = [np.zeros(0, np.uint64)]
    count = 0
    for array in arrays:
        for start in range(0, len(array), within.most):
            half = np.asarray(array[start : start + within.most, 0], np.uint64)
            found.append(half[within.has(half)])
            count += len(found[-1])
            if count > within.most:  # else the same one may be there very often
                found = [np.unique(np.concatenate(found))]
                count = 0
    return np.unique(np.concatenate(found))


def _is_among(asked: Half, half: Half) -> Mask:
    if not len(asked):
        return np.zeros(len(half), np.bool_)
    is_there: Mask = asked[np.minimum(np.searchsorted(asked, half), len(asked) - 1)] == half
    return is_there


def _grouped(found: Iterator[_SortedRange], most: int) -> Iterator[list[_SortedRange]]:
    """Yield neighbours that are about so many contents together."""
    group: list[_SortedRange] = []
    count = 0
    for part in found:
        if group and count + len(part.place) > most:
            yield group
            group, count = [], 0
        group.append(part)
        count += len(part.place)
    if group:
        yield group


def _news(known: Contents, found: Contents) -> tuple[Mask, Contents]:
    """Return which of the contents occur for the first time, and all that are known then."""
    both = np.concatenate((known, found))
    order = np.lexsort((both[:, 1], both[:, 0]))  # stable, so that the first of equal ones is first
    both = both[order]
    starts = np.ones(len(both), np.bool_)
    starts[1:] = (both[1:] != both[:-1]).any(axis=1)
    is_new = np.zeros(len(both), np.bool_)
    is_new[order[starts]] = True
    return is_new[len(known) :], both[starts]
