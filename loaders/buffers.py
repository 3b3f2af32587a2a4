"""Memory for batches, used again only when nobody looks at it any more.

    pool    [buffer a, buffer b]       references    a: the pool and a batch    b: the pool alone
    take    -> b                       else new memory, and the oldest buffer leaves the pool

On a CPU, jax takes numpy memory as it is, without a copy, for as long as the array lives; and a
trainer may keep any batch. So a buffer is free when nothing but this pool refers to it. New memory
for every batch would work too, but the system has to find and clear each page, which takes several
times as long as filling it.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64  # bytes; what jax needs to take memory without a copy


def _holders(pool: list[Any], index: int) -> int:
    """Return how many references there are to a buffer of the pool."""
    return sys.getrefcount(pool[index])


_ONLY_THE_POOL = _holders([object()], 0)


class Buffers:
    """A pool that keeps at most `keep` buffers."""

    def __init__(self, keep: int = 6) -> None:
        self._keep = keep
        self._pool: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def take(self, num_bytes: int) -> NDArray[np.uint8]:
        """Return aligned memory that is the caller's own until its last view is gone."""
        with self._lock:
            size = num_bytes + ALIGNMENT
            for i in range(len(self._pool)):
                if len(self._pool[i]) == size and _holders(self._pool, i) == _ONLY_THE_POOL:
                    owner = self._pool[i]
                    break
            else:
                owner = np.empty(size, np.uint8)
                self._pool = [*self._pool[1 - self._keep :], owner]
            start = -owner.ctypes.data % ALIGNMENT
            return owner[start : start + num_bytes]
