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
to it once, and from then on to the first.
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
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_SYMBOL = "dataprep_guarded_memory"

# Read by the handler: first address, last, hits of each guard; then the addresses of the handler
# that was there first, and of the one that gets the next fault that is not ours.
_table = np.zeros((_SLOTS + 1, 3), np.int64)
_free = deque(range(_SLOTS))


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux on 64-bit machines."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
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
    other = _later if _table[_SLOTS, 0] else _first
    ctypes.memmove(ctypes.byref(other), ctypes.byref(current), ctypes.sizeof(_Action))
    _table[_SLOTS, :2] = ctypes.addressof(_first), ctypes.addressof(other)
    action = _Action(handler=ours, flags=_SA_SIGINFO | _SA_ONSTACK)
    if libc.sigaction(signal.SIGBUS, ctypes.byref(action), None):
        raise OSError(ctypes.get_errno(), "cannot handle SIGBUS")


@cache
def _handler() -> int:
    # By name, so that the code that numba keeps finds the table of this process.
    binding.add_symbol(_SYMBOL, _table.ctypes.data)
    signature = types.void(types.int32, types.CPointer(types.int64), types.voidptr)
    try:
        address: int = cfunc(signature, cache=True)(_answer).address
    except RuntimeError:  # there is no place to keep the code
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
_sigaction = types.ExternalFunction("sigaction", types.int32(types.int32, types.int64, types.int64))


def _answer(number: Any, info: Any, context: Any) -> None:
    """Handle the signal; `info` is a siginfo_t: code and address are in its second and third word.

    A code that is not positive means that a process sent the signal, as faulthandler does to hand
    it over. That is no fault to answer; if there was one, the read is tried again and comes here.
    """
    words = carray(info, (3,))
    if np.int32(words[1]) <= 0:
        return
    address = words[2]
    table = carray(_guarded(), (_SLOTS + 1, 3))
    for slot in range(_SLOTS):
        if table[slot, 0] <= address < table[slot, 1]:
            table[slot, 2] += 1
            page = address // _PAGE * _PAGE
            if _mmap(page, _PAGE, mmap.PROT_READ, _ZEROS, -1, 0) == page:
                return
    other = table[_SLOTS, 1]
    table[_SLOTS, 1] = table[_SLOTS, 0]
    _sigaction(number, other, 0)  # the read is tried again, and meets the other handler
