"""A strategy: a function from windows of lengths to plans of rows, and how its rows are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.pack.strategies.overflow import FittedPieces
from dataprep.pipeline.pack.strategies.plan import RowPlan
from dataprep.pipeline.pack.strategies.windows import Window

Fit = Callable[[Window], FittedPieces]  # the documents of a window as pieces that fit a row


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuirks:
    """How rows differ from the usual: padding right, no loss on the first token of a piece."""

    pad_left: bool = False
    keep_first_loss: bool = False  # LWM's stream
    rows_share: bool = False  # each row but the first begins with the last token of the one before
    shift_full_rows: bool = False  # LWM's pad of codes: the loss of full rows is shifted by one


def no_quirks(config: PackConfig, masks: Sequence[str]) -> RowQuirks:
    return RowQuirks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    plan: Callable[[Iterable[Window], PackConfig, Fit], Iterator[RowPlan]]
    keeps_blocks: bool = True  # whether it avoids cutting blocks; else cut blocks are counted
    # Of a config, and of the masks that rows have.
    quirks: Callable[[PackConfig, Sequence[str]], RowQuirks] = no_quirks
