"""Steps and rows: batches whose size may change at given steps.

batch_size {0: 64, 1000: 256}

step     0        1         …   999               1000              1001 …
rows     0 … 63   64 … 127  …   63,936 … 63,999   64,000 … 64,255   64,256 …
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from dataprep.pipeline.errors import ConfigError, short

Remainder = Literal["drop", "pad"]


MAX_ROWS = 1 << 62  # all batches together, so that places fit 64 bits
_MAX_SIZE = 1 << 31


def shown(value: Any) -> str:
    """Return a value as a message has it, however long it is.

    >>> shown(10 ** 5000), shown("a" * 500)[-6:]
    ('an int', 'aaa...')
    """
    try:
        return short(repr(value), 200)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists
        return f"an {type(value).__name__}" if isinstance(value, int) else type(value).__name__


def whole_number(name: str, value: Any, *, least: int | None = None) -> int:
    """Return a whole number of any kind as a plain int; 3.0, "3" and True are ConfigErrors.

    >>> import numpy as np
    >>> whole_number("seed", np.int64(3))
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name} must be a whole number, got {shown(value)}") from None
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, got {shown(number)}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizes:
    """The sizes of batches.

    >>> sizes = BatchSizes.of({0: 64, 1000: 256})
    >>> sizes.size(999), sizes.size(1000), sizes.first_row(1001)
    (64, 256, 64256)
    """

    steps: tuple[int, ...]  # from which on a size holds; the first is 0
    sizes: tuple[int, ...]
    first_rows: tuple[int, ...]  # of those steps

    @classmethod
    def of(cls, batch_size: int | Mapping[int, int]) -> BatchSizes:
        """Make them from one size or {step: size}; anything else is a ConfigError."""
        given = batch_size if isinstance(batch_size, Mapping) else {0: batch_size}
        sizes = {
            whole_number("a step of batch_size", step): whole_number("batch_size", size)
            for step, size in given.items()
        }
        steps = tuple(sorted(sizes))
        if not steps or steps[0] != 0 or not all(0 < sizes[step] < _MAX_SIZE for step in steps):
            raise ConfigError(
                f"batch_size {shown(batch_size)}: needs a positive number of rows below 2^31, or "
                "{step: rows} from step 0 on, such as {0: 64, 1000: 256}"
            )
        rows = [0]
        for step, after in pairwise(steps):
            rows.append(rows[-1] + (after - step) * sizes[step])
        return cls(steps=steps, sizes=tuple(sizes[s] for s in steps), first_rows=tuple(rows))

    def size(self, step: int) -> int:
        """Return how many rows a step has."""
        return self.sizes[bisect_right(self.steps, step) - 1]

    def first_row(self, step: int) -> int:
        """Return the first row of a step: how many rows all batches before it have."""
        i = bisect_right(self.steps, step) - 1
        return self.first_rows[i] + (step - self.steps[i]) * self.sizes[i]

    def num_steps(self, num_rows: int, remainder: Remainder) -> int:
        """Return how many batches this many rows fill, with the last one padded or dropped."""
        i = bisect_right(self.first_rows, num_rows) - 1
        full, rest = divmod(num_rows - self.first_rows[i], self.sizes[i])
        return self.steps[i] + full + (1 if rest and remainder == "pad" else 0)

    def before(self, step: int) -> dict[int, int]:
        """Return the sizes of the steps before this one, as {step: size}."""
        return {s: n for s, n in zip(self.steps, self.sizes, strict=True) if s < step}
