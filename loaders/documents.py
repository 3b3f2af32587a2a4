"""Random access over the documents of a tokenized dataset.

    dataset = open_dataset("data/tokenized")
    dataset[7]              {"tokens": i32[n], "loss_mask": bool[n], "vision_mask": …,
                             "loss_weights": f32[n] where fields have weights, 0 without loss}
    dataset[[3, 9, 4]]      a list of those; dataset[3:9] too
    dataset.select([3, 9])  a dataset of these two
    dataset.draw(2, seed=0) two of them, a function of the seed

It is also a `RandomAccessDataSource` of grain, and goes to other processes by its folder.
Sizes and record counts are checked against the manifest when a dataset is opened, the hash of a
shard and of its index before the first document is read. Shards are immutable: a file that changes
underneath is an error, not data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.ranged import RangedRecords, check_local
from dataprep.loaders.selection import Chosen, Numbers, drawn, selected
from dataprep.loaders.shards import Shards, open_proven
from dataprep.loaders.whole import Verify, check_places, prove
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import array_in, read_array
from dataprep.pipeline.storage.documents import (
    Documents,
    decode_documents,
    index_dtype,
    take_tokens,
)
from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.manifest import TokenizedManifest, json_of
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.objects import is_remote
from dataprep.pipeline.threads.exits import stopped_at_exit
from dataprep.pipeline.threads.several import in_threads
from dataprep.pipeline.types import Offsets

Document = dict[str, NDArray[Any]]
INDEXES_AT_ONCE = 32  # requests for them
OPEN_RECORDS = 64  # decoded records to keep; each is at most a megabyte for short documents


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenFiles:
    """The files of a dataset, opened when they are first asked for."""

    index: Callable[[int], NDArray[Any]]  # of a shard
    bring: Callable[[Sequence[int]], None]  # many indexes at once, where each is a request
    record: Callable[[int, int], Documents]  # of a shard, by its number


class TokenizedDataset:
    """The documents of a tokenized dataset, in the order of its inputs."""

    def __init__(
        self,
        folder: Path,
        about: TokenizedManifest,
        verify: Verify = "lazy",
        chosen: Chosen | None = None,
        files: _OpenFiles | None = None,
        fetched: Shards | None = None,
    ) -> None:
        """`chosen`: which documents it has; None: all. `files`: its files, if they are open.
        `fetched`: what reads whole records, if it is not the files."""
        self.folder, self.fetched = folder, fetched
        self.verify: Verify = verify
        self.about = about
        self.chosen = chosen
        own = about.fingerprint
        self.fingerprint = own if chosen is None else chosen.fingerprint(own)
        self._shards = about.shards
        self._starts = offsets_of([shard.num_documents for shard in self._shards])
        self._entry = index_dtype(about.masks)
        self._masks = [MASKS[name].array for name in about.masks]
        self._has_weights = about.counts.get(MASKS["weight"].count, 0) > 0
        self._files = files or _open_files(folder, about, verify)
        if verify == "open" and files is None:
            self.prove()

    def prove(self) -> None:
        """Raise a CorruptError unless every shard and index is as it was written."""
        check_local(self.folder)
        for shard in self._shards:
            for entry in (shard, shard.index):
                prove(self.folder, entry)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenizedDataset, (self.folder, self.about, self.verify, self.chosen)

    @property
    def manifest(self) -> Json:
        """The manifest of the generation that is open, as it stands in its file."""
        return json_of(self.about)

    def __len__(self) -> int:
        return int(self._starts[-1]) if self.chosen is None else len(self.chosen)

    def __repr__(self) -> str:
        # What the data is, and not where: see `PackedDataset`.
        return f"TokenizedDataset({self.fingerprint!r}, {self._sizes()})"

    def __str__(self) -> str:
        return f"<TokenizedDataset {self.folder}: {self._sizes()}>"

    def _sizes(self) -> str:
        tokens = f", tokens={self.about.counts['tokens']}" if self.chosen is None else ""
        grown = f", generation={self.about.generation}" if self.about.parts else ""
        return f"documents={len(self)}{tokens}{grown}"

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

    def select(self, which: Numbers) -> TokenizedDataset:
        """Return a dataset of some of the documents: see `selection`."""
        chosen = selected(which, len(self), self.chosen)
        return TokenizedDataset(
            self.folder, self.about, self.verify, chosen, self._files, self.fetched
        )

    def draw(self, count: int, *, seed: int, start: int = 0) -> list[Document]:
        """Return so many documents in the order of a seed, from its place `start` on."""
        return self[drawn(count, len(self), seed=seed, start=start)]

    @property
    def lengths(self) -> NDArray[np.uint32]:
        """Return the number of tokens of every document, from the index alone."""
        if self.chosen is not None:
            return self.lengths_of(np.arange(len(self))).astype(np.uint32)
        self._files.bring(range(len(self._shards)))
        parts = [self._files.index(i)["length"] for i in range(len(self._shards))]
        return np.concatenate([np.zeros(0, np.uint32), *parts])

    def entries(self, documents: Offsets) -> tuple[Offsets, NDArray[Any]]:
        """Return the shard of each of these documents, which must be in range, and its entry of
        the index there."""
        return self._indexed(documents, None)

    def lengths_of(self, documents: Offsets) -> Offsets:
        """Return the number of tokens of each of these documents, which must be in range."""
        return self._indexed(documents, "length")[1].astype(np.int64)

    def _indexed(self, documents: Offsets, field: str | None) -> tuple[Offsets, NDArray[Any]]:
        """Return the shard of each document, and a field of its entry; None: all of it."""
        own = documents if self.chosen is None else self.chosen.of(documents)
        shards = np.searchsorted(self._starts, own, side="right") - 1
        found = np.empty(len(own), self._entry if field is None else self._entry[field])
        order = np.argsort(shards, kind="stable")
        counts = np.bincount(shards)
        present, start = np.flatnonzero(counts), 0
        self._files.bring(present.tolist())
        for number, stop in zip(present.tolist(), counts[present].cumsum().tolist(), strict=True):
            which = order[start:stop]
            index = self._files.index(number)
            column = index if field is None else index[field]
            found[which] = column[own[which] - self._starts[number]]
            start = stop
        return shards, found

    def locate(self, document: int) -> tuple[int, int]:
        """Return the number of the shard that holds a document, and its place there."""
        if not -len(self) <= document < len(self):
            raise IndexError(f"document {document} of a dataset of {len(self)}")
        place = np.array([document % len(self)])
        number = int((place if self.chosen is None else self.chosen.of(place))[0])
        shard = int(np.searchsorted(self._starts, number, side="right")) - 1
        return shard, number - int(self._starts[shard])

    def _document(self, number: int) -> Document:
        shard, place = self.locate(number)
        entry = self._files.index(shard)[place]
        documents = self._files.record(shard, int(entry["record"]))
        start = int(entry["start"])
        tokens, masks = take_tokens(documents, start, start + int(entry["length"]))
        document = {"tokens": tokens.astype(np.int32), **dict(zip(self._masks, masks, strict=True))}
        weights = document.pop(MASKS["weight"].array, None)
        if weights is not None and self._has_weights:
            document[MASKS["weight"].array] = weights.astype(np.float32) * document["loss_mask"]
        return document


def _open_files(folder: Path, about: TokenizedManifest, verify: Verify) -> _OpenFiles:
    if is_remote(folder):
        records = RangedRecords(folder, about.shards)
        index = cache(partial(_fetch_index, records, about))
        return _OpenFiles(
            index=index,
            bring=partial(_bring, index, set()),
            record=lru_cache(maxsize=OPEN_RECORDS)(partial(_fetch_record, records, about)),
        )
    check_places(folder, [entry for shard in about.shards for entry in (shard, shard.index)])
    reader = lru_cache(maxsize=256)(lambda i: open_proven(folder, about.shards[i], verify))
    return _OpenFiles(
        index=cache(partial(_open_index, folder, about, verify)),
        bring=lambda shards: None,
        record=lru_cache(maxsize=OPEN_RECORDS)(partial(_read_record, folder, about, reader)),
    )


def _open_index(folder: Path, about: TokenizedManifest, verify: Verify, shard: int) -> NDArray[Any]:
    entry, dtype = about.shards[shard], index_dtype(about.masks)
    return read_array(folder, entry.index, dtype, entry.num_documents, is_hashed=verify != "off")


def _fetch_index(records: RangedRecords, about: TokenizedManifest, shard: int) -> NDArray[Any]:
    entry, dtype = about.shards[shard], index_dtype(about.masks)
    path, data = records.index(shard)
    return array_in(path, data, dtype, entry.num_documents)


def _bring(index: Callable[[int], NDArray[Any]], here: set[int], shards: Sequence[int]) -> None:
    missing = [shard for shard in shards if shard not in here]
    in_threads(index, missing, INDEXES_AT_ONCE)
    here.update(missing)


def _fetch_record(
    records: RangedRecords, about: TokenizedManifest, shard: int, record: int
) -> Documents:
    sizes = np.array(about.shards[shard].record_bytes, np.int64)
    (data,) = records.read(shard, sizes, [record])
    return decode_documents(data, about.token_dtype, about.masks)


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
