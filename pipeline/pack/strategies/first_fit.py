"""Put documents, in order, each into the first open row that has room for it.

A row stays open until `open_rows` rows have been opened after it, so a document never lands far
behind its neighbours and a stream of any length needs bounded state. Rows are numbered as they
open; within a row documents keep their order.

    lengths [5, 6, 3, 2], capacity 8 -> rows [0:5 | 2:3]  [1:6 | 3:2]

The first row with room is found among the *peaks*, the open rows that have more room than every
open row before them: their room ascends, so one bisection does it.

    row    4  5  6  7  8         peaks 4, 6, 8: a document of 5 goes to 6
    room   3  1  7  7  9
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from dataprep.configs.base import Overflow, Side
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.pack.strategies.order import stable_order
from dataprep.pipeline.pack.strategies.overflow import Blocks, FittedPieces, fit_pieces
from dataprep.pipeline.pack.strategies.plan import (
    Counts,
    RowPlan,
    checked,
    checked_max_segments,
)
from dataprep.pipeline.pack.strategies.strategy import Fit, Strategy
from dataprep.pipeline.pack.strategies.windows import Window, plan_windows
from dataprep.pipeline.ragged import offsets_of

DEFAULT_OPEN_ROWS = 256


def first_fit(
    lengths: ArrayLike,
    capacity: int,
    *,
    overflow: Overflow = "split",
    truncate_side: Side = "right",
    blocks: Blocks | None = None,
    max_segments: int | None = None,
    open_rows: int = DEFAULT_OPEN_ROWS,
) -> RowPlan:
    pieces = fit_pieces(
        checked(lengths, capacity),
        capacity,
        overflow=overflow,
        truncate_side=truncate_side,
        blocks=blocks,
    )
    return first_fit_of(pieces, capacity, max_segments=max_segments, open_rows=open_rows)


def first_fit_of(
    pieces: FittedPieces, capacity: int, *, max_segments: int | None, open_rows: int
) -> RowPlan:
    """Return the plan of pieces that fit a row."""
    if open_rows < 1:
        raise ConfigError(f"open_rows must be at least 1, got {open_rows}")
    checked_max_segments(max_segments)
    placed = pieces.in_order()
    row_of, num_rows = _place(placed.length.tolist(), capacity, open_rows, max_segments)
    row = np.array(row_of, np.int64)
    order = stable_order(row, num_rows)
    padding = num_rows * capacity - pieces.num_tokens
    return RowPlan(
        capacity=capacity,
        **placed.taken(order)._asdict(),
        row_offsets=offsets_of(np.bincount(row, minlength=num_rows)),
        counts=pieces.counts + Counts(rows=num_rows, padding=padding),
    )


def _place(
    lengths: list[int], capacity: int, open_rows: int, max_segments: int | None
) -> tuple[list[int], int]:
    """Return the row of each piece and the number of rows: one tight loop over all documents."""
    room: list[int] = []  # of every row so far
    free: list[int] = []  # segments left in every row, where capped
    peak_room: list[int] = []
    peak_row: list[int] = []
    row_of: list[int] = []
    for length in lengths:
        at = bisect_left(peak_room, length)
        if at < len(peak_room):
            row = peak_row[at]
            left = room[row] - length
            if max_segments is not None:
                free[row] -= 1
                if not free[row]:
                    left = 0
            room[row] = left
            before = peak_room[at - 1] if at else 0
            until = peak_row[at + 1] if at + 1 < len(peak_row) else len(room)
            if left > before and (until == row + 1 or max(room[row + 1 : until]) <= left):
                peak_room[at] = left
            else:
                _renew(room, peak_room, peak_row, at, row, until)
            row_of.append(row)
            continue
        row = len(room)
        row_of.append(row)
        left = capacity - length
        if max_segments is not None:
            free.append(max_segments - 1)
            if max_segments == 1:
                left = 0
        room.append(left)
        if left > (peak_room[-1] if peak_room else 0):
            peak_room.append(left)
            peak_row.append(row)
        if peak_row and peak_row[0] <= row - open_rows:
            until = peak_row[1] if len(peak_row) > 1 else len(room)
            _renew(room, peak_room, peak_row, 0, row - open_rows + 1, until)
    return row_of, len(room)


def _renew(
    room: list[int], peak_room: list[int], peak_row: list[int], at: int, row: int, until: int
) -> None:
    """Replace the peak at `at` by the peaks among rows row … until - 1."""
    highest = peak_room[at - 1] if at else 0
    rooms, rows = [], []
    for candidate in range(row, until):
        if room[candidate] > highest:
            highest = room[candidate]
            rooms.append(highest)
            rows.append(candidate)
    peak_room[at : at + 1] = rooms
    peak_row[at : at + 1] = rows


def _plan(windows: Iterable[Window], config: PackConfig, fit: Fit) -> Iterator[RowPlan]:
    return plan_windows(
        windows,
        lambda window: first_fit_of(
            fit(window),
            config.seq_len + 1,
            max_segments=config.max_segments,
            open_rows=config.open_rows,
        ),
    )


FIRST_FIT = Strategy(plan=_plan)
