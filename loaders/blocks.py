"""Where the records of an uncompressed ArrayRecord file lie, in closed form.

The file is a chain of chunks, one for each record, and every 65,536 bytes a block header of 24
interrupts whatever is there. A file begins with a chunk of 40 bytes that holds nothing; the chunk
of a record of n bytes is

    40 bytes of header | 1 byte: no compression | 1 byte: length of the varint | varint n | n bytes

So without the block headers, record i starts where the sum of all chunks before it says, and the
headers are put back by one division. Only what is here knows the format; nothing is read here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import Offsets

BLOCK = 65_536
BLOCK_HEADER = 24
_ROOM = BLOCK - BLOCK_HEADER  # bytes of a block that hold chunks
_CHUNK_HEADER = 40
_MAGIC = 0x71930E704FDAE05E
POSTSCRIPT_BYTES = 128  # at size - BLOCK; enough of the last block to find the footer


def place_records(sizes: NDArray[Any]) -> tuple[Offsets, int]:
    """Where each record of these sizes starts in the file, and where the footer does.

    >>> place_records(np.array([10, 10]))
    (array([107, 160]), 170)
    """
    n = sizes.astype(np.int64)
    varint = 1 + sum((n >= 1 << bits).astype(np.int64) for bits in (7, 14, 21, 28))
    stops = _CHUNK_HEADER + np.cumsum(_CHUNK_HEADER + 2 + varint + n)
    stop = int(stops[-1]) if len(n) else _CHUNK_HEADER
    starts = stops - n
    return starts + BLOCK_HEADER * (starts // _ROOM + 1), stop + BLOCK_HEADER * -(-stop // _ROOM)


def footer_start(postscript: bytes) -> int:
    """Where the last block says that the footer starts; -1 if it is no such block."""
    place = BLOCK_HEADER + _CHUNK_HEADER
    # No compression, three sizes of a byte each, then {1: footer, 2: magic} as a protocol buffer.
    if len(postscript) < POSTSCRIPT_BYTES or postscript[place : place + 2] != b"\x00\x03":
        return -1
    tag, place = postscript[place + 5], place + 6
    footer, place = _varint(postscript, place)
    magic_tag, (magic, _) = postscript[place], _varint(postscript, place + 1)
    return footer if (tag, magic_tag, magic) == (0x08, 0x10, _MAGIC) else -1


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """The number that starts at `place`, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, place
