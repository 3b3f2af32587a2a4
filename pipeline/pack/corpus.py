"""Tokenized datasets as one run of documents, for copying parts of them fast.

    document  ─►  dataset, shard, entry of the index  ─►  byte ranges in the mapped shard

Holds file maps and indices, never tokens: copying is by `riegeli`. Only the masks are small enough
to be taken apart here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.ragged import numbers_within, offsets_of, owner_of
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, U32
from dataprep.pipeline.storage.manifest import read_manifest
from dataprep.pipeline.storage.riegeli import MappedShard
from dataprep.pipeline.types import MODALITIES, Mask, Offsets

# A map holds a file descriptor, and there may be thousands of shards.
MAX_OPEN_SHARDS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Parts of documents."""

    document: Offsets  # i64[p]
    start: Offsets  # i64[p], first token of the document that is taken
    length: Offsets  # i64[p]

    def __getitem__(self, key: Any) -> Pieces:
        return Pieces(document=self.document[key], start=self.start[key], length=self.length[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A mask of pieces as parts, in order: each has a flag and a length, and is of one piece."""

    piece: Offsets
    flag: Mask
    length: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    mapped: MappedShard
    index: NDArray[Any]  # memory-mapped
    masks: tuple[str, ...]
    head: NDArray[np.int64]  # [records, 2 + masks]: the numbers each record begins with


class Corpus:
    """The documents of one or more tokenized datasets, numbered through."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        self.manifests = [read_manifest(folder) for folder in folders]
        for folder, manifest in zip(folders, self.manifests, strict=True):
            _check_alike(folder, manifest, folders[0], self.manifests[0])
        self._entries = [
            (folder, shard, manifest)
            for folder, manifest in zip(folders, self.manifests, strict=True)
            for shard in manifest["shards"]
        ]
        counts = [shard["num_documents"] for _, shard, _ in self._entries]
        self._starts = offsets_of(counts)
        self._open: dict[int, _Shard] = {}

    @property
    def num_documents(self) -> int:
        return int(self._starts[-1])

    @property
    def token_dtype(self) -> str:
        dtype: str = self.manifests[0]["token_dtype"]
        return dtype

    @property
    def masks(self) -> tuple[str, ...]:
        """`loss`, then every modality that the fields of any dataset name, or that it has tokens
        of: specs in records may bring any, and mostly bring none."""
        found = {
            name
            for manifest in self.manifests
            for name in manifest["masks"]
            if name == "loss" or _is_wanted(name, manifest)
        }
        return tuple(name for name in ("loss", *MODALITIES) if name in found)

    def tags(self, mask: str) -> dict[str, Any]:
        """The start and end tags around a block of this modality, of the first dataset with it."""
        found: Iterator[dict[str, Any]] = (m[mask] for m in self.manifests if m.get(mask))
        return next(found)

    def tag_lengths(self, mask: str, document: Offsets) -> tuple[Offsets, Offsets]:
        """Tokens of the tags before and after the blocks of each document."""
        none: dict[str, Any] = {"start": [], "end": []}
        tags = [manifest.get(mask) or none for _, _, manifest in self._entries]
        shard = np.searchsorted(self._starts, document, side="right") - 1
        before, after = ([len(tag[name]) for tag in tags] for name in ("start", "end"))
        return np.array(before, np.int64)[shard], np.array(after, np.int64)[shard]

    def lengths(self, shard: int) -> Offsets:
        """Of a shard's documents, from its index alone."""
        return self._load_index(shard)["length"].astype(np.int64)

    def lengths_of(self, document: Offsets) -> Offsets:
        """Of some documents."""
        lengths = np.zeros(len(document), np.int64)
        for _, which, entries in self._by_shard(document):
            lengths[which] = entries["length"]
        return lengths

    @property
    def num_shards(self) -> int:
        return len(self._entries)

    def copy_tokens(self, pieces: Pieces, target: NDArray[Any], places: Offsets) -> None:
        """Copy each piece's tokens to its byte offset of `target`."""
        itemsize = TOKEN_DTYPES[self.token_dtype].itemsize
        for shard, which, entries in self._by_shard(pieces.document):
            part = pieces[which]
            first = entries["start"].astype(np.int64) + part.start
            base = shard.mapped.places[entries["record"]] + 4 * shard.head.shape[1]
            shard.mapped.copy_ranges(
                base + first * itemsize, part.length * itemsize, target, places[which]
            )

    def mask_parts(self, mask: str, pieces: Pieces) -> Parts:
        """The runs of a mask within pieces; a dataset without the mask has it False."""
        found: list[Parts] = []
        for shard, which, entries in self._by_shard(pieces.document):
            part = pieces[which]
            if mask not in shard.masks:
                no = np.zeros(len(which), bool)
                found.append(Parts(piece=which, flag=no, length=part.length))
                continue
            count = entries[f"{mask}_runs"].astype(np.int64)
            first = entries[f"{mask}_first"].astype(np.int64)
            ends = self._runs(shard, mask, entries["record"], first, count)
            owner, number = owner_of(count), numbers_within(count)
            begin = (entries["start"].astype(np.int64) + part.start)[owner]
            clipped = np.clip(ends - begin, 0, part.length[owner])
            before = np.where(number == 0, 0, np.concatenate(([0], clipped[:-1])))
            flags = (first[owner] + number) % 2 == 1
            found.append(Parts(piece=which[owner], flag=flags, length=clipped - before))
        return _in_piece_order(found)

    def _runs(
        self, shard: _Shard, mask: str, record: NDArray[Any], first: Offsets, count: Offsets
    ) -> Offsets:
        """Run ends [first, first + count) of records, one after another."""
        number = shard.masks.index(mask)
        head = shard.head[record]
        token_bytes = head[:, 1] * TOKEN_DTYPES[self.token_dtype].itemsize
        place = shard.mapped.places[record] + 4 * head.shape[1] + token_bytes + -token_bytes % 4
        place += 4 * (head[:, 0] + head[:, 2 : 2 + number].sum(axis=1) + first)
        ends = np.empty(int(count.sum()), U32)
        targets = 4 * offsets_of(count)[:-1]
        shard.mapped.copy_ranges(place, 4 * count, ends, targets)
        return ends.astype(np.int64)

    def _by_shard(self, documents: Offsets) -> Any:
        """(shard, which documents, their entries of the index) for every shard they touch."""
        of_shard = np.searchsorted(self._starts, documents, side="right") - 1
        order = np.argsort(of_shard, kind="stable")
        cuts = np.flatnonzero(np.diff(of_shard[order])) + 1
        for which in np.split(order, cuts) if len(order) else ():
            number = int(of_shard[which[0]])
            shard = self._shard(number)
            # In the order of the file, so that pages are touched once.
            which = which[np.argsort(documents[which], kind="stable")]
            yield shard, which, shard.index[documents[which] - self._starts[number]]

    def _shard(self, number: int) -> _Shard:
        if number in self._open:
            self._open[number] = self._open.pop(number)  # the last used is the last to go
        else:
            if len(self._open) >= MAX_OPEN_SHARDS:
                self._open.pop(next(iter(self._open))).mapped.close()
            folder, entry, manifest = self._entries[number]
            mapped = MappedShard(
                folder / entry["path"], entry["num_bytes"], np.array(entry["record_bytes"])
            )
            width = 2 + len(manifest["masks"])
            head = np.empty((len(mapped.places), width), U32)
            size = np.full(len(head), 4 * width)
            to = np.arange(len(head)) * 4 * width
            mapped.copy_ranges(mapped.places, size, head, to)
            self._open[number] = _Shard(
                mapped=mapped,
                index=self._load_index(number),
                masks=tuple(manifest["masks"]),
                head=head.astype(np.int64),
            )
        return self._open[number]

    def _load_index(self, number: int) -> NDArray[Any]:
        folder, entry, _ = self._entries[number]
        path = folder / entry["index"]["path"]
        try:
            # A plain array over the map: indexing np.memmap itself costs far more.
            index: NDArray[Any] = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except (FileNotFoundError, ValueError) as error:
            raise CorruptError(f"cannot read {path}: {error}") from None
        if len(index) != entry["num_documents"]:
            raise CorruptError(f"{path} lists {len(index)} documents, not {entry['num_documents']}")
        return index


def _is_wanted(modality: str, manifest: dict[str, Any]) -> bool:
    # A manifest may be older than these counts.
    named = manifest[modality].get("named", True)
    return bool(named or manifest["counts"].get(f"{modality}_tokens", 1))


def _check_alike(
    folder: Path, manifest: dict[str, Any], first: Path, other: dict[str, Any]
) -> None:
    if manifest["kind"] != "tokenized":
        raise ConfigError(f"{folder} is {manifest['kind']}, not tokenized; only that can be packed")
    for name, mine, theirs in (
        ("tokenizer", manifest["tokenizer"]["sha256"], other["tokenizer"]["sha256"]),
        ("token_dtype", manifest["token_dtype"], other["token_dtype"]),
    ):
        if mine != theirs:
            raise ConfigError(
                f"{folder} and {first} cannot be packed together: {name} {mine} is not {theirs}"
            )


def _in_piece_order(found: list[Parts]) -> Parts:
    if not found:
        none = np.zeros(0, np.int64)
        return Parts(piece=none, flag=none.astype(bool), length=none)
    piece = np.concatenate([parts.piece for parts in found])
    order = np.argsort(piece, kind="stable")
    return Parts(
        piece=piece[order],
        flag=np.concatenate([parts.flag for parts in found])[order],
        length=np.concatenate([parts.length for parts in found])[order],
    )
