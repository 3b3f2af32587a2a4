"""Memory that a process shares with those that it starts, without a name that others could open.

`Handed` gives them bytes of any size, which the environment and a pipe cannot: the first has a
limit, and who writes to the second waits until the other side reads.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from typing import Any


def anonymous_file(name: str) -> int:
    """Return the descriptor of a file in memory; `name` is only for those who look at it."""
    make = getattr(os, "memfd_create", None)
    with tempfile.TemporaryFile() if make is None else open(make(name), "wb") as file:
        # Not 0, 1 or 2, which are free if the user closed them: a worker has others there.
        return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)


class Handed:
    """Bytes for processes that are being started."""

    def __init__(self, data: bytes) -> None:
        self._descriptor = anonymous_file("handed")
        with open(self._descriptor, "wb", closefd=False) as file:
            file.write(data)

    def read(self) -> bytes:
        found, place = [], 0
        # By place: the processes share one position in the file.
        while data := os.pread(self._descriptor, 1 << 24, place):
            found.append(data)
            place += len(data)
        return b"".join(found)

    def close(self) -> None:
        os.close(self._descriptor)

    def __getstate__(self) -> Any:
        from multiprocess.reduction import DupFd

        return DupFd(self._descriptor)  # of the process that is being started

    def __setstate__(self, descriptor: Any) -> None:
        self._descriptor = descriptor.detach()
