"""Put one piece into each row; the rest is padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from dataprep.configs.base import Overflow, Side
from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.pack.strategies.overflow import Blocks, FittedPieces, fit_pieces
from dataprep.pipeline.pack.strategies.plan import Counts, RowPlan, checked
from dataprep.pipeline.pack.strategies.strategy import Fit, RowQuirks, Strategy
from dataprep.pipeline.pack.strategies.windows import Window, plan_windows


def pad(
    lengths: ArrayLike,
    capacity: int,
    *,
    overflow: Overflow = "truncate",
    truncate_side: Side = "right",
    pad_side: Side = "right",
    blocks: Blocks | None = None,
) -> RowPlan:
    """Return the plan, with rows in the order of documents.

    lengths [3, 9], capacity 8, truncate -> rows [0:0+3] [1:0+8]
    """
    pieces = fit_pieces(
        checked(lengths, capacity),
        capacity,
        overflow=overflow,
        truncate_side=truncate_side,
        blocks=blocks,
    )
    return pad_of(pieces, capacity, pad_side=pad_side)


def pad_of(pieces: FittedPieces, capacity: int, *, pad_side: Side) -> RowPlan:
    """Return the plan of pieces that fit a row."""
    if pad_side not in get_args(Side):
        raise ConfigError(f"pad_side must be left or right, got {pad_side!r}")
    placed = pieces.in_order()
    rows = len(placed.length)
    padding = rows * capacity - pieces.num_tokens
    return RowPlan(
        capacity=capacity,
        **placed._asdict(),
        row_offsets=np.arange(rows + 1),
        counts=pieces.counts + Counts(rows=rows, padding=padding),
        pad_side=pad_side,
    )


def _plan(windows: Iterable[Window], config: PackConfig, fit: Fit) -> Iterator[RowPlan]:
    return plan_windows(
        windows,
        lambda window: pad_of(fit(window), config.seq_len + 1, pad_side=config.pad_side),
    )


def _quirks(config: PackConfig, masks: Sequence[str]) -> RowQuirks:
    # Of LWM's two classes that pad, only the one for vision shifts the loss.
    shifts = config.compat == "lwm" and "vision" in masks
    return RowQuirks(pad_left=config.pad_side == "left", shift_full_rows=shifts)


PAD = Strategy(plan=_plan, quirks=_quirks)
