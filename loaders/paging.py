"""Many files as one stretch of memory, and pages asked for before they are needed.

    reserve   ├──────────────────────────────────────────┤   addresses only, nothing behind them
    map       ├── shard 0 ──┼── shard 1 ──┼── shard 2 ───┤   each file over its part
    advise         ▲▲   ▲        ▲                  ▲        the pages of the next batch

`MappedFiles` maps: one array reaches every byte of every file, so that a batch is one gather
whatever shards its rows are in. No file stays open, and the mapping lives as long as an array that
looks at it. A file that is cut short while it is mapped makes it `torn`, see `bus_errors`.

`DiskWatch` decides whether to advise. Telling the system which rows come next makes reads from the
disk ten times faster, and costs a tenth of reading them from memory. So it is told only while
reads come from the disk.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.whole import Identity, identity_of
from dataprep.pipeline.errors import CorruptError

if TYPE_CHECKING:
    from dataprep.loaders.bus_errors import Guard

if sys.platform == "linux":
    import resource

_MAP_FIXED = 0x10  # Linux and macOS
_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0x40
_PROCESS_MADVISE = 440  # the number of the system call, on every architecture
_IOV_MAX = 1024  # ranges that one call takes
_PAGE = mmap.PAGESIZE


class MappedFiles:
    """Read-only memory of files; each must be a whole number of pages long."""

    def __init__(self, files: Sequence[tuple[Path, int]], *, reserved: int = 0) -> None:
        """`reserved`: so many bytes of addresses behind the files, for those that come later."""
        self._map = mmap.mmap(
            -1,
            max(sum(size for _, size in files) + reserved, _PAGE),
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE,
            prot=0,
        )
        self.memory: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self._address = int(self.memory.ctypes.data)
        self._guards: dict[int, Guard] = {}  # at most one; `setdefault` is atomic
        self.identities: list[Identity] = []  # of the files as they were mapped
        place = self._address
        for path, size in files:
            self.identities.append(_map_file(path, place, size))
            place += size
        # Rows are read at random: reading ahead would read a hundred times what is asked for.
        self._map.madvise(mmap.MADV_RANDOM)

    def map_at(self, place: int, path: Path, size: int) -> None:
        """Map a file over a part that was reserved."""
        _map_file(path, self._address + place, size)
        self._map.madvise(mmap.MADV_RANDOM, place, size)

    def unmap_at(self, place: int, size: int) -> None:
        """Take a file away; nobody may read there any more."""
        flags = _MAP_FIXED | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        _libc().mmap(self._address + place, size, 0, flags, -1, 0)

    def guard(self) -> bool:
        """Have reads of what is gone return zeros and tear this; return False where they cannot.

        To be called again now and then: others may set a handler of the same signal.
        """
        bus_errors = _bus_errors()
        if bus_errors is None:
            return False
        try:
            if not self._guards:
                self._add_guard(bus_errors.Guard(self._address, len(self.memory)))
            bus_errors.keep()
        except OSError:  # the system does not let us
            return False
        return self._guards[0].holds

    def _add_guard(self, guard: Guard) -> None:
        weakref.finalize(self._map, guard.release)
        if self._guards.setdefault(0, guard) is not guard:  # another thread was faster
            guard.release()

    @property
    def torn(self) -> bool:
        """Return whether a part of the files was gone when it was read."""
        return bool(self._guards) and self._guards[0].hits > 0

    def will_need(self, starts: NDArray[Any], sizes: NDArray[Any]) -> None:
        """Have the system read these bytes now, all at once; do nothing if it cannot."""
        first = (starts + self._address) // _PAGE * _PAGE
        extents = np.empty((len(starts), 2), np.uint64)  # address, length
        extents[:, 0] = first
        extents[:, 1] = starts + self._address + sizes - first
        if not _advise_all(extents):
            for start, length in extents.tolist():
                self._map.madvise(mmap.MADV_WILLNEED, start - self._address, length)


class SparseArray:
    """Numbers that take memory once they are written, until they are freed."""

    def __init__(self, count: int, dtype: Any) -> None:
        self._size = np.dtype(dtype).itemsize
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._map = mmap.mmap(-1, max(count * self._size, _PAGE), flags=flags)
        self.values: NDArray[Any] = np.frombuffer(self._map, dtype, count)

    def free(self, first: int, stop: int) -> None:
        """Give back the pages that have these numbers only: they are not defined any more."""
        begin = -(-first * self._size // _PAGE) * _PAGE
        end = stop * self._size // _PAGE * _PAGE
        if end > begin:
            self._map.madvise(mmap.MADV_DONTNEED, begin, end - begin)


class DiskWatch:
    """Notices whether the calling thread has read from the disk of late."""

    _PATIENCE = 16  # calls without a read from the disk, after which reading is taken to be over

    def __init__(self) -> None:
        self._seen = self._quiet = 0

    def reads(self) -> bool:
        """Return whether the disk was read since one of the last calls."""
        if sys.platform != "linux":
            return True
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        seen = usage.ru_majflt + usage.ru_inblock
        self._quiet = 0 if seen != self._seen else self._quiet + 1
        self._seen = seen
        return self._quiet < self._PATIENCE


def _map_file(path: Path, address: int, size: int) -> Identity:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        identity = identity_of(os.fstat(descriptor))
        if identity.size != size:
            raise CorruptError(f"{path} has {identity.size} bytes, of {size}: it was just changed")
        found = _libc().mmap(
            address, size, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0
        )
    finally:
        os.close(descriptor)
    if found != address:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))
    return identity


@cache
def _bus_errors() -> Any:
    """Return the module that guards memory; None where it cannot: looked for once a process."""
    try:
        from dataprep.loaders import bus_errors
    except ImportError:  # no numba, or another system
        return None
    return bus_errors


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    return libc


def _advise_all(extents: NDArray[np.uint64]) -> bool:
    """Advise all extents in one system call; return False where there is none (Linux before 5.10).

    Each extent is an address and a length.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return False
    try:
        process = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        for start in range(0, len(extents), _IOV_MAX):
            part = extents[start : start + _IOV_MAX]
            arguments = (process, part.ctypes.data, len(part), mmap.MADV_WILLNEED, 0)
            if _libc().syscall(_PROCESS_MADVISE, *map(ctypes.c_long, arguments)) < 0:
                return False
    finally:
        os.close(process)
    return True
