"""Batches made ahead by one thread.

    thread   make 3 │ make 4 │ make 5, wait …        at most `depth` are waiting
    made     {2, 3}   {3, 4}
    trainer  get 2, forget 2 │ get 3 …

The transfer to a device is asynchronous, so that a batch that is made is on its device or on its
way there. An error ends the thread, and is raised where the batch would have been handed out.

Whoever asks may be interrupted (Ctrl-C) between any two of its instructions. So it holds no lock,
what it gets stays until it says that it has it, and what it asks for is named by its step: nothing
is lost or handed out twice.

    fork      gate ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│        whoever forks holds it, from before to after
    thread    make 3 ▓▓▓▓▓▓▓│ ring              │ make 4 ▓▓▓

A fork waits until no thread is at work, since a lock that one holds would be locked in the child
for ever. It does not wait for ever itself: what the thread waits for may be held by whoever forks.
In the child, what was made ahead is gone and `usable` false.
"""

from __future__ import annotations

import atexit

# Before `os.register_at_fork` below: what registers first locks last, so that a batch whose making
# logs, or uses a pool of threads, comes to its end before a fork locks these.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.threads.bells import Bell
from dataprep.pipeline.threads.exits import leave

_PATIENCE = 10.0  # seconds that a fork, or the interpreter's exit, waits for what is being made
_LOOK = 1.0  # seconds after which who waits can be interrupted by `exits`

Ahead = TypeVar("Ahead")


class Closed(Exception):
    """Ends what is made for nobody."""


class Prefetch(Generic[Ahead]):
    """A thread that makes something for each step, at most `depth` ahead of who asks for it."""

    def __init__(self, make: Callable[[int], Ahead], steps: Iterable[int], depth: int) -> None:
        self._make, self._steps, self._depth = make, steps, depth
        self._made: dict[int, Ahead] = {}
        self._error: BaseException | None = None
        self._started = self._closed = self._over = False
        self._news, self._room = Bell(), Bell()
        self._process = 0  # that it was started in
        self._at_work: Bell | None = None  # while something is made: rung at its end
        self._is_caught = False  # by a fork, in the middle of making something
        self._is_gone = False
        self._thread = threading.Thread(target=self._run, name="dataprep-prefetch", daemon=True)

    def start(self) -> None:
        # Must run before jax shuts its devices down at exit: what registers last runs first.
        atexit.register(self._close_at_exit)
        self._process = os.getpid()
        self._thread.start()
        self._started = True

    @property
    def usable(self) -> bool:
        """Return whether it was started, in this process, not closed, and has not met an error."""
        return self._started and not self._closed and self._process == os.getpid()

    def check_fork(self) -> None:
        """Raise a ConfigError if this process was forked in the middle of making something."""
        if self._is_caught and self._process != os.getpid():
            raise ConfigError(
                f"this process was forked while a batch was made, which took more than "
                f"{_PATIENCE:.0f} s: locks may be locked for ever; ask for the first batch before "
                "you fork, or start processes with spawn"
            )

    def get(self, step: int) -> Ahead:
        """Return what was made for a step, waiting for it; raise StopIteration after the last."""
        while True:
            over = self._over  # asked first: what was made before the end is there when it is set
            with suppress(KeyError):  # asked once: whoever closes throws it away at any moment
                return self._made[step]
            if over:
                self._closed = True
                self._thread.join()
                raise StopIteration if self._error is None else self._error
            for older in [made for made in list(self._made) if made < step]:
                self._made.pop(older)  # an interrupt may have kept `forget` from it
            self._room.ring()
            while not self._news.wait(_LOOK):
                pass

    def forget(self, step: int) -> None:
        """Make room: what was made for a step has arrived where it is used."""
        self._made.pop(step, None)
        self._room.ring()

    def close(self, timeout: float | None = None) -> None:
        """End the thread, and wait for that; what was made and not asked for is thrown away."""
        if self._is_gone:  # what is needed below may be gone, too, as the interpreter ends
            return
        self._closed = True
        self._room.ring()
        self._news.ring()
        if self._runs_elsewhere():
            self._thread.join(timeout)
        self._made.clear()
        atexit.unregister(self._close_at_exit)
        self._is_gone = self._started and not self._thread.is_alive()

    def _close_at_exit(self) -> None:
        leave()  # so that nobody who asks in another thread takes this for the end of the data
        self.close(_PATIENCE)

    def _run(self) -> None:
        _threads.add(self)
        _own.prefetch = self
        try:
            for step in self._steps:
                while len(self._made) >= self._depth and not self._closed:
                    self._room.wait()
                if self._closed:
                    return
                self._begin()
                self._made[step] = self._make(step)
                self._end()
                self._news.ring()
        except Closed:
            pass
        except BaseException as error:
            self._error = error
        finally:
            _threads.discard(self)
            self._end()
            self._over = True
            self._news.ring()

    def _runs_elsewhere(self) -> bool:
        """Return whether it can be waited for: it runs in another thread of this process."""
        is_alive = self._process == os.getpid() and self._thread.is_alive()
        return is_alive and self._thread is not threading.current_thread()

    def _begin(self) -> None:
        with _gate:  # not while a process is forked
            self._at_work = Bell()

    def _end(self) -> None:
        bell, self._at_work = self._at_work, None
        if bell is not None:
            bell.ring()

    def _wait_before_fork(self, deadline: float) -> None:
        bell = self._at_work
        self._is_caught = bell is not None  # and stays so if an interrupt ends the wait
        if bell is not None:
            self._is_caught = not bell.wait(max(0.0, deadline - time.monotonic()))


_own = threading.local()  # prefetch: the one whose thread it is


def stop_if_closed() -> None:
    """To be called now and then while something is made: whoever closes waits for its end."""
    one = getattr(_own, "prefetch", None)
    if one is not None and one._closed:
        raise Closed


# --- forks ---

# Calls of C (`acquire`, `release`, `clear`) are hooks by themselves: no interrupt comes between
# their instructions, so that none leaves the gate closed.
_gate = threading.RLock()
_threads: set[Prefetch[Any]] = set()  # those of this process that run


def _let_others_fork() -> None:
    """Before the gate is taken by a thread of ours, whose batch forks as it is made."""
    one = getattr(_own, "prefetch", None)
    if one is not None:
        one._end()


def _wait_for_batches() -> None:
    deadline, own = time.monotonic() + _PATIENCE, getattr(_own, "prefetch", None)
    for one in tuple(_threads):
        if one is own:
            one._begin()
        else:
            one._wait_before_fork(deadline)


# The last one runs first.
os.register_at_fork(before=_wait_for_batches, after_in_child=_threads.clear)
os.register_at_fork(
    before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release
)
os.register_at_fork(before=_let_others_fork)
