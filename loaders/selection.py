"""Some of the rows or documents of an open dataset, by their numbers; nothing is read for it.

    dataset.select(range(100, 200))     a hundred of them
    dataset.select([7, 3, 9])           these, in this order
    dataset.select(mask)                where an array of bools, one for each, is true

    selected[0] is dataset[7]; selected.select([2, 0]) are 9 and 7

What is selected is a dataset of its own for loaders, grain and torch: its fingerprint, which states
and checkpoints have, follows from that of the dataset and from the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.order import shuffle
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.hashes import fingerprint, hash_bytes
from dataprep.pipeline.types import Offsets

Numbers = range | slice | Iterable[int] | NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """The numbers that were selected."""

    numbers: range | Offsets

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, places: Offsets) -> Offsets:
        """Return the numbers at these places, which must be in range."""
        if isinstance(self.numbers, range):
            return self.numbers.start + self.numbers.step * places
        return self.numbers[places]

    def fingerprint(self, parent: str) -> str:
        """Return what a dataset of this fingerprint is known by, once these are selected."""
        numbers = self.numbers
        if isinstance(numbers, range):
            return fingerprint({"of": parent, "range": [numbers.start, len(numbers), numbers.step]})
        told = hash_bytes(numbers.astype("<i8").tobytes())
        return fingerprint({"of": parent, "count": len(numbers), "numbers": told})


def selected(which: Numbers, length: int, before: Chosen | None) -> Chosen:
    """Return a selection of some of so many items, which may be selected themselves."""
    numbers = _numbers(which, length)
    if before is None:
        return Chosen(numbers=numbers)
    if isinstance(numbers, range) and isinstance(before.numbers, range):
        return Chosen(numbers=before.numbers[numbers.start : numbers.stop : numbers.step])
    return Chosen(numbers=before.of(np.asarray(numbers, np.int64)))


def _numbers(which: Any, length: int) -> range | Offsets:
    """Return numbers from 0 on; ranges that go up stay ranges."""
    if isinstance(which, slice):
        which = range(length)[which]
    if isinstance(which, range) and which.step > 0:
        if len(which) and not 0 <= which[0] <= which[-1] < length:
            raise IndexError(f"{which} is outside of a dataset of {length}")
        return range(which.start, which.start + len(which) * which.step, which.step)
    if isinstance(which, str | bytes) or not isinstance(which, Iterable):
        raise ConfigError(f"select needs numbers, a range or a mask, got {shown(which)}")
    array = which if isinstance(which, np.ndarray) else np.array(list(which))
    if array.dtype == np.bool_ and array.ndim == 1:
        if len(array) != length:
            raise ConfigError(
                f"a mask of {len(array)} for a dataset of {length}: needs one for each"
            )
        return np.flatnonzero(array)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise ConfigError(f"select needs whole numbers, a range or a mask, got {shown(which)}")
    outside = np.flatnonzero((array < -length) | (array >= length))
    if len(outside):
        raise IndexError(f"{int(array[outside[0]])} is outside of a dataset of {length}")
    numbers: Offsets = array.astype(np.int64) % max(1, length)
    return numbers


def drawn(count: Any, length: int, *, seed: Any, start: Any = 0) -> Offsets:
    """Return `count` numbers below `length` by the seed: those that a loader has from its row
    `start` on. None comes twice before all have come."""
    first = whole_number("start", start, least=0)
    places = first + np.arange(whole_number("count", count, least=0))
    if len(places) and not length:
        raise ConfigError("nothing can be drawn from a dataset that is empty")
    return shuffle(places, max(1, length), seed=whole_number("seed", seed))
