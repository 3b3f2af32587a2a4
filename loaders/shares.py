"""Rows dealt out to datasets in exact shares, by arithmetic on their numbers alone.

    row  0 1 2 3 4 5 6 7        weights 5 and 3: these eight, then the same again
    of   0 1 0 0 1 0 1 0

The first dataset takes its share of all places, evenly spread; the second takes its share of what
is left, and so on. After any number of places each of D datasets is within 1 + log2 D rows of its
share, and at every multiple of the sum of the weights it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

import numpy as np

from dataprep.pipeline.types import Offsets

Count = TypeVar("Count", int, Offsets)  # one number, or an array of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Rows dealt out to datasets in exact shares."""

    weights: tuple[int, ...]  # in lowest terms; 0: takes no row

    def deal(self, rows: Offsets) -> tuple[Offsets, Offsets]:
        """Return the dataset of each row, and how many of that dataset's rows come before it.

        >>> datasets, ranks = Shares(weights=(5, 3)).deal(np.arange(8))
        >>> datasets
        array([0, 1, 0, 0, 1, 0, 1, 0])
        >>> ranks
        array([0, 0, 1, 2, 1, 3, 2, 4])
        """
        datasets = np.empty(len(rows), np.int64)
        ranks = np.empty(len(rows), np.int64)
        open_rows, index, rest = np.arange(len(rows)), rows, sum(self.weights)
        for dataset, weight in enumerate(self.weights):
            before = _taken(index, weight, rest)
            takes = _taken(index + 1, weight, rest) > before
            mine = open_rows[takes]
            datasets[mine], ranks[mine] = dataset, before[takes]
            open_rows, index = open_rows[~takes], (index - before)[~takes]
            rest -= weight
            if not len(open_rows):
                break
        return datasets, ranks

    def count(self, dataset: int, num_rows: int) -> int:
        """Return how many of the first `num_rows` rows a dataset takes."""
        if not self.weights[dataset]:
            return 0
        rest = sum(self.weights)
        for weight in self.weights[:dataset]:
            num_rows -= _taken(num_rows, weight, rest)
            rest -= weight
        return _taken(num_rows, self.weights[dataset], rest)

    def reach(self, dataset: int, count: int) -> int:
        """Return after how many rows a dataset has taken `count`; its weight must not be 0."""
        low, high = 0, (count + 2) * sum(self.weights)
        while low < high:
            middle = (low + high) // 2
            if self.count(dataset, middle) >= count:
                high = middle
            else:
                low = middle + 1
        return low


def _taken(rows: Count, weight: int, total: int) -> Count:
    """Return weight / total of the rows, rounded; computed so that 64 bits are enough."""
    periods, rest = rows // total, rows % total
    return periods * weight + (rest * weight + total // 2) // total


def lowest_terms(weights: Sequence[int]) -> tuple[int, ...]:
    """Divide weights by what all of them can be divided by.

    >>> lowest_terms([6, 4])
    (3, 2)
    """
    common = max(1, gcd(*weights))
    return tuple(weight // common for weight in weights)
