"""Tokens a second, since the beginning and over the last batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class Throughput:
    """Counts batches of so many tokens as they are handed out.

    >>> seconds = iter([0.0, 2.0, 3.0, 4.0])
    >>> speed = Throughput(tokens=100, window=2, clock=lambda: next(seconds))
    >>> [speed.count() for _ in range(3)]
    [(50.0, 50.0), (66.66666666666667, 66.66666666666667), (75.0, 100.0)]
    """

    def __init__(
        self, tokens: int, window: int, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._tokens, self._clock = tokens, clock
        self._begin, self._batches = clock(), 0
        self._ends = deque([self._begin], maxlen=max(1, window) + 1)

    def count(self) -> tuple[float, float]:
        """Count a batch; return the tokens a second of all batches, and of those of the window."""
        now = self._clock()
        self._batches += 1
        self._ends.append(now)
        recent = (len(self._ends) - 1) * self._tokens / _seconds(now - self._ends[0])
        return self._batches * self._tokens / _seconds(now - self._begin), recent


def _seconds(elapsed: float) -> float:
    return max(elapsed, 1e-9)  # clocks may stand still for a moment
