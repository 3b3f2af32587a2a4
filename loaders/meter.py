"""How fast batches are handed out, and how long a trainer waits for them.

    asked    0.0      1.0      2.0          seconds
    got        0.4      1.1      2.1
    waited   0.4      0.1      0.1          the trainer is busy for the rest

Counts since the loader was made, rates over the last batches. No batch and no state knows of it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from dataprep.loaders.schedule import whole_number
from dataprep.pipeline.errors import ConfigError

MOST = 1000  # batches that rates are over


class _Handed(NamedTuple):
    """A batch that was handed out."""

    asked: float
    got: float
    rows: int
    tokens: int
    num_bytes: int


class Meter:
    """What was handed out."""

    def __init__(self) -> None:
        self._last: deque[_Handed] = deque(maxlen=MOST)
        self._totals = {"batches": 0, "rows": 0, "tokens": 0, "bytes": 0}
        self._waited = 0.0

    def add(self, batch: dict[str, Any], shape: tuple[int, int], asked: float, got: float) -> None:
        """Count a batch of this shape, asked for and got at these times."""
        rows, tokens = shape[0], shape[0] * shape[1]
        num_bytes = sum(getattr(array, "nbytes", 0) for array in batch.values())
        self._last.append(_Handed(asked, got, rows, tokens, num_bytes))
        for name, more in zip(self._totals, (1, rows, tokens, num_bytes), strict=True):
            self._totals[name] += more
        self._waited += got - asked

    def read(self, window: int) -> dict[str, float]:
        """Return the counts, and the rates of the last `window` batches."""
        count = whole_number("window", window, least=1)
        if count > MOST:
            raise ConfigError(f"window {count}: rates are over {MOST} batches at most")
        last = [*self._last][-count:]
        seconds = last[-1].got - last[0].asked if last else 0.0
        sums = {
            "batches": len(last),
            "rows": sum(one.rows for one in last),
            "tokens": sum(one.tokens for one in last),
            "bytes": sum(one.num_bytes for one in last),
        }
        waited = sum(one.got - one.asked for one in last)
        rates = {f"{name}_per_second": n / seconds if seconds else 0.0 for name, n in sums.items()}
        return {
            **self._totals,
            "seconds_waited": self._waited,
            **rates,
            "share_waited": waited / seconds if seconds else 0.0,
        }
