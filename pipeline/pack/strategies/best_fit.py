"""Put documents into as few rows as can be found fast; cut only those longer than a row.

    lengths ─► pieces ─► counts by length ─► runs of rows ─► place of each piece

There are two searches over the counts, `exact` and `decreasing`. The better one is taken, so there
are never more rows than best-fit decreasing needs. Both put pieces of similar length together, so
the rows are shuffled in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataprep.configs.base import Overflow, Side
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.pack.strategies.decreasing import best_fit_decreasing
from dataprep.pipeline.pack.strategies.exact import MIXINGS, fill_exactly
from dataprep.pipeline.pack.strategies.order import stable_order
from dataprep.pipeline.pack.strategies.overflow import (
    Blocks,
    FittedPieces,
    PlacedPieces,
    fit_pieces,
)
from dataprep.pipeline.pack.strategies.plan import (
    Counts,
    Ints,
    RowPlan,
    checked,
    checked_max_segments,
)
from dataprep.pipeline.pack.strategies.runs import PieceLayout, Runs, lay_out
from dataprep.pipeline.pack.strategies.strategy import Fit, Strategy
from dataprep.pipeline.pack.strategies.windows import Window, plan_windows

# The exact search takes about (distinct lengths) × (capacity) bit operations. Above this limit it
# would be slower than the rest of the planning, and so many lengths leave few gaps anyway.
_EXACT_SEARCH_LIMIT = 1 << 32


def best_fit(
    lengths: ArrayLike,
    capacity: int,
    *,
    overflow: Overflow = "split",
    truncate_side: Side = "right",
    blocks: Blocks | None = None,
    max_segments: int | None = None,
    seed: int = 0,
    window: int = 0,
) -> RowPlan:
    """Return the plan; `seed` and `window` (the index of the window) key the shuffle of rows."""
    pieces = fit_pieces(
        checked(lengths, capacity),
        capacity,
        overflow=overflow,
        truncate_side=truncate_side,
        blocks=blocks,
    )
    return best_fit_of(pieces, capacity, max_segments=max_segments, seed=seed, window=window)


def best_fit_of(
    pieces: FittedPieces, capacity: int, *, max_segments: int | None, seed: int, window: int
) -> RowPlan:
    """Return the plan of pieces that fit a row."""
    checked_max_segments(max_segments)
    counts = np.bincount(pieces.whole, minlength=capacity + 1)
    counts += np.bincount(pieces.length, minlength=capacity + 1)
    num_without = int(counts[0])  # documents that are empty, cut or dropped
    counts[0] = 0
    runs = _fewest_rows(counts, capacity, max_segments)
    layout = lay_out(runs, seed=seed, window=window)
    placed = _placed(pieces, layout, capacity, num_without)
    padding = runs.num_rows * capacity - pieces.num_tokens
    return RowPlan(
        capacity=capacity,
        **placed._asdict(),
        row_offsets=layout.row_offsets,
        counts=pieces.counts + Counts(rows=runs.num_rows, padding=padding),
    )


def _placed(
    pieces: FittedPieces, layout: PieceLayout, capacity: int, num_without: int
) -> PlacedPieces:
    """Return the pieces in the order of the shuffled rows."""
    # Pieces, shortest first as the layout has them; n + i of n documents is the cut piece i.
    num_documents = len(pieces.whole)
    narrow = np.uint16 if capacity < 1 << 16 else np.uint32
    sizes: NDArray[Any] = np.concatenate(
        [pieces.whole, pieces.length], dtype=narrow, casting="unsafe"
    )
    by_length = stable_order(sizes, capacity + 1)[num_without:]
    document, length = np.empty_like(by_length), np.empty_like(by_length)
    start = np.zeros(len(by_length), np.int64)
    head = None if pieces.head is None else np.zeros(len(by_length), np.int64)
    for first, place, piece_length in layout.places():
        piece = by_length[first : first + len(place)]
        is_cut = np.flatnonzero(piece >= num_documents)
        cut = piece[is_cut] - num_documents
        piece[is_cut] = pieces.document[cut]
        start[place[is_cut]] = pieces.start[cut]
        if head is not None and pieces.head is not None:
            head[place[is_cut]] = pieces.head[cut]
        document[place] = piece
        length[place] = piece_length
    return PlacedPieces(document=document, start=start, length=length, head=head)


def _fewest_rows(counts: Ints, capacity: int, max_segments: int | None) -> Runs:
    by_length = counts.tolist()
    least = _least_rows(counts, capacity, max_segments)
    best: Runs | None = None
    if np.count_nonzero(counts) * capacity <= _EXACT_SEARCH_LIMIT:
        for mixing in MIXINGS if max_segments is not None else MIXINGS[:1]:
            found = fill_exactly(by_length, capacity, max_segments, mixing)
            if best is None or found.num_rows < best.num_rows:
                best = found
            if best.num_rows == least:
                return best
    found = best_fit_decreasing(by_length, capacity, max_segments)
    return found if best is None or found.num_rows < best.num_rows else best


def _least_rows(counts: Ints, capacity: int, max_segments: int | None) -> int:
    """Return a number that no plan can beat: full pieces have a row each, the others share rows
    by tokens or by the cap on segments."""
    others = counts[:capacity]
    least = -(-int(others @ np.arange(capacity)) // capacity)
    if max_segments is not None:
        least = max(least, -(-int(others.sum()) // max_segments))
    return int(counts[capacity]) + least


def _plan(windows: Iterable[Window], config: PackConfig, fit: Fit) -> Iterator[RowPlan]:
    return plan_windows(
        windows,
        lambda window: best_fit_of(
            fit(window),
            config.seq_len + 1,
            max_segments=config.max_segments,
            seed=config.seed,
            window=window.index,
        ),
    )


BEST_FIT = Strategy(plan=_plan)
