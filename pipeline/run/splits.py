"""Which split a document is in: by a hash of its group and the rates, and nothing else.

    rates     train 0.9, validation 0.1
    group     0x3a…  ─►  mixed  0xf1…  ─►  at 0.94 of all hashes  ─►  1, validation

So a document never changes sides, however the data grows, and equal ones are on one side. Edges
are whole numbers: the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError

HASHES = 1 << 64
MAX_SPLITS = 254  # numbers 254 and 255 stand for documents of no split
_MIX = 0x9E3779B97F4A7C15  # groups may themselves be parts of hashes that others look at
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def split_of(group: NDArray[np.uint64], rates: Sequence[Fraction | float]) -> NDArray[np.uint8]:
    """Return the number of the split of each group; ConfigError unless the rates sum to one.

    >>> split_of(np.arange(12, dtype=np.uint64), [0.5, 0.25, 0.25])
    array([2, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0], dtype=uint8)
    """
    edges = np.array([edge for edge in edges_of(rates) if edge < HASHES], np.uint64)
    return np.searchsorted(edges, _mixed(group), side="right").astype(np.uint8)


def edges_of(rates: Sequence[Fraction | float]) -> list[int]:
    """Return the first hash of each split but the first.

    A float is meant as it is written: 0.1 is a tenth.

    >>> edges_of([0.5, 0.5]) == [1 << 63]
    True
    """
    exact = [_exact(rate) for rate in rates]
    if not 1 <= len(exact) <= MAX_SPLITS:
        raise ConfigError(f"there are {len(exact)} splits; 1 to {MAX_SPLITS} are possible")
    total = sum(exact)
    if total != 1:
        said = " + ".join(map(str, rates))
        raise ConfigError(f"the rates of the splits sum to {float(total):g}, not to 1: {said}")
    return [int(edge * HASHES) for edge in accumulate(exact[:-1])]


def _exact(rate: Fraction | float) -> Fraction:
    try:
        exact = rate if isinstance(rate, Fraction) else Fraction(str(rate))
    except ValueError:  # nan, inf
        exact = Fraction(-1)
    if not 0 <= exact <= 1:
        raise ConfigError(f"the rate {rate} of a split is not within 0..1")
    return exact


def _mixed(group: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of numbers: SplitMix64's."""
    z = np.asarray(group, np.uint64) + np.uint64(_MIX)
    for shift, factor in _STEPS:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed
