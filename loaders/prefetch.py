"""Batches made ahead by one thread.

    thread   make 3 │ make 4 │ make 5, wait …        at most `depth` are waiting
    made     {2, 3}   {3, 4}
    trainer  get 2, forget 2 │ get 3 …

The transfer to a device is asynchronous, so that a batch that is made is on its device or on its
way there. An error ends the thread, and is raised where the batch would have been handed out.

Whoever asks may be interrupted (Ctrl-C) between any two of its instructions. So it holds no lock,
what it gets stays until it says that it has it, and what it asks for is named by its step: nothing
is lost or handed out twice. A fork waits until no thread is at work, since a lock that one holds
would be locked in the child for ever; in the child, what was made ahead is gone and `usable` false.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

Ahead = TypeVar("Ahead")


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

    def wait(self) -> None:
        self._silence.acquire()


class Prefetch(Generic[Ahead]):
    """A thread that makes something for each step, at most `depth` ahead of who asks for it."""

    def __init__(self, make: Callable[[int], Ahead], steps: Iterable[int], depth: int) -> None:
        self._make, self._steps, self._depth = make, steps, depth
        self._made: dict[int, Ahead] = {}
        self._error: BaseException | None = None
        self._started = self._closed = self._over = False
        self._news, self._room = Bell(), Bell()
        self.at_work = threading.RLock()  # held by the thread while it makes something
        self._thread = threading.Thread(target=self._run, name="dataprep-prefetch", daemon=True)

    def start(self) -> None:
        # Must run before jax shuts its devices down at exit: what registers last runs first.
        atexit.register(self.close)
        _threads.add(self)
        self._thread.start()
        self._started = True

    @property
    def usable(self) -> bool:
        """Return whether it was started, not closed, and has not met an error."""
        return self._started and not self._closed

    def get(self, step: int) -> Ahead:
        """Return what was made for a step, waiting for it; raise StopIteration after the last."""
        while True:
            over = self._over  # asked first: what was made before the end is there when it is set
            if step in self._made:
                return self._made[step]
            if over:
                self._closed = True
                self._thread.join()
                raise StopIteration if self._error is None else self._error
            for older in [made for made in list(self._made) if made < step]:
                self._made.pop(older)  # an interrupt may have kept `forget` from it
            self._room.ring()
            self._news.wait()

    def forget(self, step: int) -> None:
        """Make room: what was made for a step has arrived where it is used."""
        self._made.pop(step, None)
        self._room.ring()

    def close(self) -> None:
        """End the thread; what was made and not asked for is thrown away."""
        self._closed = True
        self._room.ring()
        self._news.ring()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self._made.clear()
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            for step in self._steps:
                while len(self._made) >= self._depth and not self._closed:
                    self._room.wait()
                if self._closed:
                    return
                with self.at_work:
                    self._made[step] = self._make(step)
                self._news.ring()
        except BaseException as error:
            self._error = error
        finally:
            self._over = True
            self._news.ring()


_threads: weakref.WeakSet[Prefetch[Any]] = weakref.WeakSet()
_fork = threading.local()  # held: what this thread holds while it forks; others may fork meanwhile


def _before_fork() -> None:
    _fork.held = []
    for one in list(_threads):
        one.at_work.acquire()
        _fork.held.append(one)


def _after_fork() -> None:
    while _fork.held:
        _fork.held.pop().at_work.release()


def _after_fork_in_child() -> None:
    for one in _fork.held:
        one._closed = True
    _after_fork()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork,
    after_in_child=_after_fork_in_child,
)
