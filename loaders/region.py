"""Many files as one stretch of memory.

    reserve   ├──────────────────────────────────────────┤   addresses only, nothing behind them
    map       ├── shard 0 ──┼── shard 1 ──┼── shard 2 ───┤   each file over its part

One array then reaches every byte of every file, so that a batch is one gather whatever shards its
rows are in. No file stays open, and the mapping lives as long as an array that looks at it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAP_FIXED = 0x10  # Linux and macOS
_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0x40
_PROCESS_MADVISE = 440  # the number of the system call, on every architecture
_IOV_MAX = 1024  # ranges that one call takes
_PAGE = mmap.PAGESIZE


class Region:
    """Read-only memory of files; each must be a whole number of pages long."""

    def __init__(self, files: Sequence[tuple[Path, int]]) -> None:
        self._map = mmap.mmap(
            -1,
            max(sum(size for _, size in files), _PAGE),
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE,
            prot=0,
        )
        self.memory: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self._address = int(self.memory.ctypes.data)
        place = self._address
        for path, size in files:
            _map_file(path, place, size)
            place += size
        # Rows are read at random: reading ahead would read a hundred times what is asked for.
        self._map.madvise(mmap.MADV_RANDOM)

    def will_need(self, starts: NDArray[Any], sizes: NDArray[Any]) -> None:
        """Have the system read these bytes now, all at once; no error if it cannot."""
        first = (starts + self._address) // _PAGE * _PAGE
        ranges = np.empty((len(starts), 2), np.uint64)  # address, length
        ranges[:, 0] = first
        ranges[:, 1] = starts + self._address + sizes - first
        if not _advise_all(ranges):
            for start, length in ranges.tolist():
                self._map.madvise(mmap.MADV_WILLNEED, start - self._address, length)


def _map_file(path: Path, address: int, size: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = _libc().mmap(
            address, size, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0
        )
    finally:
        os.close(descriptor)
    if found != address:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    return libc


def _advise_all(ranges: NDArray[np.uint64]) -> bool:
    """One system call for all ranges; False where there is none (Linux has it since 5.10)."""
    if sys.platform != "linux":
        return False
    try:
        process = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        for start in range(0, len(ranges), _IOV_MAX):
            part = ranges[start : start + _IOV_MAX]
            arguments = (process, part.ctypes.data, len(part), mmap.MADV_WILLNEED, 0)
            if _libc().syscall(_PROCESS_MADVISE, *map(ctypes.c_long, arguments)) < 0:
                return False
    finally:
        os.close(process)
    return True
