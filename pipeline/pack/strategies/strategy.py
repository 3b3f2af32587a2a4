"""What a strategy is: windows of lengths to plans of rows, and how its rows are built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dataprep.configs import PackConfig
from dataprep.pipeline.pack.strategies.overflow import Blocks
from dataprep.pipeline.pack.strategies.plan import RowPlan
from dataprep.pipeline.pack.strategies.windows import Window

BlocksOf = Callable[[Window], Blocks | None]  # what must not be cut in a window, if anything


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuirks:
    """How rows differ from the usual: padding on the right, no loss on a piece's first token."""

    pad_left: bool = False
    keep_first_loss: bool = False  # LWM's stream
    shift_full_rows: bool = False  # LWM's pad: loss of a full row is one token too far


def no_quirks(config: PackConfig) -> RowQuirks:
    return RowQuirks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    plan: Callable[[Iterable[Window], PackConfig, BlocksOf], Iterator[RowPlan]]
    keeps_blocks: bool = True  # it looks at blocks; else those that it cuts are counted
    quirks: Callable[[PackConfig], RowQuirks] = no_quirks
