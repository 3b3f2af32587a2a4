"""Whole messages over a socket whose other side may be stopped or killed in the middle of one.

length, 8 bytes │ data │ length │ da          the last is kept until the rest of it comes
"""

from __future__ import annotations

import os
from contextlib import suppress

_LENGTH_BYTES = 8
_READ_BYTES = 1 << 20


def send_whole(descriptor: int, data: bytes) -> None:
    """Send a message; wait for as long as the other side takes."""
    left = memoryview(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    while left:
        left = left[os.write(descriptor, left) :]


class Inbox:
    """The messages that come over a socket, which this makes non-blocking."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.is_closed = False  # the other side has ended; nothing more comes
        os.set_blocking(descriptor, False)

    def take(self) -> list[bytes]:
        """Return the messages that have come whole, without waiting for the rest of one."""
        with suppress(BlockingIOError):
            while data := self._read():
                self._buffer += data
            self.is_closed = True
        found = []
        while len(self._buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "little")
            if len(self._buffer) < end:
                break
            found.append(bytes(self._buffer[_LENGTH_BYTES:end]))
            del self._buffer[:end]
        return found

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except ConnectionError:  # it died with messages that it had not read
            return b""
