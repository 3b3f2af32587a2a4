"""Tokenized datasets as one sequence of documents, for copying parts of them fast.

    document  ─►  dataset, shard, entry of the index  ─►  byte ranges in the shard

Holds open files, never tokens: `riegeli` copies those. Only masks are small enough to be decoded
here. A file is checked against its manifest before anything in it is used (`inputs`).

Workers, which copy every token, map the files: one that is cut short ends a worker, and the parent
says so. The parent itself reads the little that it needs, since such a map would end it silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError, CorruptError, DataprepError
from dataprep.pipeline.pack.inputs import FileChecks, changed_input
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.selection import DocumentSelection
from dataprep.pipeline.ragged import numbers_within, offsets_of, owner_of
from dataprep.pipeline.storage.alike import difference_among, user_of
from dataprep.pipeline.storage.checked import map_array, read_array, read_items
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, U32, TokenDtype, index_dtype
from dataprep.pipeline.storage.entries import BlockTags, DocumentShard
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from dataprep.pipeline.storage.masks import MASKS, MaskKind, values_of
from dataprep.pipeline.storage.riegeli import ShardBytes
from dataprep.pipeline.types import Offsets

# An open shard holds file descriptors, and there may be thousands of shards.
MAX_OPEN_SHARDS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskParts:
    """A mask over pieces, as parts in order: each part has a value and belongs to one piece."""

    piece: Offsets
    value: NDArray[Any]  # bool, f16 of weights or u32 of turns
    length: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    stored: ShardBytes
    entries_of: Callable[[Offsets], NDArray[Any]]  # of the index, by documents of the shard
    masks: tuple[str, ...]
    head: NDArray[np.int64]  # [records, 2 + masks]: the numbers that each record begins with


class Corpus:
    """The documents of one or more tokenized datasets, numbered through."""

    def __init__(
        self,
        folders: list[Path],
        marks: Path | None = None,
        *,
        maps: bool = False,
        all_masks: bool = False,
    ) -> None:
        """Open the datasets; `marks`: a folder in which processes mark the files they checked;
        `maps`: whether files are mapped; `all_masks`: whether rows have those that mark nothing."""
        self.folders = folders
        self._all_masks = all_masks
        self.selection: DocumentSelection | None = None  # which documents are packed; None: all
        self._maps = maps
        self._checks = FileChecks(marks)
        self.manifests = [_read_tokenized(folder) for folder in folders]
        _check_alike(folders, self.manifests)
        self._entries = [
            (folder, shard, manifest)
            for folder, manifest in zip(folders, self.manifests, strict=True)
            for shard in manifest.shards
        ]
        self._starts = offsets_of([shard.num_documents for _, shard, _ in self._entries])
        self._open: dict[int, _Shard] = {}
        self._used: set[int] = set()  # shards, since `unchanged` was left

    def mark_checks_in(self, marks: Path) -> None:
        """From now on, mark the files that were checked in this folder."""
        self._checks = FileChecks(marks)

    def changed(self) -> str:
        """Return the first dataset that is not the one that was opened any more, or the file of the
        selection if it is not the one that was read, or ''."""
        for folder, manifest in zip(self.folders, self.manifests, strict=True):
            try:
                if read_manifest(folder) == manifest:
                    continue
            except CorruptError:
                pass  # it is gone, or being made again
            return str(folder)
        return self.selection.changed() if self.selection else ""

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise InputError if a file that the body reads changes meanwhile, whatever comes of it:
        other numbers may point anywhere."""
        try:
            yield
        except DataprepError:  # says itself what is wrong
            raise
        except Exception:
            self._check_unchanged()
            raise
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        for number in sorted(self._used):
            folder, shard, _ = self._entries[number]
            for entry in (shard, shard.index):
                if self._checks.has_changed(folder, entry):
                    raise changed_input(folder / entry.path)
        self._used.clear()

    @property
    def num_documents(self) -> int:
        return int(self._starts[-1])

    def documents_of(self, shard: int) -> Offsets:
        """Return the numbers of a shard's documents."""
        return np.arange(self._starts[shard], self._starts[shard + 1])

    @property
    def token_dtype(self) -> TokenDtype:
        return self.manifests[0].token_dtype

    @property
    def masks(self) -> tuple[str, ...]:
        """Return the masks of rows: those that any dataset needs, or that any has."""
        found = {
            name
            for manifest in self.manifests
            for name in (manifest.masks if self._all_masks else manifest.row_masks)
            if MASKS[name].is_packed
        }
        return tuple(name for name in MASKS if name in found)

    def tags(self, mask: str) -> BlockTags:
        """Return the tags around blocks of this modality, by the first dataset that has any."""
        tags = user_of(mask, self.manifests).tags_of(mask)
        assert tags is not None, mask
        return tags

    def tag_lengths(self, mask: str, document: Offsets) -> tuple[Offsets, Offsets]:
        """Return the lengths of the tags before and after the blocks of each document."""
        tags = [manifest.tags_of(mask) for _, _, manifest in self._entries]
        shard = np.searchsorted(self._starts, document, side="right") - 1
        before = np.array([len(tag.start) if tag else 0 for tag in tags], np.int64)
        after = np.array([len(tag.end) if tag else 0 for tag in tags], np.int64)
        return before[shard], after[shard]

    def lengths(self, shard: int) -> Offsets:
        """Return the lengths of a shard's documents, from its index."""
        self._used.add(shard)
        folder, entry, manifest = self._entries[shard]
        self._checks.check(folder, entry.index)
        dtype, count = index_dtype(manifest.masks), entry.num_documents
        index = read_array(folder, entry.index, dtype, count, is_hashed=False)
        return index["length"].astype(np.int64)

    def lengths_of(self, document: Offsets) -> Offsets:
        """Return the lengths of these documents."""
        lengths = np.zeros(len(document), np.int64)
        for _, which, entries in self._by_shard(document):
            lengths[which] = entries["length"]
        return lengths

    @property
    def num_shards(self) -> int:
        return len(self._entries)

    def copy_tokens(self, pieces: DocumentPieces, target: NDArray[Any], places: Offsets) -> None:
        """Copy the tokens of each piece to its byte offset in `target`."""
        itemsize = TOKEN_DTYPES[self.token_dtype].itemsize
        stretches, owner = pieces.stretches()
        if len(owner) != len(places):
            is_tail = np.append(False, owner[1:] == owner[:-1])
            places = places[owner]
            places[is_tail] += stretches.length[np.flatnonzero(is_tail) - 1] * itemsize
        for shard, which, entries in self._by_shard(stretches.document):
            part = stretches[which]
            first = entries["start"].astype(np.int64) + part.start
            base = shard.stored.places[entries["record"]] + 4 * shard.head.shape[1]
            shard.stored.copy_ranges(
                base + first * itemsize, part.length * itemsize, target, places[which]
            )

    def mask_parts(self, mask: str, pieces: DocumentPieces) -> MaskParts:
        """Return a mask over pieces; a dataset without the mask has its default value."""
        kind = MASKS[mask]
        found: list[MaskParts] = []
        stretches, of_stretch = pieces.stretches()
        for shard, which, entries in self._by_shard(stretches.document):
            part = stretches[which]
            if mask not in shard.masks:
                default = np.full(len(which), kind.default)
                found.append(MaskParts(piece=which, value=default, length=part.length))
                continue
            count = entries[f"{mask}_runs"].astype(np.int64)
            first = entries[f"{mask}_first"].astype(np.int64)
            ends = self._numbers(shard, mask, entries["record"], first, count)
            owner, number = owner_of(count), numbers_within(count)
            begin = (entries["start"].astype(np.int64) + part.start)[owner]
            clipped = np.clip(ends - begin, 0, part.length[owner])
            before = np.where(number == 0, 0, np.concatenate(([0], clipped[:-1])))
            if kind.has_values:
                behind = shard.head[entries["record"], 2 + shard.masks.index(mask)] + first
                stored = self._numbers(shard, mask, entries["record"], behind, count)
                value = values_of(stored, kind)
            else:
                value = (first[owner] + number) % 2 == 1
            found.append(MaskParts(piece=which[owner], value=value, length=clipped - before))
        parts = _in_piece_order(found, kind)
        return replace(parts, piece=of_stretch[parts.piece])

    def _numbers(
        self, shard: _Shard, mask: str, record: NDArray[Any], first: Offsets, count: Offsets
    ) -> Offsets:
        """Return the numbers [first, first + count) that records store for a mask, joined."""
        number = shard.masks.index(mask)
        head = shard.head[record]
        each = np.array([MASKS[name].numbers for name in shard.masks[:number]], np.int64)
        token_bytes = head[:, 1] * TOKEN_DTYPES[self.token_dtype].itemsize
        place = shard.stored.places[record] + 4 * head.shape[1] + token_bytes + -token_bytes % 4
        place += 4 * (head[:, 0] + head[:, 2 : 2 + number] @ each + first)
        numbers = np.empty(int(count.sum()), U32)
        targets = 4 * offsets_of(count)[:-1]
        shard.stored.copy_ranges(place, 4 * count, numbers, targets)
        return numbers.astype(np.int64)

    def _by_shard(self, documents: Offsets) -> Any:
        """Yield (shard, which documents, their index entries) for every shard that has any."""
        of_shard = np.searchsorted(self._starts, documents, side="right") - 1
        order = np.argsort(of_shard, kind="stable")
        cuts = np.flatnonzero(np.diff(of_shard[order])) + 1
        for which in np.split(order, cuts) if len(order) else ():
            number = int(of_shard[which[0]])
            shard = self._shard(number)
            # In the order of the file, so that pages are read once.
            which = which[np.argsort(documents[which], kind="stable")]
            yield shard, which, shard.entries_of(documents[which] - self._starts[number])

    def _shard(self, number: int) -> _Shard:
        self._used.add(number)
        if number in self._open:
            self._open[number] = self._open.pop(number)  # now the last to be closed
        else:
            if len(self._open) >= MAX_OPEN_SHARDS:
                self._open.pop(next(iter(self._open))).stored.close()
            self._open[number] = self._open_shard(number)
        return self._open[number]

    def _open_shard(self, number: int) -> _Shard:
        folder, entry, manifest = self._entries[number]
        self._checks.check(folder, entry)
        sizes = np.array(entry.record_bytes, np.int64)
        width = 2 + len(manifest.masks)
        head = np.zeros((len(sizes), width), U32)
        stored = ShardBytes(folder / entry.path, entry.num_bytes, sizes, maps=self._maps)
        if sizes.min(initial=4 * width) >= 4 * width:
            to = np.arange(len(head)) * 4 * width
            stored.copy_ranges(stored.places, np.full(len(head), 4 * width), head, to)
        if not _are_heads(head.astype(np.int64), entry, manifest):
            raise CorruptError(
                f"{folder / entry.path} does not hold the records that its manifest lists; "
                "make the dataset again"
            )
        return _Shard(
            stored=stored,
            entries_of=self._open_index(folder, entry, manifest),
            masks=manifest.masks,
            head=head.astype(np.int64),
        )

    def _open_index(
        self, folder: Path, entry: DocumentShard, manifest: TokenizedManifest
    ) -> Callable[[Offsets], NDArray[Any]]:
        self._checks.check(folder, entry.index)
        dtype, count = index_dtype(manifest.masks), entry.num_documents
        if self._maps:
            return map_array(folder, entry.index, dtype, count).__getitem__
        return partial(read_items, folder, entry.index, dtype, count)


