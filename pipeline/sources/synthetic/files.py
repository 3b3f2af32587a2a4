"""Pixels and samples as files, of the same bytes everywhere: nothing is compressed."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return u8[height, width, 3] as a PNG file."""
    height, width, _ = pixels.shape
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each with filter 0 before it
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", _stored(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def wav_of(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return i16[n] as a WAV file of one channel."""
    data = samples.astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", len(form))
    return head + form + struct.pack("<4sI", b"data", len(data)) + data


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def _stored(data: bytes) -> bytes:
    """Return the data as a zlib stream of blocks that are stored as they are."""
    starts = range(0, len(data), 0xFFFF)
    blocks = []
    for start in starts:
        part = data[start : start + 0xFFFF]
        is_last = start + len(part) == len(data)
        blocks.append(struct.pack("<BHH", is_last, len(part), len(part) ^ 0xFFFF) + part)
    return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))
