"""Random access over the documents of a tokenized dataset.

    dataset = open_dataset("data/tokenized")
    dataset[7]              {"tokens": i32[n], "loss_mask": bool[n], "vision_mask": …,
                             "loss_weights": f32[n] where fields have weights, 0 without loss}
    dataset[[3, 9, 4]]      a list of those; dataset[3:9] too

It is also a `RandomAccessDataSource` of grain, and goes to other processes by its folder.
Sizes and record counts are checked against the manifest when a dataset is opened, the hash of a
shard and of its index before the first document is read. Shards are immutable: a file that changes
underneath is an error, not data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.shards import open_proven
from dataprep.loaders.whole import Verify, check_places, prove
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.documents import (
    Documents,
    decode_documents,
    index_dtype,
    take_tokens,
)
from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.manifest import TokenizedManifest, json_of
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.threads.exits import stopped_at_exit

Document = dict[str, NDArray[Any]]
OPEN_RECORDS = 64  # decoded records to keep; each is at most a megabyte for short documents


class TokenizedDataset:
    """The documents of a tokenized dataset, in the order of its inputs."""

    def __init__(self, folder: Path, about: TokenizedManifest, verify: Verify = "lazy") -> None:
        self.folder = folder
        self._verify: Verify = verify
        self.about = about
        self._shards = about.shards
        self._starts = offsets_of([shard.num_documents for shard in self._shards])
        self._masks = [MASKS[name].array for name in about.masks]
        self._has_weights = about.counts.get(MASKS["weight"].count, 0) > 0
        check_places(folder, [e for shard in self._shards for e in (shard, shard.index)])
        # Not methods: a cycle would keep what is dropped, with its open files.
        self._index = lru_cache(maxsize=1024)(partial(_open_index, folder, about, verify))
        reader = lru_cache(maxsize=256)(lambda i: open_proven(folder, about.shards[i], verify))
        self._record = lru_cache(maxsize=OPEN_RECORDS)(partial(_read_record, folder, about, reader))
        if verify == "open":
            self.prove()

    def prove(self) -> None:
        """Raise a CorruptError unless every shard and index is as it was written."""
        for shard in self._shards:
            for entry in (shard, shard.index):
                prove(self.folder, entry)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenizedDataset, (self.folder, self.about, self._verify)

    @property
    def manifest(self) -> Json:
        """The manifest of the generation that is open, as it stands in its file."""
        return json_of(self.about)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        # What the data is, and not where: see `PackedDataset`.
        return f"TokenizedDataset({self.about.fingerprint!r}, {self._sizes()})"

    def __str__(self) -> str:
        return f"<TokenizedDataset {self.folder}: {self._sizes()}>"

    def _sizes(self) -> str:
        tokens = self.about.counts["tokens"]
        grown = f", generation={self.about.generation}" if self.about.parts else ""
        return f"documents={len(self)}, tokens={tokens}{grown}"

    @overload
    def __getitem__(self, key: int) -> Document: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> list[Document]: ...
    @stopped_at_exit
    def __getitem__(self, key: Any) -> Document | list[Document]:
        if isinstance(key, slice):
            return [self._document(i) for i in range(len(self))[key]]
        if isinstance(key, (list, tuple, np.ndarray)):
            return [self._document(operator.index(i)) for i in key]
        return self._document(operator.index(key))

    def __getitems__(self, keys: Sequence[int]) -> list[Document]:
        """Return many documents; torch and grain call this."""
        return self[list(keys)]

    _getitems = __getitems__

    @property
    def lengths(self) -> NDArray[np.uint32]:
        """Return the number of tokens of every document, from the index alone."""
        parts = [self._index(i)["length"] for i in range(len(self._shards))]
        return np.concatenate([np.zeros(0, np.uint32), *parts])

    def locate(self, document: int) -> tuple[int, int]:
        """Return the number of the shard that holds a document, and its place there."""
        if not -len(self) <= document < len(self):
            raise IndexError(f"document {document} of a dataset of {len(self)}")
        document %= len(self)
        shard = int(np.searchsorted(self._starts, document, side="right")) - 1
        return shard, document - int(self._starts[shard])

    def _document(self, number: int) -> Document:
        shard, place = self.locate(number)
        entry = self._index(shard)[place]
        documents = self._record(shard, int(entry["record"]))
        start = int(entry["start"])
        tokens, masks = take_tokens(documents, start, start + int(entry["length"]))
        document = {"tokens": tokens.astype(np.int32), **dict(zip(self._masks, masks, strict=True))}
        weights = document.pop(MASKS["weight"].array, None)
        if weights is not None and self._has_weights:
            document[MASKS["weight"].array] = weights.astype(np.float32) * document["loss_mask"]
        return document


def _open_index(folder: Path, about: TokenizedManifest, verify: Verify, shard: int) -> NDArray[Any]:
    entry, dtype = about.shards[shard], index_dtype(about.masks)
    return read_array(folder, entry.index, dtype, entry.num_documents, is_hashed=verify != "off")


def _read_record(
    folder: Path, about: TokenizedManifest, reader: Callable[[int], Any], shard: int, record: int
) -> Documents:
    path = folder / about.shards[shard].path
    try:
        (data,) = reader(shard).read([record])
    except (RuntimeError, ValueError, IndexError, OSError) as error:
        raise CorruptError(f"cannot read record {record} of {path}: {error}") from None
    if not data:
        raise CorruptError(f"record {record} of {path} is gone: the file changed underneath")
    return decode_documents(data, about.token_dtype, about.masks)
