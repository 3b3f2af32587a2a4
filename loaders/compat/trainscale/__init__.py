"""TrainScale's data module: wrappers of datasets, collate functions and a builder of loaders.

    from dataprep.loaders.compat.trainscale import DataLoaderBuilder, create_preprocessed_dataset
    # was: from data_pipeline.data import …

    records  ─ datasets (a prompt engine of the caller's) ─►  input_ids, attention_mask, labels
             ─ collate ─►  padded batches  ─ builder ─►  a DataLoader of torch

    arrays    sequences of different lengths to one array
    collate   create_collate_fn, create_causal_lm_collate, create_seq2seq_collate
    datasets  PreprocessedDataset, StreamingPreprocessedDataset
    engines   what a prompt engine returns, as arrays
    shares    which records of a stream a worker of a rank gets
    builder   DataLoaderBuilder

Nothing here tokenizes: the prompt engine does, which is TrainScale's own, or any function of a
record. Training on text that was tokenized before takes `dataprep.loaders.DataLoader` instead.
Only `collate` can do without torch (return_tensors=False).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataprep.loaders.compat.trainscale.collate import (
    OutputSchema,
    TensorSpec,
    create_causal_lm_collate,
    create_collate_fn,
    create_seq2seq_collate,
    pad_sequence_left,
    pad_sequence_right,
)

if TYPE_CHECKING:
    from dataprep.loaders.compat.trainscale.builder import (
        DataLoaderBuilder,
        build_dataloader,
        build_distributed_dataloaders,
    )
    from dataprep.loaders.compat.trainscale.datasets import (
        PreprocessedDataset,
        StreamingPreprocessedDataset,
        create_preprocessed_dataset,
    )

__all__ = [
    "DataLoaderBuilder",
    "OutputSchema",
    "PreprocessedDataset",
    "StreamingPreprocessedDataset",
    "TensorSpec",
    "build_dataloader",
    "build_distributed_dataloaders",
    "create_causal_lm_collate",
    "create_collate_fn",
    "create_preprocessed_dataset",
    "create_seq2seq_collate",
    "pad_sequence_left",
    "pad_sequence_right",
]

_WITH_TORCH = {
    "DataLoaderBuilder": "builder",
    "build_dataloader": "builder",
    "build_distributed_dataloaders": "builder",
    "PreprocessedDataset": "datasets",
    "StreamingPreprocessedDataset": "datasets",
    "create_preprocessed_dataset": "datasets",
}


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
