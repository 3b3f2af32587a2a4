"""Blocks of codes: what a modality makes of them, many blocks in one stroke.

    codes    10 11 20 21 30 31 | 7 8          counts [6, 2], of two records
    wrapped  what stands between the tags of each, one after another, all of it under the mask

`vision` and `audio` say how; `parts` puts tags around.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """Blocks without their tags."""

    ids: Ids
    lengths: Offsets  # of each block
    dropped: Offsets  # codes of each that fill no frame
    thinned: Offsets  # codes of each that the config leaves out


class Block(Protocol):
    """How the codes of one modality are laid out."""

    @property
    def start(self) -> Ids:
        """The tag before."""

    @property
    def end(self) -> Ids: ...

    @property
    def codebook_size(self) -> int: ...

    @property
    def codebooks(self) -> int: ...

    @property
    def may_nest(self) -> bool:
        """Whether a list of codes may hold a list for each codebook."""

    @property
    def raw_dtype(self) -> np.dtype[Any]:
        """Of codes that come as bytes without a header."""

    @property
    def max_id(self) -> int: ...

    def flatten(self, codes: NDArray[Any], /) -> NDArray[Any]:
        """The codes of one record as one list, frame by frame; ValueError if their shape is not
        that of frames."""

    def fault(self, count: int, /) -> str:
        """What is wrong with so many codes, or ''."""

    def wrap(self, codes: NDArray[Any], counts: Offsets, /) -> Wrapped:
        """Codes that have no fault, one record after another."""

    def shape(self, num_ids: int, /) -> str:
        """Of a block of so many ids, for people: 4×256; 3×256+9 where it was cut."""

    def unwrap(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        """The codes of each whole medium among the ids between tags, as encoders give them."""

    def unwrap_cut(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        """As `unwrap`, where the beginning may be missing, so that frames may begin anywhere; what
        cannot be told for sure is left out."""

    @property
    def facts(self) -> dict[str, int]:
        """What an encoder of such codes has, by the names that encoders have for it."""

    @property
    def lost(self) -> str:
        """Why no block can be decoded, or ''."""


def faults(codes: NDArray[Any], counts: Offsets, block: Block) -> Mapping[int, str]:
    """What is wrong with which of the records."""
    found: dict[int, str] = {}
    for count in np.unique(counts).tolist():
        reason = block.fault(count)
        if reason:
            found |= dict.fromkeys(np.flatnonzero(counts == count).tolist(), reason)
    # Of an unsigned type nothing is negative, and comparing is cheaper than looking twice.
    if len(codes) and (codes.min() < 0 or codes.max() >= block.codebook_size):
        outside = np.flatnonzero((codes < 0) | (codes >= block.codebook_size))
        ends = np.cumsum(counts)
        owners = np.searchsorted(ends, outside, side="right")
        _, first = np.unique(owners, return_index=True)
        for owner, place in zip(owners[first].tolist(), outside[first].tolist(), strict=True):
            position = place - int(ends[owner] - counts[owner])
            found[owner] = (
                f"has code {int(codes[place])} at position {position}, outside "
                f"0..{block.codebook_size - 1} (codebook_size)"
            )
    return found


def whole_frames(
    codes: NDArray[Any], counts: Offsets, frame: int
) -> tuple[NDArray[Any], Offsets, Offsets]:
    """(codes, counts, codes dropped) without what fills no frame."""
    rest = counts % frame
    if not rest.any():
        return codes, counts, rest
    place = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = counts - rest
    return codes[place < np.repeat(kept, counts)], kept, rest


def frame_fault(count: int, frame: int, *, may_drop: bool, of: str) -> str:
    if count < frame:
        return f"has {count} codes, fewer than one frame of {frame}"
    if count % frame and not may_drop:
        return f"has {count} codes, not a whole number of frames of {frame}; set {of}.partial_frame"
    return ""
