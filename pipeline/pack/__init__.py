"""`dataprep pack`: tokenized documents to rows of seq_len + 1 tokens.

recipe       what make_dataset needs to know of this command
corpus       tokenized datasets as one run of documents, mapped
blocks       blocks of codes that must not be cut, and those that were
plan         lengths ─► which tokens of which documents lie in which row
strategies/  STRATEGIES: best_fit, first_fit, concat, pad
rows         pieces of documents ─► rows with masks, as arrays
worker       a task: planned rows ─► one shard
manifest     what the dataset holds, by what the tasks have committed
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.pack.recipe import pack, pack_plan_of

__all__ = ["pack", "pack_plan_of"]


def __getattr__(name: str) -> Any:
    # On first use: a worker enters by this door too, and needs none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.pack.recipe"), name)
