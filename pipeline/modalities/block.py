"""Blocks of codes: the protocol that every modality has, and faults in codes.

    codes    10 11 20 21 30 31 | 7 8          counts [6, 2], of two records
    wrapped  the ids between the tags of each block, one after another, all of them under the mask

`vision` and `audio` lay out ids; `documents.parts` adds the tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import counted
from dataprep.pipeline.types import Ids, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """Blocks without their tags."""

    ids: Ids
    lengths: Offsets  # of each block
    dropped: Offsets  # codes of each block that do not fill a frame
    thinned: Offsets  # codes of each block that the config leaves out


class Block(Protocol):
    """How the codes of one modality are laid out."""

    @property
    def start(self) -> Ids:
        """The tag before the codes."""

    @property
    def end(self) -> Ids:
        """The tag after the codes."""

    @property
    def codebook_size(self) -> int: ...

    @property
    def codebooks(self) -> int: ...

    @property
    def may_nest(self) -> bool:
        """Whether a list of codes may hold a list for each codebook."""

    @property
    def raw_dtype(self) -> np.dtype[Any]:
        """The type of codes that come as bytes without a header."""

    @property
    def max_code_id(self) -> int:
        """The largest id between the tags."""

    @property
    def max_id(self) -> int:
        """The largest id, tags included."""

    def flatten(self, codes: NDArray[Any], /) -> NDArray[Any]:
        """Return the codes of one record as one list, frame by frame; ValueError if their shape
        is not that of frames."""

    def fault(self, count: int, /) -> str:
        """Return what is wrong with a block of `count` codes, or ''."""

    def wrap(self, codes: NDArray[Any], counts: Offsets, /) -> Wrapped:
        """Turn the codes of many records, none with a fault, into ids."""

    def shape(self, num_ids: int, /) -> str:
        """Return the shape of a block of so many ids, for people: 4×256; 3×256+9 if it was cut."""

    def unwrap(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        """Return the codes of each whole picture or sound in a block, as encoders give them."""

    def unwrap_cut(self, ids: NDArray[Any], /) -> list[NDArray[np.int32]]:
        """Do as `unwrap` for a block whose beginning may be missing, so that frames may begin
        anywhere; leave out what is not certain."""

    @property
    def facts(self) -> dict[str, int]:
        """The properties that an encoder of such codes must have, by their names there."""

    @property
    def lost(self) -> str:
        """Why no block can be decoded, or ''."""


def faults(codes: NDArray[Any], counts: Offsets, block: Block) -> Mapping[int, str]:
    """Return what is wrong with the codes of which record."""
    found: dict[int, str] = {}
    for count in np.unique(counts).tolist():
        reason = block.fault(count)
        if reason:
            found |= dict.fromkeys(np.flatnonzero(counts == count).tolist(), reason)
    # Minimum and maximum are cheap; a mask over all codes is made only if one is outside.
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
    """Return the codes that fill whole frames, their counts, and how many each record loses."""
    rest = counts % frame
    if not rest.any():
        return codes, counts, rest
    place = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = counts - rest
    return codes[place < np.repeat(kept, counts)], kept, rest


def frame_fault(count: int, frame: int, *, may_drop: bool, of: str) -> str:
    if count < frame:
        return f"has {counted(count, 'code')}, fewer than one frame of {frame}"
    if count % frame and not may_drop:
        return (
            f"has {counted(count, 'code')}, not a whole number of frames of {frame}; "
            f"set {of}.partial_frame"
        )
    return ""
