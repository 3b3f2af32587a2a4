"""`dataprep encode`: pictures, videos and sounds to a dataset of codes.

recipe      what make_dataset needs to know of this command
plan        inputs ─► sources of media ─► pieces ─► tasks
worker      a task: read ─► decode ─► encode ─► shards
batches     decoded records through an encoder, and their codes back by record
tables      codes and columns ─► a Parquet shard and its marker
retype      one type for a column of all shards
manifest    what the dataset holds, by what the tasks have committed
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.encode.recipe import encode, plan_of

__all__ = ["encode", "plan_of"]


def __getattr__(name: str) -> Any:
    # On first use: a worker enters by this door too, and needs none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.encode.recipe"), name)
