"""Raw corpora to training-ready shards, shards to device-sharded batches.

    import dataprep

    dataprep.tokenize(inputs=["data/*.jsonl"], tokenizer="gpt2", out="data/tokenized")
    dataprep.pack(inputs=["data/tokenized"], seq_len=4096, out="data/packed")
    for batch in dataprep.DataLoader("data/packed", batch_size=256, mesh=mesh): ...

The commands as functions, and what a trainer needs. Importing this costs nothing: each name is
loaded on first use. What is not in `__all__` may change.

    api, texts   the functions
    cli          the commands; `python -m dataprep` is the same
    configs      the settings of each command
    pipeline     THE MAP: raw corpora to datasets
    loaders      datasets to batches
"""

from __future__ import annotations  # distribution: dataprep-jax

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataprep.api import (
        Processor,
        documents_by,
        encode,
        export,
        pack,
        processor,
        run,
        tokenize,
    )
    from dataprep.loaders import (
        Buckets,
        ByTokens,
        DataLoader,
        Longest,
        PackedDataset,
        TokenizedDataset,
        open_dataset,
    )
    from dataprep.pipeline.errors import (
        ConfigError,
        ConflictError,
        CorruptError,
        DataprepError,
        InputError,
        LockedError,
        ResourceError,
    )
    from dataprep.texts import detokenize, tokenize_text

__version__ = "0.1.0"

__all__ = [
    "Buckets",
    "ByTokens",
    "ConfigError",
    "ConflictError",
    "CorruptError",
    "DataLoader",
    "DataprepError",
    "InputError",
    "LockedError",
    "Longest",
    "PackedDataset",
    "Processor",
    "ResourceError",
    "TokenizedDataset",
    "__version__",
    "detokenize",
    "documents_by",
    "encode",
    "export",
    "open_dataset",
    "pack",
    "processor",
    "run",
    "tokenize",
    "tokenize_text",
]

_HOMES = {
    "dataprep.api": (
        *("Processor", "documents_by", "encode", "export", "pack", "processor", "run"),
        "tokenize",
    ),
    "dataprep.texts": ("detokenize", "tokenize_text"),
    "dataprep.loaders": (
        *("Buckets", "ByTokens", "DataLoader", "Longest"),
        *("PackedDataset", "TokenizedDataset", "open_dataset"),
    ),
}
_ROOMS = ("api", "cli", "configs", "loaders", "pipeline", "texts")
_OF_ERRORS = "dataprep.pipeline.errors"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), _OF_ERRORS)
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
