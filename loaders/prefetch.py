"""Batches made ahead by one thread.

    thread   make 3 │ make 4 │ make 5, wait …        at most `depth` are waiting
    queue        [2, 3]   [3, 4]
    trainer  take 2 │      take 3

The transfer to a device is asynchronous, so that a batch in the queue is on its device or on its
way there. An error ends the thread, and is raised where the batch would have been taken.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Ahead = TypeVar("Ahead")


class Prefetch(Generic[Ahead]):
    """A thread that makes something for each step, at most `depth` ahead of who takes it."""

    def __init__(self, make: Callable[[int], Ahead], steps: Iterable[int], depth: int) -> None:
        self._make, self._steps, self._depth = make, steps, depth
        self._ready: deque[Ahead] = deque()
        self._error: BaseException | None = None
        self._closed = self._finished = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="dataprep-prefetch", daemon=True)
        # Must run before jax shuts its devices down at exit: what registers last runs first.
        atexit.register(self.close)
        self._thread.start()

    def take(self) -> Ahead:
        """Return the next one, waiting for it; raise StopIteration after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._finished or self._closed)
            if self._ready:
                item = self._ready.popleft()
                self._changed.notify_all()
                return item
        self._thread.join()
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        """End the thread; what was made and not taken is thrown away."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            for step in self._steps:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or self._has_room())
                    if self._closed:
                        return
                self._put(self._make(step))
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _put(self, item: Ahead) -> None:
        with self._changed:
            if not self._closed:
                self._ready.append(item)
                self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._ready) < self._depth
