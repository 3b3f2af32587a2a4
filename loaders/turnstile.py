"""One call at a time, without a lock.

    thread A   take ─► ▓▓▓▓▓▓ act ▓▓▓▓▓▓ ─► its result
    thread B        take ─► ConfigError

An interrupt between any two instructions may leave a lock locked for ever. A generator cannot be
left running: the interpreter itself knows whether it runs, and refuses to run it twice at once. One
that an error or an interrupt has ended is followed by another, the same one for every thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from dataprep.pipeline.errors import ConfigError

Result = TypeVar("Result")


class Turnstile(Generic[Result]):
    """Calls a method for one caller at a time; holds no reference to its object."""

    def __init__(self, act: Callable[[], Result]) -> None:
        self._act: Any = weakref.WeakMethod(act)
        self._turn: _Turn[Result] = _Turn(self._act)

    def take(self) -> Result:
        """Return what the method returns; raise a ConfigError if it is running already."""
        turn = self._turn
        while True:
            try:
                return next(turn.results)
            except StopIteration:  # an error or an interrupt has ended it
                turn = self._turn = turn.followers.setdefault(0, _Turn(self._act))
            except ValueError as error:
                if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                    raise  # it comes from inside
                raise ConfigError(
                    "a batch is asked for while another is being handed out; use a loader in one "
                    "thread at a time, or give each thread a loader of its own"
                ) from None


class _Turn(Generic[Result]):
    def __init__(self, act: Any) -> None:
        self.results: Iterator[Result] = _results(act)
        self.followers: dict[int, _Turn[Result]] = {}  # at most one; `setdefault` is atomic


def _results(act: Any) -> Iterator[Any]:
    while True:
        yield act()()  # kept in no variable, so that the result is the caller's alone
