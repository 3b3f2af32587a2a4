"""The random words of a record, and what is drawn with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Raw = Callable[..., Any]  # raw() -> one word of 64 random bits, raw(n) -> u64[n]


def raw_of(seed: int, index: int) -> Raw:
    raw: Raw = np.random.Philox(key=np.array([seed, index], np.uint64)).random_raw
    return raw


def between(raw: Raw, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, both included."""
    return low + int(raw()) % (high - low + 1)


def one_of(raw: Raw, choices: Sequence[T]) -> T:
    return choices[int(raw()) % len(choices)]
