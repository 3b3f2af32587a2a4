"""Other threads while the interpreter exits: what they do for us is stopped first.

Python does not wait for daemon threads. It stops them wherever they are, and what they hold stays
held: it aborts if that is stdout, and it waits for ever for a worker that such a thread has started
meanwhile. So what they do here is interrupted, as Ctrl-C interrupts the main thread:

    main thread      … │ exit: interrupt, wait ▒▒▒▒│ other hooks of atexit │ end of the process
    another thread   a run ▓▓▓▓▓▓▓▓│ ends its workers ▓│ rests ────────────┘

A thread that rests neither returns to its caller nor raises: whatever it did next would be done
beside an interpreter that is being taken apart. Threads for which the interpreter waits have ended
by then.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from dataprep.pipeline.threads.bells import Bell

PATIENCE = 10.0  # seconds: what is in the middle of a long call into C is not waited for longer

Args = ParamSpec("Args")
Result = TypeVar("Result")

# No lock: a fork may copy one that is locked. Who comes in is entered before it asks whether the
# interpreter exits, and who comes out asks after it is no longer entered; `leave` says so before it
# looks who is entered. So nobody is interrupted who is out, and nobody who is in is overlooked.
_inside: dict[int, Bell] = {}  # by thread; rung when it rests
_is_leaving = False

UNBROKEN = threading.Lock()  # whoever holds it is not interrupted in what it does


class Leaving(BaseException):
    """The interpreter exits."""


def stopped_at_exit(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Stop this function at the interpreter's exit, if another thread than the main one runs it."""

    @wraps(function)
    def stoppable(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        me = threading.get_ident()
        if me in _inside or threading.current_thread() is threading.main_thread():
            return function(*args, **kwargs)
        resting = Bell()
        # `Leaving` comes once, and may come between any two instructions from here to the end.
        try:
            try:
                _come_in(me, resting)
                return function(*args, **kwargs)
            finally:
                _come_out(me, resting)
        except Leaving:
            _rest(resting)

    return stoppable


def leave() -> None:
    """Interrupt what other threads do here and wait until they rest: the interpreter exits."""
    global _is_leaving
    if _is_leaving:
        return
    _is_leaving = True
    others = _inside.copy()
    others.pop(threading.get_ident(), None)
    deadline = time.monotonic() + PATIENCE
    for thread in others:
        _interrupt(thread)
    for bell in others.values():
        bell.wait(max(0.0, deadline - time.monotonic()))


def leave_first() -> None:
    """Let `leave` run before all that has been registered up to now: what registers last does.

    To be called where a package is used that ends at exit what other threads may still need, and
    may have been imported just now.
    """
    atexit.unregister(leave)
    atexit.register(leave)


def _interrupt(thread: int) -> None:
    """Raise `Leaving` in a thread, at its next instruction outside of C and of `UNBROKEN`."""
    is_held = UNBROKEN.acquire(timeout=PATIENCE)
    raised = ctypes.py_object(Leaving)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
    if is_held:
        UNBROKEN.release()


def _come_in(thread: int, resting: Bell) -> None:
    _inside[thread] = resting
    if _is_leaving:
        _rest(resting)
    leave_first()


def _come_out(thread: int, resting: Bell) -> None:
    _inside.pop(thread, None)
    if _is_leaving:
        _rest(resting)


def _rest(resting: Bell) -> NoReturn:
    resting.ring()
    while True:
        Bell().wait()


os.register_at_fork(after_in_child=_inside.clear)  # the other threads are not there
