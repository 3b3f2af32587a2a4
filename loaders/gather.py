"""Parts of many rows out of memory, each part in one stroke.

    memory    ┊▒head tokens tail▒head toke┊ns tail▒ …        ┊: a block header, inside of any row
    rows      [2, 0, 7]
    head      u32[3, 2 + masks]      tokens  u16[3, width]      tail  the ends of all, flat

Copies bytes and knows the layout of a row; what they mean is for `expand`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.blocks import BLOCK, BLOCK_HEADER
from dataprep.pipeline.record import U32
from dataprep.pipeline.row import RowLayout
from dataprep.pipeline.types import Offsets

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBytes:
    """Where the payloads of some rows lie in memory."""

    memory: Bytes
    first: Offsets  # i64[rows], the first byte of each
    size: Offsets  # i64[rows], without the block headers inside
    in_blocks: bool  # a block header stands at every multiple of BLOCK

    def __len__(self) -> int:
        return len(self.first)

    def part(self, start: int, stop: int) -> RowBytes:
        return RowBytes(
            memory=self.memory,
            first=self.first[start:stop],
            size=self.size[start:stop],
            in_blocks=self.in_blocks,
        )


def gather_head(rows: RowBytes, layout: RowLayout) -> NDArray[Any]:
    """u32[rows, 2 + masks]"""
    return _gather(rows, 0, layout.head_bytes).view(U32)


def gather_tokens(rows: RowBytes, layout: RowLayout, start: int, stop: int) -> NDArray[Any]:
    """u16|u32[rows, stop - start]: the tokens of these columns."""
    item = layout.tokens.itemsize
    found = _gather(rows, layout.head_bytes + start * item, (stop - start) * item)
    return found.view(layout.tokens)


def gather_tails(rows: RowBytes, layout: RowLayout, counts: Offsets) -> NDArray[Any]:
    """u16|u32[sum of counts]: the first `counts` numbers of each tail, one row after another."""
    item = layout.ends.itemsize
    start, room = _locate(rows, np.int64(layout.tail_start))
    before = np.cumsum(counts) - counts
    places = np.repeat(start - item * before, counts)
    places += np.arange(0, item * len(places), item)
    tails = _strided(rows.memory, item)[places].view(layout.ends)
    for row in np.flatnonzero(room < item * counts):
        part = rows.part(row, row + 1)
        row_bytes = _gather(part, layout.tail_start, item * int(counts[row]))
        tails[before[row] : before[row] + counts[row]] = row_bytes.view(layout.ends)[0]
    return tails


def _gather(rows: RowBytes, offset: int, length: int) -> Bytes:
    """u8[rows, length]: the bytes from `offset` on of each payload."""
    start, room = _locate(rows, np.int64(offset))
    found = _strided(rows.memory, length)[start].view(np.uint8).reshape(len(rows), length)
    for row in np.flatnonzero(room < length):
        # A header is inside: what lies behind it was read from too early in memory.
        done, place = int(room[row]), int(start[row] + room[row]) + BLOCK_HEADER
        while done < length:
            count = min(length - done, BLOCK - BLOCK_HEADER)
            found[row, done : done + count] = rows.memory[place : place + count]
            done, place = done + count, place + count + BLOCK_HEADER
    return found


def _locate(rows: RowBytes, offset: Any) -> tuple[Offsets, Offsets]:
    """Where byte `offset` of each payload lies, and how many follow before the next header."""
    if not rows.in_blocks:
        return rows.first + offset, np.full(len(rows), np.iinfo(np.int64).max)
    in_block = rows.first % BLOCK - BLOCK_HEADER + offset
    headers = in_block // (BLOCK - BLOCK_HEADER)
    return (
        rows.first + offset + BLOCK_HEADER * headers,
        (BLOCK - BLOCK_HEADER) * (headers + 1) - in_block,
    )


def _strided(memory: Bytes, length: int) -> NDArray[Any]:
    """Element i is the `length` bytes from byte i on; indexing copies them whole."""
    count = len(memory) - length + 1
    return np.ndarray((count,), f"V{length}", memory, 0, (1,))
