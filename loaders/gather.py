"""The same part of many rows, copied out of memory at once.

    memory    ┊head tokens tail│head toke┊ns tail│ …        ┊: a block header, inside of any row
    rows      [2, 0, 7]
    head      u32[3, 2 + masks]
    tokens    u16[3, width]
    tails     u16[n], the ends of all three rows, one row after another

Copies bytes by the layout of a row; `expand` knows what they mean, `storage.riegeli` where block
headers are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import offsets_of, ranges
from dataprep.pipeline.storage import riegeli
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.types import Offsets

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBytes:
    """Where the payloads of some rows are in memory."""

    memory: Bytes
    first: Offsets  # i64[rows], the first byte of each
    size: Offsets  # i64[rows], without the block headers inside
    in_blocks: bool  # whether the memory has block headers in between

    def __len__(self) -> int:
        return len(self.first)

    def part(self, which: slice | Offsets) -> RowBytes:
        """Return some of these rows."""
        return RowBytes(
            memory=self.memory,
            first=self.first[which],
            size=self.size[which],
            in_blocks=self.in_blocks,
        )


def gather_head(rows: RowBytes, num_bytes: int) -> NDArray[Any]:
    """Return the numbers that each payload begins with: u32[rows, num_bytes / 4]."""
    return _copy(rows.memory, *_locate(rows, 0), num_bytes).view(U32)


def gather_tokens(
    rows: RowBytes, layout: RowLayout, columns: slice, chunk: int
) -> Iterator[NDArray[Any]]:
    """Yield some columns of the tokens of `chunk` rows at a time: u16|u32[chunk, columns]."""
    item = layout.tokens.itemsize
    start, room = _locate(rows, layout.head_bytes + columns.start * item)
    length = (columns.stop - columns.start) * item
    for row in range(0, len(rows), chunk):
        part = slice(row, row + chunk)
        yield _copy(rows.memory, start[part], room[part], length).view(layout.tokens)


def gather_tails(rows: RowBytes, layout: RowLayout, counts: Offsets) -> NDArray[Any]:
    """Return the first counts[i] numbers of the tail of row i, one row after another.

    u16|u32[sum of counts]
    """
    item = layout.ends.itemsize
    start, room = _locate(rows, layout.tail_start)
    places = ranges(start, counts, item)
    tails: NDArray[Any] = _strided(rows.memory, item)[places].view(layout.ends)
    offsets = offsets_of(counts)
    for row in np.flatnonzero(room < item * counts).tolist():
        part = slice(row, row + 1)
        found = _copy(rows.memory, start[part], room[part], item * int(counts[row]))
        tails[offsets[row] : offsets[row + 1]] = found.view(layout.ends)[0]
    return tails


def gather_ranges(
    rows: RowBytes, offsets: Offsets, lengths: Offsets, target: Bytes, places: Offsets
) -> None:
    """Copy bytes [offset, offset + length) of each payload, which must have them, to byte `places`
    of an array. A Python loop over payloads: about as long as copying two kilobytes each."""
    start, room = _locate(rows, offsets)
    memory, into = rows.memory.data, target.data
    each = zip(start.tolist(), room.tolist(), lengths.tolist(), places.tolist(), strict=True)
    for first, before, length, place in each:
        if length <= before:
            into[place : place + length] = memory[first : first + length]
            continue
        into[place : place + before] = memory[first : first + before]
        for more, size in riegeli.stretches_after(first + before, length - before):
            into[place + before : place + before + size] = memory[more : more + size]
            before += size


def _locate(rows: RowBytes, offset: int | Offsets) -> tuple[Offsets, Offsets]:
    """Return where byte `offset` of each payload is, and how many bytes before the next header."""
    if rows.in_blocks:
        return riegeli.locate(rows.first, offset)
    return rows.first + offset, np.full(len(rows), np.iinfo(np.int64).max)


def _copy(memory: Bytes, start: Offsets, room: Offsets, length: int) -> Bytes:
    """Return `length` bytes from each start, without the headers between: u8[rows, length]."""
    found = _strided(memory, length)[start].view(np.uint8).reshape(len(start), length)
    for row in np.flatnonzero(room < length).tolist():
        # A header is inside: what follows it was read from too early in memory.
        done = int(room[row])
        for place, size in riegeli.stretches_after(int(start[row]) + done, length - done):
            found[row, done : done + size] = memory[place : place + size]
            done += size
    return found


def _strided(memory: Bytes, length: int) -> NDArray[Any]:
    """Return an array whose element i is the `length` bytes from byte i on; nothing is copied."""
    return np.ndarray((len(memory) - length + 1,), f"V{length}", memory, 0, (1,))
