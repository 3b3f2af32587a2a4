"""The documents or rows of a shard, many at once, as every format takes them.

    packed row     · · 5 6 7 | 8 9 · ·          padding left out
    tokens         5 6 7 8 9
    offsets        0 5                          one row
    lengths        [3, 2]                       of the documents in it
    masks          loss 0 1 1 0 1               those that are asked for

A file is read once, and hashed meanwhile: what is made of it counts only if it is the one that the
manifest lists, and did not change. Before that is known, places in it are checked, not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.look.row_rules import (
    check_places,
    dense_masks,
    segment_lengths,
)
from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.storage.arrayrecord import read_records
from dataprep.pipeline.storage.checked import read_array, whole_while
from dataprep.pipeline.storage.documents import (
    U32,
    Documents,
    check_documents,
    decode_documents,
)
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.in_order import Stretch, records_in_order
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import MaskRuns, dense_mask, runs_of_dense
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows, decode_rows_in
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


@contextmanager
def sequences_in(
    folder: Path,
    manifest: TokensManifest,
    number: int,
    masks: Sequence[str],
    *,
    keeps_loss: bool,
    forgotten: Offsets,
) -> Iterator[Iterator[Sequences]]:
    """Read what is in a shard, with some of its masks, but for `forgotten` documents.

    `keeps_loss`: a token without loss is an error, unless it is the first of its document, which
    most trainers never ask for. If the shard is damaged, that is what is raised at the end, even if
    the body failed.
    """
    shard = manifest.shards[number]
    if isinstance(manifest, PackedManifest):
        assert isinstance(shard, RowShard)
        with _rows_in(folder, manifest, shard) as batches:
            layout = RowLayout.of_manifest(manifest)
            check = _check_rows if keeps_loss else None
            yield (_rows(rows, layout, masks, check, folder / shard.path) for rows in batches)
    else:
        assert isinstance(shard, DocumentShard)
        sizes = np.array(shard.record_bytes, np.int64)
        with records_in_order(folder, shard, sizes, apart=True) as stretches:
            read = _records(folder, manifest, shard, stretches, forgotten)
            path = folder / shard.path
            yield (_documents(each, manifest, masks, path, keeps_loss) for each in read)


def _records(
    folder: Path,
    manifest: TokenizedManifest,
    shard: DocumentShard,
    stretches: Iterator[Stretch],
    forgotten: Offsets,
) -> Iterator[Documents]:
    """Yield the documents of each record, without those that were forgotten."""
    first = 0
    for stretch in stretches:
        for i in range(len(stretch.sizes)):
            documents = decode_documents(stretch.record(i), manifest.token_dtype, manifest.masks)
            wrong = check_documents(documents, manifest.max_id)
            if wrong:
                record = stretch.first + i
                raise CorruptError(f"record {record} of {folder / shard.path}: {wrong}")
            count = len(documents.ends)
            gone = forgotten[(forgotten >= first) & (forgotten < first + count)] - first
            first += count
            if len(gone) < count:
                yield _without(documents, gone) if len(gone) else documents


def _without(documents: Documents, gone: Offsets) -> Documents:
    """Return a record without some of its documents."""
    lengths = np.diff(documents.ends, prepend=0)
    is_kept = np.ones(len(lengths), np.bool_)
    is_kept[gone] = False
    places = np.repeat(is_kept, lengths)
    masks = (runs_of_dense(dense_mask(mask)[places]) for mask in documents.masks)
    return replace(
        documents,
        tokens=documents.tokens[places],
        ends=np.cumsum(lengths[is_kept]),
        masks=tuple(masks),
    )


def _documents(
    documents: Documents,
    manifest: TokenizedManifest,
    masks: Sequence[str],
    path: Path,
    keeps_loss: bool,
) -> Sequences:
    offsets = np.concatenate(([0], documents.ends))
    if keeps_loss:
        _check_loss(documents.masks[manifest.masks.index("loss")], offsets[:-1], path)
    dense = {mask: dense_mask(documents.masks[manifest.masks.index(mask)]) for mask in masks}
    return Sequences(tokens=documents.tokens, offsets=offsets, masks=dense)


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


@contextmanager
def _rows_in(folder: Path, manifest: PackedManifest, shard: RowShard) -> Iterator[Iterator[Rows]]:
    """Read the rows of a shard, many at a time."""
    layout = RowLayout.of_manifest(manifest)
    if manifest.compression != "none":
        with whole_while(folder, shard):
            yield (decode_rows(records, layout) for _, records in read_records(folder, shard))
        return
    sizes = read_array(folder, shard.index, U32, shard.num_records)
    with records_in_order(folder, shard, sizes, apart=False) as stretches:
        yield (decode_rows_in(each.data, each.starts, each.sizes, layout) for each in stretches)


def _rows(
    rows: Rows,
    layout: RowLayout,
    masks: Sequence[str],
    check: Callable[[Sequences, NDArray[Any], Path], None] | None,
    path: Path,
) -> Sequences:
    wrong = check_places(rows, layout)
    if wrong is not None:
        raise CorruptError(f"a row of {path}: {wrong.reason}")
    sizes = rows.ends.values[rows.ends.offsets[1:] - 1] - rows.left_padding
    places = None
    if (sizes < layout.capacity).any():
        firsts = np.arange(len(sizes)) * layout.capacity + rows.left_padding
        places = list(zip(firsts.tolist(), (firsts + sizes).tolist(), strict=True))
    dense = dict(zip(layout.masks, dense_masks(rows, layout), strict=True))
    found = Sequences(
        tokens=_taken(rows.tokens, places),
        offsets=offsets_of(sizes),
        masks={mask: _taken(dense[mask], places) for mask in masks},
        lengths=IntegerLists(segment_lengths(rows), rows.ends.offsets),
    )
    if check is not None:
        check(found, _taken(dense["loss"], places), path)
    return found


def _taken(dense: NDArray[Any], places: Sequence[tuple[int, int]] | None) -> NDArray[Any]:
    """Return the values of all rows from place to place, one pair for each; None: all values."""
    flat = dense.reshape(-1)
    return flat if places is None else np.concatenate([flat[a:b] for a, b in places])


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
