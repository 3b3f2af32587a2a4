"""Files that are written from the start to the end, all of each array.

`write` of an unbuffered file may write a part and say so, as when a disk is nearly full.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any


class OutFile:
    """A new file. If its writer fails, it is closed when nobody holds it any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666
        )
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def write(self, data: Any) -> None:
        """Write all bytes of an array or of bytes, after what was written before."""
        view = memoryview(data)
        if view.nbytes:
            left = view.cast("B")
            while left:
                left = left[os.write(self._descriptor, left) :]

    def seek(self, place: int) -> None:
        """Write from this byte on."""
        os.lseek(self._descriptor, place, os.SEEK_SET)

    def close(self) -> None:
        self._close()
