"""Varints and tf.train.Example, compiled by numba: the same bytes and numbers as without it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.storage.compiled import compiled
from dataprep.pipeline.types import Offsets

_LONGEST_HEAD = 64  # bytes of tags and sizes before the varints of a record, without its key
_LONG, _SHORT = 10, 5  # most bytes of a varint of 64 bits, and of 32
ID_TYPES = (np.dtype("<u2"), np.dtype("<u4"))  # that can be encoded


def encode_examples(prefix: bytes, values: NDArray[Any], offsets: Offsets) -> tuple[bytes, Offsets]:
    """Return an Example for each list of ids, one after another, and where each begins.

    `prefix` is the key as a field.
    """
    room = (_LONGEST_HEAD + len(prefix)) * (len(offsets) - 1) + (_SHORT + 1) * len(values)
    out, places = np.empty(room, np.uint8), np.zeros(len(offsets), np.int64)
    _encode(np.frombuffer(prefix, np.uint8), values, offsets, out, places)
    return out[: places[-1]].tobytes(), places


def decode_varints(data: bytes, count: int) -> tuple[NDArray[np.int64], Offsets]:
    """Return `count` numbers that follow each other, and the place of the last byte of each."""
    values, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    if not _decode(np.frombuffer(data, np.uint8), values, ends):
        raise ValueError("an integer has more than 64 bits")
    return values, ends


@compiled
def _size(value: Any) -> Any:
    size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


@compiled
def _sizes(values: Any) -> Any:
    """Return how many bytes ids have together."""
    total = len(values)
    for value in values:
        total += (value >= 1 << 7) + (value >= 1 << 14) + (value >= 1 << 21) + (value >= 1 << 28)
    return total


@compiled
def _put(out: Any, place: Any, value: Any) -> Any:
    """Write a varint; return the place after it."""
    while value > 0x7F:
        out[place] = value & 0x7F | 0x80
        value >>= 7
        place += 1
    out[place] = value
    return place + 1


# Most numbers have one to three bytes, and one does not tell how many the next has: both ways are
# without a branch for these, or half of the time would be lost to wrong guesses.


@compiled
def _put_all(out: Any, place: Any, values: Any) -> Any:
    for value in values:
        if value < 1 << 21:
            low, middle = value < 1 << 7, value < 1 << 14
            out[place] = value & 0x7F | (0 if low else 0x80)
            out[place + 1] = value >> 7 & 0x7F | (0 if middle else 0x80)
            out[place + 2] = value >> 14
            place += 3 - low - middle
        else:
            place = _put(out, place, value)
    return place


@compiled
def _encode(prefix: Any, values: Any, offsets: Any, out: Any, places: Any) -> None:
    place = 0
    for i in range(len(offsets) - 1):
        own = values[offsets[i] : offsets[i + 1]]
        size = _sizes(own)
        listed = 1 + _size(size) + size if size else 0  # an empty list is left out
        feature = 1 + _size(listed) + listed
        entry = len(prefix) + 1 + _size(feature) + feature
        out[place] = 0x0A
        place = _put(out, place + 1, 1 + _size(entry) + entry)
        out[place] = 0x0A
        place = _put(out, place + 1, entry)
        for byte in prefix:
            out[place] = byte
            place += 1
        out[place] = 0x12
        place = _put(out, place + 1, feature)
        out[place] = 0x1A
        place = _put(out, place + 1, listed)
        if size:
            out[place] = 0x0A
            place = _put_all(out, _put(out, place + 1, size), own)
        places[i + 1] = place


@compiled
def _decode(data: Any, values: Any, ends: Any) -> bool:
    place: Any = 0
    last = len(data) - 3
    for i in range(len(values)):
        if place <= last and data[place] & data[place + 1] & data[place + 2] < 0x80:
            a, b, c = np.int64(data[place]), np.int64(data[place + 1]), np.int64(data[place + 2])
            two = a >> 7
            three = two & (b >> 7)
            values[i] = a & 0x7F | (b & 0x7F & -two) << 7 | (c & -three) << 14
            place += 1 + two + three
        else:
            value, shift = np.uint64(0), 0
            while data[place] > 0x7F:
                if shift == 7 * (_LONG - 1):
                    return False
                value |= np.uint64(data[place] & 0x7F) << np.uint64(shift)
                place, shift = place + 1, shift + 7
            values[i] = np.int64(value | np.uint64(data[place]) << np.uint64(shift))
            place += 1
        ends[i] = place - 1
    return True
