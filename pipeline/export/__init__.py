"""`dataprep export`: a dataset as the files that another trainer reads.

recipe       what make_dataset needs to know about this command
plan         the dataset, the masks that go along, which shards become one file
sequences    documents or rows of a shard, many at once
format       Export: what a format must define
formats      EXPORTS: the formats by name
worker       a task: some shards of the dataset ─► the files of one shard
manifest     markers of the tasks ─► the manifest, and where files go
pieces       documents as pieces of at most some tokens
flat         files of nothing but ids
parquet      files of lists, a row a sequence

maxtext      ArrayRecord of tf.train.Example
xlstm        ArrayRecord of int32, documents or rows
megatron     .bin and .idx of Megatron-LM
bridge       packed rows of Megatron-Bridge
hf           Parquet for datasets, Trainer, TRL
olmo         flat .npy and label masks
datatrove    .ds, .ds.index, .ds.loss
mds          shards of mosaicml-streaming
nanogpt      .bin, with the header of llm.c or without

Other trainers' bytes are in `storage.foreign`: imports read what exports write.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.pipeline.export.recipe import export, foreseen, usage_of

__all__ = ["export", "foreseen", "usage_of"]


def __getattr__(name: str) -> Any:
    # Imported on first use: workers import this package too, and need none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("dataprep.pipeline.export.recipe"), name)
