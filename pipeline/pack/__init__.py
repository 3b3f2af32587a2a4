"""`dataprep pack`: tokenized documents to rows of seq_len + 1 tokens.

recipe       what make_dataset needs to know about this command
corpus       tokenized datasets as one sequence of documents, mapped or read
selection    which documents are packed, by a file of numbers
selected     those documents, numbered through, as plans see them
inputs       the check of their files, each once in a run
pieces       pieces of documents, some of two stretches
blocks       blocks of codes that must not be cut, and those that were
turns        turns of conversations that are longer than a row, and what is kept of them
plan         lengths ─► which tokens of which documents are in which row
origins      where documents came from, carried over from the tokenized datasets
strategies/  STRATEGIES: best_fit, first_fit, concat, pad
rows         pieces of documents ─► rows with masks, as arrays
lost         documents of which tokens are lost, as the dataset lists them
worker       a task: planned rows ─► one shard
manifest     markers of the tasks ─► the manifest, and where files go
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.pack.recipe import pack, pack_plan_of, pack_share, planned

__all__ = ["pack", "pack_plan_of", "pack_share", "planned"]


def __getattr__(name: str) -> Any:
    # Imported on first use: workers import this package too, and need none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.pack.recipe"), name)
