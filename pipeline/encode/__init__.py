"""`dataprep encode`: pictures, videos and sounds to a dataset of codes.

recipe      what make_dataset needs to know about this command
plan        inputs ─► sources of media ─► pieces ─► tasks
preview     what was found, and what the first of it tells of all, before the run
worker      a task: read ─► decode ─► encode ─► shards
careful     records that may kill the worker, tried alone
kinds       KINDS: what pictures and sounds do differently
batches     decoded records ─► full batches ─► the codes of each record
tables      codes and columns ─► a Parquet shard and its marker
retype      one type for each column in all shards
manifest    markers of the tasks ─► the manifest, and where files go
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.encode.recipe import encode, encode_share, plan_of, planned

__all__ = ["encode", "encode_share", "plan_of", "planned"]


def __getattr__(name: str) -> Any:
    # Imported on first use: workers import this package too, and need none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.encode.recipe"), name)
