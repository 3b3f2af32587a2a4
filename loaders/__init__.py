"""What a trainer imports: datasets on disk as arrays. Needs none of the offline stack.

    from dataprep.loaders import DataLoader, open_dataset

    for batch in DataLoader("data/packed", batch_size=256, mesh=mesh): ...     # {"inputs": …}
    open_dataset("data/packed")[7]                                              # one row

From the folder to the trainer, one line a file:

    open          folders -> datasets, and the weights of a mixture
    generations   which generation of a dataset is read from which step on
    documents     document i of a tokenized dataset
    packed        row i of a packed dataset
    selection     some of the documents or rows of either, as a dataset
    whole         files of the right size and hash, proven before they are used
    shards          rows -> bytes: shards checked against the manifest, then mapped
    paging          files mapped as one stretch of memory, pages asked for ahead of time
    watch           mapped files that change while they are in use
    remote        datasets in object stores, for a loader
    ranged          single rows of them, by ranges of bytes
    fetched         their shards, mapped when they have come
    cache           a folder of such shards, shared by processes, with a bound
    forecast        which shards are needed when
    fetching        the thread that brings them
    proofs          which cached files are known to be whole
    bus_errors      reads of a file that was cut short, where numba is installed
    gather          bytes -> heads, tokens and tails of many rows at once
    expand          those -> dense arrays: tokens, segments, positions, masks
    expand_documents  the same of documents, each alone in its row
    expand_numba    both, compiled, where numba is installed
    kernels         the loops of that over rows
    document_kernels  and over documents
    batching      batches whose shape follows from the lengths of documents
    pieces          documents -> pieces that fit a row
    groups          pieces of similar length -> the batches of an epoch
    document_rows   the pieces of a dataset as rows
    sources       what rows are read from: a packed dataset, or documents
    order         a shuffle that is computed: position -> row
    blocks        the same, which needs few shards at a time
    shares        rows dealt out to datasets in exact shares
    mixture       several datasets by exact shares: position -> dataset and row
    schedule      step -> places of that sequence, for batch sizes that may change
    plans         step -> the rows of a batch, and its shape
    ends          where batches end
    planned       the settings of a loader -> all of these
    batches       step -> batch
    views           arrays under the names that a trainer expects
    sides           views of documents that have two sides: encoder, decoder; chosen, rejected
    buffers         memory for batches, used again when free
    place           host arrays -> jax arrays on a mesh
    prefetch      batches made ahead by a thread
    meter         how fast batches are handed out
    turnstile     one who asks at a time
    state         step ↔ checkpoint, with what the step belongs to
    replay        which rows a step had, by a saved state
    checkpoints   a state as files of a checkpoint of orbax
    iterator      what iter(loader) returns
    loader        `DataLoader`: what a trainer holds
    torch         the same datasets for torch
    compat        the data classes of LWM, xlstm-jax and MaxText over `DataLoader`

Imports numpy, msgspec, obstore for object stores, and of dataprep only the ground floor and
`storage` of `pipeline` (`compat` also `synthetic`, which is made up); array_record for documents
and compressed rows, jax only for a mesh, numba if it is there, torch only in
`dataprep.loaders.torch`.
"""

from dataprep.loaders.batching import Buckets, ByTokens, Longest
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.open import open_dataset
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.sides import Preference, Seq2Seq

__all__ = [
    "Buckets",
    "ByTokens",
    "DataLoader",
    "Longest",
    "PackedDataset",
    "Preference",
    "Seq2Seq",
    "TokenizedDataset",
    "open_dataset",
]
