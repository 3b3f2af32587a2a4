"""Prove that documents which were taken out are gone: every token of theirs is padding, none has
loss, none is a code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.records import read_records, read_rows
from dataprep.pipeline.look.row_rules import dense_masks, segment_lengths
from dataprep.pipeline.ragged import offsets_of, owner_of, ranges
from dataprep.pipeline.storage.documents import decode_documents
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.manifest import Manifest, PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, dense_mask
from dataprep.pipeline.storage.provenance import forgotten_in, read_row_pieces
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.types import Offsets

_STRUCTURE = ("turns",)  # masks that say nothing about what a document holds


def check_forgotten(folder: Path, manifest: Manifest) -> None:
    """Raise CorruptError if something of a document is left that was to be forgotten."""
    if isinstance(manifest, TokenizedManifest):
        gone = forgotten_in(folder, manifest)
        firsts = offsets_of([shard.num_documents for shard in manifest.shards]).tolist()
        for documents, first in zip(manifest.shards, firsts, strict=False):
            own = gone[(gone >= first) & (gone < first + documents.num_documents)] - first
            if len(own):
                _check_documents(folder, manifest, documents, own)
    elif isinstance(manifest, PackedManifest):
        gone = forgotten_in(folder, manifest)
        for rows in manifest.shards if len(gone) else ():
            _check_rows(folder, manifest, rows, gone)


def _check_documents(
    folder: Path, manifest: TokenizedManifest, shard: DocumentShard, gone: Offsets
) -> None:
    first = 0
    for _, records in read_records(folder, shard):
        for data in records:
            found = decode_documents(data, manifest.token_dtype, manifest.masks)
            starts = np.concatenate(([0], found.ends[:-1]))
            own = gone[(gone >= first) & (gone < first + len(found.ends))] - first
            places = ranges(starts[own], found.ends[own] - starts[own])
            masks = [dense_mask(runs)[places] for runs in found.masks]
            pad = manifest.tokenizer.pad or 0
            _check(folder / shard.path, found.tokens[places], pad, masks, manifest.masks)
            first += len(found.ends)


def _check_rows(folder: Path, manifest: PackedManifest, shard: RowShard, gone: Offsets) -> None:
    pieces = read_row_pieces(folder, manifest, shard)
    is_gone = np.isin(pieces["document"].astype(np.int64), gone)
    if not is_gone.any():
        return
    layout = RowLayout.of_manifest(manifest)
    for first, rows in read_rows(folder, manifest, shard):
        start, stop = np.searchsorted(pieces["row"], [first, first + len(rows.tokens)])
        own = np.flatnonzero(is_gone[start:stop])
        row = owner_of(np.diff(rows.ends.offsets))[own]
        length, end = segment_lengths(rows)[own], rows.ends.values[own]
        places = ranges(row * layout.capacity + end - length, length)
        masks = [mask.reshape(-1)[places] for mask in dense_masks(rows, layout)]
        masks[0] = np.append(masks[0], rows.first_loss[own])  # which is of the loss, too
        tokens = rows.tokens.reshape(-1)[places]
        _check(folder / shard.path, tokens, manifest.pad, masks, layout.masks)


def _check(
    path: Path,
    tokens: NDArray[Any],
    pad: int,
    masks: Sequence[NDArray[Any]],
    names: Sequence[str],
) -> None:
    left = bool((tokens != pad).any()) or any(
        (mask != MASKS[name].default).any()
        for mask, name in zip(masks, names, strict=True)
        if name not in _STRUCTURE
    )
    if left:
        raise CorruptError(
            f"{path} holds tokens or masks of a document that was forgotten; forget it again, or "
            "make the dataset again"
        )
