"""Ways to cut a source, for formats to choose from. T is the target size in bytes.

    whole          one cut, for sources that cannot be cut: compressed files, JSON arrays
    byte_ranges    [k*T, (k+1)*T): files that are read in lines
    groups         neighbours joined up to T bytes: row groups, record batches
    at_ends        neighbours joined up to T bytes: records that follow each other
    rows           as many records of one size as fit into T bytes

Cuts depend only on sizes and on T.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.sources.format import Cut
from dataprep.pipeline.types import Source


def whole(source: Source) -> list[Cut]:
    return [Cut(start=0, stop=1, num_bytes=source.num_bytes)]


def byte_ranges(num_bytes: int, target_bytes: int, first: int = 0) -> list[Cut]:
    """Cut `num_bytes`, from byte `first` on.

    >>> [(cut.start, cut.stop) for cut in byte_ranges(10, target_bytes=4)]
    [(0, 4), (4, 8), (8, 10)]
    """
    if num_bytes < 0:
        return [Cut(start=0, stop=sys.maxsize, num_bytes=-1)]
    return [
        Cut(start=first + start, stop=first + stop, num_bytes=stop - start)
        for start in range(0, max(1, num_bytes), target_bytes)
        for stop in (min(start + target_bytes, num_bytes),)
    ]


def at_ends(ends: NDArray[np.int64], target_bytes: int) -> list[Cut]:
    """Join records that end at these bytes, up to the target.

    >>> [(cut.start, cut.stop) for cut in at_ends(np.array([3, 5, 20, 21]), target_bytes=6)]
    [(0, 2), (2, 3), (3, 4)]
    """
    found: list[Cut] = []
    start = done = 0
    while start < len(ends) or not found:
        stop = int(np.searchsorted(ends, done + target_bytes, side="right"))
        stop = min(max(stop, start + 1), len(ends))
        last = int(ends[stop - 1]) if len(ends) else 0
        found.append(Cut(start=start, stop=stop, num_bytes=last - done, first_line=start))
        start, done = stop, last
    return found


def groups(sizes: Sequence[tuple[int, int]], target_bytes: int) -> list[Cut]:
    """Cut between groups; `sizes` has (rows, bytes) of each group.

    >>> [(cut.start, cut.stop, cut.first_line) for cut in groups([(5, 3), (5, 3), (5, 9)], 6)]
    [(0, 2, 0), (2, 3, 10)]
    """
    first_lines = [0, *accumulate(rows for rows, _ in sizes)]
    return [
        Cut(
            start=start,
            stop=stop,
            num_bytes=sum(num_bytes for _, num_bytes in sizes[start:stop]),
            first_line=first_lines[start],
        )
        for start, stop in merge([num_bytes for _, num_bytes in sizes], target_bytes)
    ]


def merge(sizes: Sequence[int], target_bytes: int) -> list[tuple[int, int]]:
    """Return ranges of neighbours that together have at most `target_bytes`, or are single.

    >>> merge([3, 3, 3, 9, 1], 6)
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ranges = []
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and total + size > target_bytes:
            ranges.append((start, i))
            start, total = i, 0
        total += size
    return [*ranges, (start, len(sizes))]


def rows(count: int, size: int, target_bytes: int) -> list[Cut]:
    """Cut `count` records of `size` bytes each."""
    step = max(1, target_bytes // max(1, size))
    return [
        Cut(start=start, stop=stop, num_bytes=(stop - start) * size, first_line=start)
        for start in range(0, max(1, count), step)
        for stop in (min(start + step, count),)
    ]
