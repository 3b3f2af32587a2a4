"""The documents or rows of a shard, many at once, as every format takes them.

    packed row     · · 5 6 7 | 8 9 · ·          padding left out
    tokens         5 6 7 8 9
    offsets        0 5                          one row
    lengths        [3, 2]                       of the documents in it
    masks          loss 0 1 1 0 1               those that are asked for

A file is checked against its manifest before anything in it is used, and must not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError, CorruptError, InputError, counted
from dataprep.pipeline.look.row_rules import dense_masks, is_of_document, segment_lengths
from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.storage.arrayrecord import read_records
from dataprep.pipeline.storage.checked import check_file, check_size
from dataprep.pipeline.storage.documents import check_documents, decode_documents
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import MaskRuns, dense_mask
from dataprep.pipeline.storage.rows import RowLayout, decode_rows
from dataprep.pipeline.types import Offsets

TokensManifest = TokenizedManifest | PackedManifest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sequences:
    """Documents, or rows, one after another."""

    tokens: NDArray[Any]  # u16|u32[n], padding left out
    offsets: Offsets  # i64[sequences + 1]
    masks: Mapping[str, NDArray[Any]]  # bool|f16[n], by name
    lengths: IntegerLists | None = None  # of the documents in each row; None: these are documents

    def __len__(self) -> int:
        return len(self.offsets) - 1


def read_sequences(
    folder: Path, manifest: TokensManifest, number: int, masks: Sequence[str], *, keeps_loss: bool
) -> Iterator[Sequences]:
    """Yield what is in a shard, with some of its masks.

    `keeps_loss`: a token without loss is an error, unless it is the first of its document, which
    most trainers never ask for.
    """
    shard = manifest.shards[number]
    before = check_size(folder, shard)
    check_file(folder, shard)
    if isinstance(manifest, PackedManifest):
        assert isinstance(shard, RowShard)
        yield from _rows(folder, manifest, shard, masks, keeps_loss=keeps_loss)
    else:
        assert isinstance(shard, DocumentShard)
        yield from _documents(folder, manifest, shard, masks, keeps_loss=keeps_loss)
    after = check_size(folder, shard)
    states = [(s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for s in (before, after)]
    if states[0] != states[1]:
        raise InputError(
            f"{folder / shard.path} changed while it was read; "
            "run the same command again when nothing writes to it"
        )


def _documents(
    folder: Path,
    manifest: TokenizedManifest,
    shard: DocumentShard,
    masks: Sequence[str],
    *,
    keeps_loss: bool,
) -> Iterator[Sequences]:
    numbers = {mask: manifest.masks.index(mask) for mask in masks}
    loss = manifest.masks.index("loss")
    for first, records in read_records(folder, shard):
        for record, data in enumerate(records, first):
            documents = decode_documents(data, manifest.token_dtype, manifest.masks)
            wrong = check_documents(documents, manifest.max_id)
            if wrong:
                raise CorruptError(f"record {record} of {folder / shard.path}: {wrong}")
            offsets = np.concatenate(([0], documents.ends))
            if keeps_loss:
                _check_loss(documents.masks[loss], offsets[:-1], folder / shard.path)
            yield Sequences(
                tokens=documents.tokens,
                offsets=offsets,
                masks={mask: dense_mask(documents.masks[i]) for mask, i in numbers.items()},
            )


def _check_loss(loss: MaskRuns, starts: Offsets, path: Path) -> None:
    """Raise ConfigError if a token has no loss that is not the first of its document."""
    begins = np.concatenate(([0], loss.ends[:-1]))
    inside = np.searchsorted(starts, loss.ends) - np.searchsorted(starts, begins)
    lost = ((loss.ends - begins) - inside)[~loss.values]
    if lost.any():
        raise ConfigError(
            f"{counted(int(lost.sum()), 'token')} of one record of {path} have no loss, which this "
            "format cannot say; export to one that carries the loss mask, or give --drop-masks to "
            "train on all tokens"
        )


def _rows(
    folder: Path,
    manifest: PackedManifest,
    shard: RowShard,
    masks: Sequence[str],
    *,
    keeps_loss: bool,
) -> Iterator[Sequences]:
    layout = RowLayout.of_manifest(manifest)
    for first, records in read_records(folder, shard):
        try:
            rows = decode_rows(records, layout)
        except CorruptError as error:
            raise CorruptError(f"a row of {folder / shard.path} from {first} on: {error}") from None
        is_kept = is_of_document(rows)
        places = None if is_kept.all() else np.flatnonzero(is_kept)  # faster than booleans
        lengths = IntegerLists(segment_lengths(rows), rows.ends.offsets)
        dense = dict(zip(layout.masks, dense_masks(rows, layout), strict=True))
        sizes = is_kept.sum(axis=1)
        found = Sequences(
            tokens=_taken(rows.tokens, places),
            offsets=offsets_of(sizes),
            masks={mask: _taken(dense[mask], places) for mask in masks},
            lengths=lengths,
        )
        if keeps_loss:
            _check_rows(found, _taken(dense["loss"], places), folder / shard.path)
        yield found


def _taken(dense: NDArray[Any], places: Offsets | None) -> NDArray[Any]:
    """Return the values at these places of all rows; None: all values."""
    flat = dense.reshape(-1)
    return flat if places is None else flat.take(places)


def _check_rows(rows: Sequences, loss: NDArray[np.bool_], path: Path) -> None:
    assert rows.lengths is not None
    starts = offsets_of(rows.lengths.values)[:-1]
    is_lost = ~loss
    is_lost[starts] = False
    if is_lost.any():
        raise ConfigError(
            f"{counted(int(is_lost.sum()), 'token')} of some rows of {path} have no loss, which "
            "this format cannot say; export to one that carries the loss mask, or give "
            "--drop-masks to train on all tokens"
        )
