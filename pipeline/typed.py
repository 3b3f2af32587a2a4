"""Decode JSON as a type, from any thread.

`msgspec` looks at a class when it first meets it, and keeps what it found before that is complete:
threads that decode the same class for the first time at once end the process (SIGSEGV; with 0.22
one time in eleven where threads take turns often). So decoders are made here, one at a time, and
whatever is decoded as a class is decoded by one of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_lock = threading.Lock()
_decoders: dict[tuple[Any, Hook | None], msgspec.json.Decoder[Any]] = {}


def decoder_of(kind: type[T], hook: Hook | None = None) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type; `hook` decodes what msgspec does not know."""
    found = _decoders.get((kind, hook))
    if found is None:
        with _lock:
            found = _decoders.setdefault((kind, hook), msgspec.json.Decoder(kind, dec_hook=hook))
    return found


def decode_as(data: bytes | str, kind: type[T], hook: Hook | None = None) -> T:
    """Return the value of a JSON text; raises msgspec's errors.

    >>> decode_as("[1, 2]", tuple[int, ...])
    (1, 2)
    """
    return decoder_of(kind, hook).decode(data)


def convert_as(value: Any, kind: type[T]) -> T:
    """Return what JSON gave as a type; raises msgspec's errors."""
    decoder_of(kind)  # so that it is known
    return msgspec.convert(value, kind)


def _unlock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)  # another thread may have held it
