"""Wake a thread that waits."""

from __future__ import annotations

import threading
from contextlib import suppress


class Bell:
    """Wakes the one who waits for it; rung while nobody waits, it wakes the next at once.

    Waiting and ringing are single calls into C: an interrupt comes before or after.
    """

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        with suppress(RuntimeError):  # it was rung before
            self._silence.release()

    def wait(self, timeout: float = -1) -> bool:
        """Return whether it was rung, within so many seconds; -1: wait for ever."""
        return self._silence.acquire(timeout=timeout)
