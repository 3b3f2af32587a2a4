"""xlstm-jax's data pipeline over packed datasets, or over its own ArrayRecord files of token ids.

    from dataprep.loaders.compat.xlstm import create_data_iterator
    # was: from xlstm_jax.dataset import create_data_iterator

    data_path=data/xlstm                # packed with --seq-len one less than max_target_length

    pipeline   make_grain_iterator, and the iterators below it
    rows       preprocess_dataset: the rows of a host
    iterator   MultiHostDataLoadIterator: epochs of an endless loader, placed on the mesh
    sources    load_array_record_dataset, PaddedDataset, pad_dataset
    records    token ids of any source as rows
    ranges     some rows of a dataset, and empty ones after them
    batch      LLMBatch, document borders

Batches are its own: six int32 arrays [B, L], inputs one to the right after an EOD. Of a dataset of
ours, rows are as they were packed, with their loss masks: targets have segment 0 where there is no
loss.

Where xlstm-jax is wrong, this is right:

    many hosts    `make_grain_iterator` reads one order on any number of hosts, and goes on from a
                  state on any other; xlstm-jax shuffles within a part for each host
    evaluation    padding has no targets; xlstm-jax counts an EOD for every row that it adds
    packing       of a packed dataset an epoch has an exact length, and the last batch may be padded
    max_steps_per_epoch   with shuffling, each epoch has other rows; xlstm-jax never reads the rest
    long records  are errors that name the record; xlstm-jax fails in the middle of training
    mixtures      weights are exact; grain's are rounded to hundredths
    len()         of an iterator without a length says so; xlstm-jax returns a float

`shift_target` (targets to the left) has no loss on first tokens of documents, which no token before
them should predict.
"""

from dataprep.loaders.compat.xlstm.batch import (
    Batch,
    LLMBatch,
    LLMIndexedBatch,
    get_document_borders,
)
from dataprep.loaders.compat.xlstm.iterator import MultiHostDataLoadIterator
from dataprep.loaders.compat.xlstm.pipeline import (
    create_data_iterator,
    create_mixed_data_iterator,
    make_grain_iterator,
    make_grain_llm_iterator,
    make_grain_multihost_iterator,
)
from dataprep.loaders.compat.xlstm.rows import make_grain_llm_dataset, preprocess_dataset
from dataprep.loaders.compat.xlstm.sources import (
    PaddedDataset,
    load_array_record_dataset,
    pad_dataset,
)

__all__ = [
    "Batch",
    "LLMBatch",
    "LLMIndexedBatch",
    "MultiHostDataLoadIterator",
    "PaddedDataset",
    "create_data_iterator",
    "create_mixed_data_iterator",
    "get_document_borders",
    "load_array_record_dataset",
    "make_grain_iterator",
    "make_grain_llm_dataset",
    "make_grain_llm_iterator",
    "make_grain_multihost_iterator",
    "pad_dataset",
    "preprocess_dataset",
]
