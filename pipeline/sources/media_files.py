"""Pixels and samples as files, of the same bytes everywhere: nothing is compressed.

u8[height, width, 3]                             ─►   PNG
i16[n], or f32[n] within -1..1, and their rate   ─►   WAV
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return u8[height, width, 3] as a PNG file."""
    height, width, _ = pixels.shape
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each with filter 0 before it
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", _stored(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def wav_of(samples: NDArray[np.int16] | NDArray[np.float32], rate: int) -> bytes:
    """Return i16[n] or f32[n] as a WAV file of one channel."""
    is_float = samples.dtype == np.float32
    data = samples.astype("<f4" if is_float else "<i2").tobytes()
    width = 4 if is_float else 2
    form = struct.pack("<HHIIHH", 3 if is_float else 1, 1, rate, width * rate, width, 8 * width)
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", len(form))
    return head + form + struct.pack("<4sI", b"data", len(data)) + data


def media_file(value: Any) -> Any:
    """Return a picture or a sound as bytes of a file; anything else as it is.

    Pictures are arrays u8[height, width, 3] or of PIL, also several in a list; a sound is a mapping
    with `array` and `sampling_rate`. ValueError says what is wrong with one.
    """
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.shape[2:] == (3,):
        if not value.size:
            raise ValueError(f"a picture of shape {list(value.shape)} has no pixels")
        return png_of(value)
    if hasattr(value, "save") and hasattr(value, "getbands"):  # of PIL
        file = io.BytesIO()
        value.save(file, "PNG")
        return file.getvalue()
    if isinstance(value, Mapping) and {"array", "sampling_rate"} <= value.keys():
        return _sound_file(np.asarray(value["array"]), value["sampling_rate"])
    return [media_file(item) for item in value] if isinstance(value, list) else value


def _sound_file(samples: NDArray[Any], rate: Any) -> bytes:
    if samples.ndim != 1:  # which axis are the channels? Read as one they would be another sound.
        raise ValueError(
            f"a sound of shape {list(samples.shape)} has several channels; give one, f32[samples], "
            "such as their mean"
        )
    if samples.dtype != np.int16 and samples.dtype.kind != "f":
        raise ValueError(
            f"a sound has samples of type {samples.dtype}; give floats of -1 to 1, or int16"
        )
    if isinstance(rate, bool) or not 0 < rate < 1 << 31 or int(rate) != rate:
        raise ValueError(f"sampling_rate {rate!r} is no whole number of samples a second")
    return wav_of(samples if samples.dtype == np.int16 else samples.astype(np.float32), int(rate))


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
