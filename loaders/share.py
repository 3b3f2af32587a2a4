"""Rows dealt out to datasets by exact shares, each row by arithmetic on its number alone.

    weights web 5, code 3      i    0 1 2 3 4 5 6 7 | 8 …
                               of   w c w w c w c w | w …      5 and 3 of every 8

The first dataset takes its share of all rows, evenly spread; the second takes its share of what is
left, and so on. So after any number of rows each of D datasets is within 1 + log2 D rows of its
share, and at every multiple of the sum of the weights it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

import numpy as np

from dataprep.pipeline.types import Offsets

Rows = TypeVar("Rows", int, Offsets)

MAX_SUM = 1 << 31  # of weights, so that no product exceeds 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    weights: tuple[int, ...]  # in lowest terms; 0: takes no row

    def deal(self, rows: Offsets) -> tuple[Offsets, Offsets]:
        """The dataset of each row, and how many of its rows come before it."""
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
        """Rows of a dataset among the first `num_rows`."""
        if not self.weights[dataset]:
            return 0
        rest = sum(self.weights)
        for weight in self.weights[:dataset]:
            num_rows -= _taken(num_rows, weight, rest)
            rest -= weight
        return _taken(num_rows, self.weights[dataset], rest)

    def reach(self, dataset: int, count: int) -> int:
        """The least number of rows among which a dataset has `count`; its weight is not 0."""
        low, high = 0, (count + 2) * sum(self.weights)
        while low < high:
            middle = (low + high) // 2
            if self.count(dataset, middle) >= count:
                high = middle
            else:
                low = middle + 1
        return low


def _taken(rows: Rows, weight: int, total: int) -> Rows:
    """weight / total of the rows, rounded; in parts, so that 64 bits suffice."""
    periods, rest = rows // total, rows % total
    return periods * weight + (rest * weight + total // 2) // total


def lowest_terms(weights: Sequence[int]) -> tuple[int, ...]:
    """[6, 4] -> (3, 2)"""
    common = max(1, gcd(*weights))
    return tuple(weight // common for weight in weights)
