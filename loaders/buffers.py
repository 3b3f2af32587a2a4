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
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64  # bytes; what jax needs to take memory without a copy


def _holders(buffer: Any) -> int:
    """Return how many references there are to a buffer that its caller has in a variable."""
    return sys.getrefcount(buffer)


def _of_one_holder() -> int:
    buffer = object()
    return _holders(buffer)


_ONE_HOLDER = _of_one_holder()


class Buffers:
    """A pool that keeps at most `keep` buffers.

    It needs no lock, which an interrupt might leave locked: a buffer is out of the pool while it is
    looked at, and back in it only with a second reference.
    """

    def __init__(self, keep: int = 6) -> None:
        self._pool: deque[NDArray[np.uint8]] = deque(maxlen=keep)

    def take(self, num_bytes: int) -> NDArray[np.uint8]:
        """Return aligned memory that is the caller's own until its last view is gone."""
        owner = self._free(num_bytes + ALIGNMENT)
        if owner is None:
            owner = np.empty(num_bytes + ALIGNMENT, np.uint8)
        self._pool.append(owner)  # from a full pool the oldest goes
        start = -owner.ctypes.data % ALIGNMENT
        return owner[start : start + num_bytes]

    def _free(self, size: int) -> NDArray[np.uint8] | None:
        """Take a buffer out of the pool that is large enough, not too large, and that nobody looks
        at, the last used first."""
        for _ in range(len(self._pool)):
            try:
                buffer = self._pool.pop()
            except IndexError:  # another thread was faster
                return None
            if size <= len(buffer) <= 2 * size and _holders(buffer) == _ONE_HOLDER:
                return buffer
            self._pool.appendleft(buffer)
            del buffer
        return None
