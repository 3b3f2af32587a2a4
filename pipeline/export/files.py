"""Files that are written from the start to the end, all of each array, and hashed meanwhile.

`write` of an unbuffered file may write a part and say so, as when a disk is nearly full.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import xxhash

from dataprep.pipeline.files import Content


class OutFile:
    """A new file. If its writer fails, it is closed when nobody holds it any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666
        )
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._state, self._size = xxhash.xxh3_128(), 0
        self._is_hashed = True

    def write(self, data: Any) -> None:
        """Write all bytes of an array or of bytes, after what was written before."""
        view = memoryview(data)
        if view.nbytes:
            left = view.cast("B")
            self._state.update(left)  # first: it brings the bytes near
            self._size += len(left)
            while left:
                left = left[os.write(self._descriptor, left) :]

    def seek(self, place: int) -> None:
        """Write from this byte on; then nobody knows the hash of the file."""
        os.lseek(self._descriptor, place, os.SEEK_SET)
        self._is_hashed = False

    def close(self) -> Content | None:
        """Return size and hash of what was written, if it was from the start to the end."""
        self._close()
        return Content(self._size, self._state.hexdigest()) if self._is_hashed else None