def _are_heads(head: NDArray[np.int64], entry: DocumentShard, manifest: TokenizedManifest) -> bool:
    """Return whether these numbers begin records of the sizes and sums that the manifest lists."""
    each = np.array([1, *(MASKS[name].numbers for name in manifest.masks)], np.int64)
    token_bytes = head[:, 1] * TOKEN_DTYPES[manifest.token_dtype].itemsize
    numbers = np.delete(head, 1, axis=1) @ each
    sizes = 4 * head.shape[1] + token_bytes + -token_bytes % 4 + 4 * numbers
    sums = (int(head[:, 0].sum()), int(head[:, 1].sum()))
    return bool((sizes == np.array(entry.record_bytes, np.int64)).all()) and sums == (
        entry.num_documents,
        entry.num_tokens,
    )


def _read_tokenized(folder: Path) -> TokenizedManifest:
    manifest = read_manifest(folder)
    if not isinstance(manifest, TokenizedManifest):
        raise ConfigError(f"{folder} is {manifest.kind}; only tokenized datasets can be packed")
    return manifest


def _check_alike(folders: list[Path], manifests: list[TokenizedManifest]) -> None:
    found = difference_among(manifests)
    if found:
        number, other, text = found
        raise ConfigError(
            f"{folders[number]} and {folders[other]} cannot be packed together: {text}"
        )


def _in_piece_order(found: list[MaskParts], kind: MaskKind) -> MaskParts:
    none = np.zeros(0, np.int64)
    piece = np.concatenate([none, *(parts.piece for parts in found)])
    order = np.argsort(piece, kind="stable")
    values = np.concatenate([np.zeros(0, kind.dtype), *(parts.value for parts in found)])
    return MaskParts(
        piece=piece[order],
        value=values[order],
        length=np.concatenate([none, *(parts.length for parts in found)])[order],
    )
