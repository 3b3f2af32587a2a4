"""Rows described in bulk: pieces of equal length are interchangeable.

    length  copies  first_row  num_rows  slot
       600       1          0        40     0     rows 0 … 39 take one piece of 600 each,
       200       2          0        40     1     then two of 200 each;
       500       2         40         9     0     rows 40 … 48 take two of 500

So a search works on counts by length, and only `PieceLayout.places` looks at pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dataprep.pipeline.pack.strategies.order import shuffled
from dataprep.pipeline.pack.strategies.plan import Ints
from dataprep.pipeline.ragged import offsets_of, ranges

_CHUNK = 1 << 20  # pieces at a time: arrays small enough to reuse memory of the process


@dataclass(slots=True)
class Runs:
    num_rows: int = 0
    runs: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def open_rows(self, num_rows: int) -> int:
        """Open new rows; return the first of them."""
        first = self.num_rows
        self.num_rows += num_rows
        return first

    def put(self, length: int, copies: int, first_row: int, num_rows: int, slot: int) -> None:
        """Put pieces into rows that already have `slot` pieces each."""
        self.runs.append((length, copies, first_row, num_rows, slot))


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceLayout:
    """The places of pieces after the rows have been shuffled."""

    row_offsets: Ints  # i64[rows + 1], of the shuffled rows
    # One entry for each run and copy of it, shortest length first.
    length: Ints
    num_rows: Ints
    first_row: Ints
    slot: Ints
    # One entry for each row, before the shuffle.
    row_start: Ints  # its first place among the pieces of the shuffled rows
    segments: Ints
    rotation: Ints

    def places(self) -> Iterator[tuple[int, Ints, Ints]]:
        """Yield (n, place, length) of the pieces from the n-th on, shortest first, in chunks.

        Successive pieces of one length go to different rows, so that neighbours in the corpus are
        separated.
        """
        ends = np.cumsum(self.num_rows)
        begins = ends - self.num_rows
        num_pieces = int(ends[-1]) if len(ends) else 0
        for first in range(0, num_pieces, _CHUNK):
            stop = min(first + _CHUNK, num_pieces)
            runs = slice(
                np.searchsorted(ends, first, "right"), np.searchsorted(ends, stop, "left") + 1
            )
            size = np.minimum(ends[runs], stop) - np.maximum(begins[runs], first)
            row = np.repeat(self.first_row[runs] - begins[runs], size)
            row += np.arange(first, stop)
            place = np.repeat(self.slot[runs], size)
            place += self.rotation[row]
            segments = self.segments[row]
            place -= segments * (place >= segments)
            place += self.row_start[row]
            yield first, place, np.repeat(self.length[runs], size)


def lay_out(runs: Runs, *, seed: int, window: int) -> PieceLayout:
    """Shuffle the rows, and rotate the pieces within each.

    The searches put the longest piece of a row first. Row r of the shuffled rows is rotated by r,
    so that the place of a token tells nothing about the length of its document.
    """
    table = np.array(runs.runs, np.int64).reshape(-1, 5)
    length, copies, first_row, num_rows, slot = table[np.argsort(table[:, 0], kind="stable")].T
    change = np.zeros(runs.num_rows + 1, np.int64)
    np.add.at(change, first_row, copies)
    np.subtract.at(change, first_row + num_rows, copies)
    segments = np.cumsum(change[:-1])
    new_row = shuffled(runs.num_rows, seed=seed, window=window)
    shuffled_segments = np.empty_like(segments)
    shuffled_segments[new_row] = segments
    row_offsets = offsets_of(shuffled_segments)
    return PieceLayout(
        row_offsets=row_offsets,
        length=np.repeat(length, copies),
        num_rows=np.repeat(num_rows, copies),
        first_row=np.repeat(first_row, copies),
        slot=ranges(slot, copies),
        row_start=row_offsets[new_row],
        segments=segments,
        rotation=new_row % segments,
    )
