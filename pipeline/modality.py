"""Vision codes into wrapped blocks, as LWM trains on them.

    codes  10 11 | 20 21 | 30 31 | 40      tokens_per_frame 2, max_frames 2
    block  <vision> 10 11 8192 30 31 8193 </vision>
    mask      0      1  1   1   1  1   1      0

The tags are outside: `wrap_frames` gives what stands between them, all of it under the mask.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import Ids

DIGITS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """How one modality's codes are framed, with its tags as ids."""

    start: Ids
    end: Ids
    tokens_per_frame: int
    end_of_frame: int
    end_of_media: int
    max_frames: int | None
    codebook_size: int
    code_offset: int
    drop_partial_frame: bool

    @property
    def max_id(self) -> int:
        highest = max(self.codebook_size - 1, self.end_of_frame, self.end_of_media)
        tags = [int(i) for i in (*self.start, *self.end)]
        return max(highest + self.code_offset, *tags, 0)


def parse_codes(value: Any, codebook_size: int) -> NDArray[np.int64]:
    """A flat list of ints, digit strings or integral floats; ValueError says what is wrong."""
    if not isinstance(value, list):
        raise ValueError(f"must be a list of codes, got {type(value).__name__}")
    if not value:
        return np.zeros(0, np.int64)
    codes = _as_integers(value)
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= codebook_size:
        bad = low if low < 0 else high
        place = int(np.flatnonzero(codes == bad)[0])
        raise ValueError(f"code {bad} at position {place} is outside 0..{codebook_size - 1}")
    return codes


def _as_integers(value: list[Any]) -> NDArray[np.int64]:
    kinds = set(map(type, value))
    if kinds <= {int, str, float}:
        plain = value if kinds == {int} else [_as_integer(v, i) for i, v in enumerate(value)]
        try:
            return np.array(plain, np.int64)
        except OverflowError:
            raise ValueError("a code does not fit 64 bits") from None
    if list in kinds:
        raise ValueError("is a nested list; give the codes of all frames as one flat list")
    names = ", ".join(sorted(kind.__name__ for kind in kinds - {int, str, float}))
    raise ValueError(f"holds {names}; codes are ints, digit strings or integral floats")


def _as_integer(value: int | str | float, place: int) -> int:
    if isinstance(value, str):
        if DIGITS.fullmatch(value):
            return int(value)
    elif isinstance(value, int) or value.is_integer():
        return int(value)
    raise ValueError(f"code {value!r} at position {place} is not an integer")


def wrap_frames(codes: NDArray[np.int64], block: Block) -> tuple[Ids, int]:
    """Ids between the tags, and how many codes of a partial last frame were dropped."""
    size = block.tokens_per_frame
    num_frames, rest = divmod(len(codes), size)
    if not num_frames:
        raise ValueError(f"has {len(codes)} codes, fewer than one frame of {size}")
    if rest and not block.drop_partial_frame:
        raise ValueError(f"has {len(codes)} codes, not a whole number of frames of {size}")
    frames = codes[: num_frames * size].reshape(num_frames, size)
    if block.max_frames is not None and num_frames > block.max_frames:
        # Exactly this call: integer arithmetic picks other frames, first at 31 frames of 23.
        frames = frames[np.linspace(0, num_frames - 1, block.max_frames).astype(int)]
    ids = np.empty((len(frames), size + 1), np.uint32)
    ids[:, :size] = frames + block.code_offset
    ids[:, size] = block.end_of_frame + block.code_offset
    ids[-1, size] = block.end_of_media + block.code_offset
    return ids.reshape(-1), rest
