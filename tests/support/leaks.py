"""What is left behind: processes, threads, descriptors, shared memory, temporary files."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

SHARED = Path("/dev/shm")


def held() -> dict[str, list[str]]:
    """Return what this process and the system hold at the moment."""
    gc.collect()
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "descriptors": sorted(_targets()),
        "shared memory": sorted(path.name for path in SHARED.iterdir()) if SHARED.exists() else [],
    }


def _targets() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue  # the descriptor that listed them
    return [name for name in found if not name.startswith(("pipe:", "/proc"))]


def leaks_of(act: Callable[[], object], times: int) -> dict[str, int]:
    """Do something once to warm up, then again and again; return how much more is held of each."""
    act()
    before = held()
    for _ in range(times):
        act()
    after = held()
    return {kind: len(after[kind]) - len(before[kind]) for kind in before}
