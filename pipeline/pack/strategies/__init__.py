"""Plan rows by the lengths of documents. Pure arithmetic: no tokens, no files.

    lengths ─► windows ─► overflow ─► pieces ─► best_fit | first_fit | pad ─► RowPlan
    lengths ─► windows ───────────────────────────────────────── concat ─► RowPlan

    strategy    what a strategy is
    plan        RowPlan: which tokens of which documents are in which row; Counts
    windows     any number of documents in bounded memory
    overflow    documents longer than a row: split, truncate or drop, between blocks
    turns       which whole turns of a conversation longer than a row are kept
    best_fit    as few rows as can be found fast, by exact, decreasing, runs and order
    first_fit   keeps the order of the corpus, with some rows open at a time
    concat      one stream cut into rows
    pad         one document in each row

A row holds at most `capacity` = seq_len + 1 tokens, so that its inputs are `tokens[:-1]` and its
targets `tokens[1:]`. Every strategy is a function of its arguments only. `pack.rows` copies tokens
by the plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.pipeline.pack.strategies.best_fit import BEST_FIT, best_fit
from dataprep.pipeline.pack.strategies.concat import CONCAT, concat, plan_concat_windows
from dataprep.pipeline.pack.strategies.first_fit import FIRST_FIT, first_fit
from dataprep.pipeline.pack.strategies.overflow import Blocks, FittedPieces, fit_pieces
from dataprep.pipeline.pack.strategies.pad import PAD, pad
from dataprep.pipeline.pack.strategies.plan import Counts, Lengths, RowPlan
from dataprep.pipeline.pack.strategies.strategy import Fit, RowQuirks, Strategy
from dataprep.pipeline.pack.strategies.turns import Turns, keep_turns
from dataprep.pipeline.pack.strategies.windows import Window, cut_windows, plan_windows

STRATEGIES: Mapping[str, Strategy] = {
    "best_fit": BEST_FIT,
    "first_fit": FIRST_FIT,
    "concat": CONCAT,
    "pad": PAD,
}

__all__ = [
    "STRATEGIES",
    "Blocks",
    "Counts",
    "Fit",
    "FittedPieces",
    "Lengths",
    "RowPlan",
    "RowQuirks",
    "Strategy",
    "Turns",
    "Window",
    "best_fit",
    "concat",
    "cut_windows",
    "first_fit",
    "fit_pieces",
    "keep_turns",
    "pad",
    "plan_concat_windows",
    "plan_windows",
]
