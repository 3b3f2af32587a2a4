"""A file cut short while it is mapped: zeros and a mark, where the system would end the process.

    read    ├── page ──┼── page ──┼── gone ──┤
            SIGBUS ─► the handler puts a page of zeros there, counts, and the read goes on
    after   Guard.hits > 0  ─►  whoever read throws the bytes away and raises

Python cannot handle this signal: it must be answered before the read goes on. So the handler is
machine code, made by numba. It answers for the memory that is guarded here; any other fault goes to
the handler that was there before. Where numba is missing, nothing is guarded.

    first     default        faulthandler.enable()       `keep`, once a second
    handler   ours     ─►    theirs, then ours     ─►    ours, then theirs, then default

A handler that was set after ours hands faults that it does not know to ours. So ours hands a fault
to it once, and from then on to the first. One that returns without having done anything, as
faulthandler's does once it is disabled, would be called again for ever: so each is set to answer
once, after which the system ends the process, until `keep` sets it again.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
from collections import deque
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import carray, cfunc, types
from numba.extending import intrinsic

if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
    raise ImportError("guards are for Linux on 64-bit machines")

_SLOTS = 1024
_PAGE = mmap.PAGESIZE
_ZEROS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # over what is there: MAP_FIXED
_SA_SIGINFO, _SA_ONSTACK, _SA_RESETHAND = 4, 0x08000000, 0x80000000
_SI_TKILL = -6  # the code of a signal that a thread is sent
_FAULT, _SENT = 1, 2  # what was handed over
_SYMBOL = "dataprep_guarded_memory"

# Read by the handler: first address, last, hits of each guard; then the addresses of the handler
# that was there first, and of the one that gets the next fault that is not ours, and what
# was handed over last.
_table = np.zeros((_SLOTS + 1, 3), np.int64)
_free = deque(range(_SLOTS))


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux on 64-bit machines."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    )


_first, _later = _Action(), _Action()


class Guard:
    """Memory that may lose the file behind it."""

    def __init__(self, start: int, size: int) -> None:
        keep()
        try:
            self._slot: int | None = _free.popleft()  # atomic: no two guards get the same
        except IndexError:
            self._slot = None
        else:
            _table[self._slot] = start, start + size, 0

    @property
    def holds(self) -> bool:
        return self._slot is not None

    @property
    def hits(self) -> int:
        """Return how many pages were gone when they were read."""
        return 0 if self._slot is None else int(_table[self._slot, 2])

    def release(self) -> None:
        if self._slot is not None:
            _table[self._slot, 1] = 0
            _free.append(self._slot)
            self._slot = None


def keep() -> None:
    """Have our handler answer first; another that was set meanwhile comes after it."""
    ours, current = _handler(), _Action()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sigaction(signal.SIGBUS, None, ctypes.byref(current))
    if current.handler == ours:
        return
    if not _table[_SLOTS, 0]:
        _copy(current, _first)
    if current.handler or not _table[_SLOTS, 2]:  # else it is gone because it was handed a fault
        _copy(current, _later)
    _table[_SLOTS] = ctypes.addressof(_first), ctypes.addressof(_later), 0
    action = _Action(handler=ours, flags=_SA_SIGINFO | _SA_ONSTACK)
    if libc.sigaction(signal.SIGBUS, ctypes.byref(action), None):
        raise OSError(ctypes.get_errno(), "cannot handle SIGBUS")


def _copy(action: _Action, target: _Action) -> None:
    ctypes.memmove(ctypes.byref(target), ctypes.byref(action), ctypes.sizeof(_Action))
    target.flags |= _SA_RESETHAND


@cache
def _handler() -> int:
    # By name, so that the code that numba keeps finds the table of this process.
    binding.add_symbol(_SYMBOL, _table.ctypes.data)
    signature = types.void(types.int32, types.CPointer(types.int64), types.voidptr)
    try:
        address: int = cfunc(signature, cache=True)(_answer).address
    except Exception:  # there is no place to keep the code, it is full, or what is kept is damaged
        address = cfunc(signature)(_answer).address
    return address


@intrinsic  # type: ignore[untyped-decorator]
def _guarded(context: Any) -> Any:
    """Return the address of the table."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = ir.GlobalVariable(builder.module, ir.IntType(64), _SYMBOL)
        table.linkage = "external"
        return table

    return types.CPointer(types.int64)(), generate


_mmap = types.ExternalFunction(
    "mmap",
    types.int64(types.int64, types.int64, types.int32, types.int32, types.int32, types.int64),
)
_raise = types.ExternalFunction("raise", types.int32(types.int32))
_sigaction = types.ExternalFunction("sigaction", types.int32(types.int32, types.int64, types.int64))


def _answer(number: Any, info: Any, context: Any) -> None:
    """Handle the signal; `info` is a siginfo_t: code and address are in its second and third word.

    A code that is not positive means that the signal was sent. One that a handler sends in its own
    thread, as faulthandler does to hand over what it was called for, is let go: if it was a fault,
    the read is tried again and comes here.
    """
    words = carray(info, (3,))
    code, address = np.int32(words[1]), words[2]
    is_fault = code > 0
    table = carray(_guarded(), (_SLOTS + 1, 3))
    if code == _SI_TKILL and table[_SLOTS, 2] != _SENT:
        return
    is_ours = False
    for slot in range(_SLOTS):
        if is_fault and table[slot, 0] <= address < table[slot, 1]:
            table[slot, 2] += 1
            is_ours = True
    page = address // _PAGE * _PAGE
    if is_ours and _mmap(page, _PAGE, mmap.PROT_READ, _ZEROS, -1, 0) == page:
        return
    other = table[_SLOTS, 1]
    table[_SLOTS, 1], table[_SLOTS, 2] = table[_SLOTS, 0], _FAULT if is_fault else _SENT
    _sigaction(number, other, 0)  # the read is tried again, and meets the other handler
    if not is_fault:
        _raise(number)  # which waits until this one returns
