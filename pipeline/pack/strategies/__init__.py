"""Lengths of documents -> plan of rows. Pure arithmetic: no tokens, no files.

    lengths ─► overflow ─► pieces ─► best_fit | first_fit | pad ─► Plan
    lengths ─────────────────────────────────────────── concat ─► Plan

A row holds at most `capacity` = seq_len + 1 tokens, so that its inputs are `tokens[:-1]` and its
targets `tokens[1:]`. Every strategy is a function of its arguments alone. Copying tokens by the
plan and writing rows is left to others.
"""

from __future__ import annotations

from dataprep.pipeline.pack.strategies.best_fit import best_fit
from dataprep.pipeline.pack.strategies.concat import concat
from dataprep.pipeline.pack.strategies.first_fit import first_fit
from dataprep.pipeline.pack.strategies.overflow import Blocks, Overflow
from dataprep.pipeline.pack.strategies.pad import pad
from dataprep.pipeline.pack.strategies.plan import Counts, Lengths, Plan, Side
from dataprep.pipeline.pack.strategies.windows import (
    Window,
    cut_windows,
    plan_concat_windows,
    plan_windows,
)

__all__ = [
    "Blocks",
    "Counts",
    "Lengths",
    "Overflow",
    "Plan",
    "Side",
    "Window",
    "best_fit",
    "concat",
    "cut_windows",
    "first_fit",
    "pad",
    "plan_concat_windows",
    "plan_windows",
]
