"""Parts of many rows out of memory, each part in one stroke.

    memory    ┊▒head tokens tail▒head toke┊ns tail▒ …        ┊: a block header, inside of any row
    rows      [2, 0, 7]
    head      u32[3, 2 + masks]      tokens  u16[3, width]      tail  the ends of all, flat

Copies bytes and knows the layout of a row; what they mean is for `expand`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.riegeli import BLOCK_BYTES, BLOCK_HEADER_BYTES, PAYLOAD_BYTES
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.types import Offsets

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBytes:
    """Where the payloads of some rows lie in memory."""

    memory: Bytes
    first: Offsets  # i64[rows], the first byte of each
    size: Offsets  # i64[rows], without the block headers inside
    in_blocks: bool  # a block header stands at every multiple of BLOCK_BYTES

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
    return _copy(rows.memory, *_locate(rows, 0), layout.head_bytes).view(U32)


def gather_tokens(
    rows: RowBytes, layout: RowLayout, columns: slice, chunk: int
) -> Iterator[NDArray[Any]]:
    """u16|u32[chunk, columns] of tokens, until all rows were given."""
    item = layout.tokens.itemsize
    start, room = _locate(rows, layout.head_bytes + columns.start * item)
    length = (columns.stop - columns.start) * item
    for row in range(0, len(rows), chunk):
        part = slice(row, row + chunk)
        yield _copy(rows.memory, start[part], room[part], length).view(layout.tokens)


def gather_tails(rows: RowBytes, layout: RowLayout, counts: Offsets) -> NDArray[Any]:
    """u16|u32[sum of counts]: the first `counts` numbers of each tail, one row after another."""
    item = layout.ends.itemsize
    start, room = _locate(rows, layout.tail_start)
    before = np.cumsum(counts) - counts
    places = np.repeat(start - item * before, counts)
    places += np.arange(0, item * len(places), item)
    tails: NDArray[Any] = _strided(rows.memory, item)[places].view(layout.ends)
    for row in np.flatnonzero(room < item * counts).tolist():
        part = slice(row, row + 1)
        found = _copy(rows.memory, start[part], room[part], item * int(counts[row]))
        tails[before[row] : before[row] + counts[row]] = found.view(layout.ends)[0]
    return tails


def _locate(rows: RowBytes, offset: int) -> tuple[Offsets, Offsets]:
    """Where byte `offset` of each payload lies, and how many bytes before the next header."""
    if not rows.in_blocks:
        return rows.first + offset, np.full(len(rows), np.iinfo(np.int64).max)
    in_block = rows.first % BLOCK_BYTES + (offset - BLOCK_HEADER_BYTES)
    headers, used = np.divmod(in_block, PAYLOAD_BYTES)
    return (
        rows.first + BLOCK_HEADER_BYTES * headers + offset,
        PAYLOAD_BYTES - used,
    )


def _copy(memory: Bytes, start: Offsets, room: Offsets, length: int) -> Bytes:
    """u8[rows, length]: that many bytes from each start, without the headers between them."""
    found = _strided(memory, length)[start].view(np.uint8).reshape(len(start), length)
    for row in np.flatnonzero(room < length).tolist():
        # A header is inside: what lies behind it was read from too early in memory.
        done, place = int(room[row]), int(start[row] + room[row]) + BLOCK_HEADER_BYTES
        while done < length:
            count = min(length - done, PAYLOAD_BYTES)
            found[row, done : done + count] = memory[place : place + count]
            done, place = done + count, place + count + BLOCK_HEADER_BYTES
    return found


def _strided(memory: Bytes, length: int) -> NDArray[Any]:
    """Element i is the `length` bytes from byte i on; indexing copies them whole."""
    return np.ndarray((len(memory) - length + 1,), f"V{length}", memory, 0, (1,))
