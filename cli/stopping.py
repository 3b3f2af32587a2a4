"""Signals end a command in order, with the exit code that says so: 130 Ctrl-C, 143 SIGTERM,
129 SIGHUP.

    the first signal       Stopped is raised; the run stops its workers and unlocks its folder
    a second one, or       the process ends at once, and its workers with it
    GRACE seconds later

What is on disk is whole either way. Packages sometimes swallow exceptions (`except:` around an
import) or turn them into others, so whatever a command ends with after a signal counts as stopped.
Python itself swallows what is raised in a `__del__` or a callback of its import system, and would
print it: then the process ends at once too.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from dataprep.cli.streams import say

# Commands that go on where they were; the others only look, or are done at once.
RESUMED = frozenset({"demo", "encode", "export", "forget", "pack", "run", "tokenize"})
LOOKING = frozenset({"--dry-run", "--why"})
GRACE = 5.0  # seconds
AT_ONCE = 0.001
SAYING = 1.0  # for the last message


class Stopped(BaseException):
    """A signal as an exception, so that workers are stopped before the process exits."""


def run_stoppable(command: Callable[[], int]) -> int:
    """Run a command; exit with 128 + the number of a signal that comes meanwhile or later."""
    came: list[int] = []
    is_over = False  # from then on nobody would catch what a handler raises

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            os._exit(128 + came[0])
        if is_over:
            _exit_stopped(number)
        signal.setitimer(signal.ITIMER_REAL, GRACE)  # brings SIGALRM
        raise Stopped

    def give_up(number: int, frame: FrameType | None) -> None:
        if not came:  # it is not ours: somebody sent it
            stop(number, frame)
        _exit_stopped(came[0])

    def swallowed(found: sys.UnraisableHookArgs) -> None:
        if isinstance(found.exc_value, Stopped):
            signal.setitimer(signal.ITIMER_REAL, AT_ONCE)
        else:
            usual(found)

    usual, sys.unraisablehook = sys.unraisablehook, swallowed
    code = 0
    try:  # a signal may come between any two steps: also before the inner `try`, or at its end
        signal.signal(signal.SIGALRM, give_up)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # by nohup
                signal.signal(number, stop)
        try:
            code = command()
        finally:
            is_over = True
    except BaseException:
        if not came:
            raise
    if came:
        _exit_stopped(came[0])
    return code


def _exit_stopped(number: int) -> NoReturn:
    # Whoever should read stderr may not: then the message must not keep the process.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
    signal.setitimer(signal.ITIMER_REAL, SAYING)
    try:  # in the middle of another message, or of the interpreter's end, it cannot be said
        more = "; run the same command again to continue" if goes_on(sys.argv[1:]) else ""
        say(f"stopped by {signal.Signals(number).name}{more}")
    finally:
        # Not sys.exit: an interpreter that ends gives SIGINT back its default, and a second one
        # kills.
        os._exit(128 + number)


def goes_on(words: Sequence[str]) -> bool:
    """Return whether a command that was stopped goes on where it was, if it is called again.

    >>> goes_on(["tokenize", "a.jsonl"]), goes_on(["verify", "d"]), goes_on(["pack", "--dry-run"])
    (True, False, False)
    """
    called = next((word for word in words if not word.startswith("-")), None)
    return called in RESUMED and LOOKING.isdisjoint(words)
