"""Where the records and the footer of an uncompressed ArrayRecord file lie, in closed form.

How records are laid out is said in `pipeline.mapped`; nothing is read here.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dataprep.pipeline.storage.riegeli import (
    BLOCK_HEADER_BYTES,
    CHUNK_HEADER_BYTES,
    PAYLOAD_BYTES,
    SIGNATURE_BYTES,
    physical,
    record_places,
)
from dataprep.pipeline.types import Offsets

_MAGIC = 0x71930E704FDAE05E
POSTSCRIPT_BYTES = 128  # at size - BLOCK_BYTES; enough of the last block to find the footer


def place_records(sizes: NDArray[Any]) -> tuple[Offsets, int]:
    """Where each record of these sizes starts in the file, and where the footer does.

    >>> import numpy as np
    >>> place_records(np.array([10, 10]))
    (array([107, 160]), 170)
    """
    starts = record_places(sizes)
    stop = int(starts[-1] + sizes[-1]) if len(sizes) else SIGNATURE_BYTES
    return physical(starts), stop + BLOCK_HEADER_BYTES * -(-stop // PAYLOAD_BYTES)


def footer_start(postscript: bytes) -> int:
    """Where the last block says that the footer starts; -1 if it is no such block."""
    place = BLOCK_HEADER_BYTES + CHUNK_HEADER_BYTES
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
