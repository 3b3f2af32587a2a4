"""Whole numbers as varints, many at once: seven bits a byte, lowest first.

    300        1010_1100 0000_0010        the top bit says that more bytes follow
    ids        5  300  40000
    bytes      05  AC 02  C0 B8 02
    offsets    0   1      3        6

Numbers below 2^21, all ids of all tokenizers, have at most three bytes: both they and their number
are looked up in tables. Larger ones are computed. `kernels` takes a tenth of the time for either.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.compiled import Kernels
from dataprep.pipeline.types import Offsets

MOST_BYTES = 10  # of a number of 64 bits
KERNELS = Kernels("dataprep.pipeline.storage.foreign.kernels", pays_after=1 << 26)
_TABLE_LIMIT = 1 << 21
_AT_ONCE = 1 << 16  # numbers, so that what is computed of them stays near
# Which of four bytes are there, by how many there are.
_PRESENT = np.array([0, 1, 0x0101, 0x010101, 0x01010101], "<u4")


def encode_varints(values: NDArray[Any]) -> tuple[NDArray[np.uint8], Offsets]:
    """Return the bytes of all values, and where those of each begin, with the end behind.

    >>> data, offsets = encode_varints(np.array([5, 300, 40000], np.uint32))
    >>> data.tobytes().hex(), offsets.tolist()
    ('05ac02c0b802', [0, 1, 3, 6])
    """
    if not len(values):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    highest = int(values.max())
    if highest >= _TABLE_LIMIT:
        return _computed(values)
    words, sizes = _tables(_rounded(highest + 1))
    present = _PRESENT[sizes]
    parts = []
    for first in range(0, len(values), _AT_ONCE):
        part = values[first : first + _AT_ONCE]
        # Twice as fast as to index by the booleans themselves.
        places = np.flatnonzero(present[part].view(np.bool_))
        parts.append(words[part].view(np.uint8).take(places))
    return np.concatenate(parts), offsets_of(sizes[values])


def decode_varints(data: bytes) -> tuple[NDArray[np.int64], Offsets]:
    r"""Return the numbers that follow each other, and the place of the last byte of each.

    >>> decode_varints(b"\x05\xac\x02")
    (array([  5, 300]), array([0, 2]))
    """
    is_end = np.frombuffer(data, np.uint8) < 0x80
    kernels = KERNELS.after(len(data))
    if kernels is not None:
        found: tuple[NDArray[np.int64], Offsets] = kernels.decode_varints(
            data, int(np.count_nonzero(is_end))
        )
        return found
    ends = np.flatnonzero(is_end)
    values = np.empty(len(ends), np.int64)
    start = 0
    for first in range(0, len(ends), _AT_ONCE):
        part = ends[first : first + _AT_ONCE]
        stop = int(part[-1]) + 1
        values[first : first + len(part)] = _decoded(data[start:stop], part - start)
        start = stop
    return values, ends


def _decoded(data: bytes, ends: Offsets) -> NDArray[np.int64]:
    """Return the numbers whose last bytes are at these places."""
    sizes = np.diff(ends, prepend=-1)
    starts = ends - sizes + 1
    longest = int(sizes.max())
    if longest > MOST_BYTES:
        raise ValueError("an integer has more than 64 bits")
    # The bytes after the last number are looked at, but never count.
    padded = np.frombuffer(data + bytes(MOST_BYTES), np.uint8) & 0x7F
    kind: Any = np.uint32 if longest <= 4 else np.uint64  # enough for most, and twice as fast
    values = padded[starts].astype(kind)
    for number in range(1, longest):
        more = padded[starts + number].astype(kind) * (sizes > number)
        values |= more << kind(7 * number)
    return values.astype(np.uint64).view(np.int64)


def varint(value: int) -> bytes:
    r"""
    >>> varint(300)
    b'\xac\x02'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _rounded(count: int) -> int:
    """Return a size of tables, so that few are made."""
    return min(_TABLE_LIMIT, 1 << max(16, (count - 1).bit_length()))


@lru_cache(maxsize=4)
def _tables(count: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return the bytes of the first numbers, as words of four, and how many each has."""
    values = np.arange(count, dtype=np.uint32)
    sizes = (1 + (values >= 1 << 7) + (values >= 1 << 14)).astype(np.uint8)
    words = values & 0x7F | (values >> 7 & 0x7F) << 8 | (values >> 14) << 16
    words |= np.where(sizes > 1, np.uint32(0x80), np.uint32(0))
    words |= np.where(sizes > 2, np.uint32(0x8000), np.uint32(0))
    return words.astype("<u4"), sizes


def _computed(values: NDArray[Any]) -> tuple[NDArray[np.uint8], Offsets]:
    wide = values.astype(np.uint64)
    shifts = np.arange(0, 70, 7, dtype=np.uint64)
    groups = [wide >> shift if shift < 64 else np.zeros_like(wide) for shift in shifts]
    stacked = np.stack(groups, axis=1)
    sizes = 1 + np.count_nonzero(stacked[:, 1:], axis=1)
    number = np.arange(len(groups))
    data = (stacked & np.uint64(0x7F)).astype(np.uint8)
    data[number < (sizes[:, None] - 1)] |= 0x80
    return data[number < sizes[:, None]], offsets_of(sizes)
