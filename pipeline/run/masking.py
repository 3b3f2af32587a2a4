"""Overwrite documents in shards with padding, so that nothing else moves.

    before   row 7   | hello world | how are you |          tokens, loss 0 1 1 | 0 1 1
    after    row 7   | pad pad pad | how are you |                 loss 0 0 0 | 0 1 1

Rows, segments, index and all other documents stay where they are. `versions` makes a part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.files import Written, commit_files
from dataprep.pipeline.ragged import IntegerLists, offsets_of, owner_of, ranges
from dataprep.pipeline.storage.arrayrecord import (
    MAPPABLE,
    RecordWriter,
    read_records,
    save_array,
)
from dataprep.pipeline.storage.checked import whole_while
from dataprep.pipeline.storage.documents import (
    Documents,
    decode_documents,
    encode_documents,
    index_documents,
    index_dtype,
)
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.masks import (
    MASKS,
    MaskRuns,
    dense_mask,
    runs_of_numbers,
    runs_of_parts,
    stored_numbers,
)
from dataprep.pipeline.storage.provenance import read_row_pieces
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows, encode_rows
from dataprep.pipeline.types import Offsets

_OPTIONS = {"none": MAPPABLE, "zstd": "group_size:1,zstd:3"}
_KEPT_MASKS = ("turns",)  # whose values say where turns begin, nothing about what is in them


@dataclass(slots=True)
class Overwritten:
    """What changed in the shards that were written anew."""

    lost: Counter[str] = field(default_factory=Counter)  # by the name of a count
    tokens: int = 0  # that were not padding before


def rewrite_documents(
    old: Path,
    manifest: TokenizedManifest,
    shard: DocumentShard,
    documents: Offsets,
    paths: Mapping[str, Path],
    found: Overwritten,
) -> tuple[dict[str, Written], list[int]]:
    """Write a shard of documents and its index to these files, without some of its documents;
    return the files by their old names, and the sizes of the records."""
    with whole_while(old, shard, shard.index):
        writer = RecordWriter(paths[shard.path], MAPPABLE)
        index = [np.zeros(0, index_dtype(manifest.masks))]
        sizes: list[int] = []
        first = 0
        pad = manifest.tokenizer.pad or 0
        for _, records in read_records(old, shard):
            for data in records:
                held = decode_documents(data, manifest.token_dtype, manifest.masks)
                count = len(held.ends)
                own = documents[(documents >= first) & (documents < first + count)] - first
                if len(own):
                    held = _masked(held, own, pad, manifest.masks, found)
                    data = encode_documents(held, manifest.masks)
                index.append(index_documents(held, manifest.masks, len(sizes)))
                writer.write(data)
                sizes.append(len(data))
                first += count
        listed = save_array(paths[shard.index.path], np.concatenate(index))
    return commit_files({shard.path: writer, shard.index.path: listed}), sizes


def _masked(
    held: Documents, own: Offsets, pad: int, masks: Sequence[str], found: Overwritten
) -> Documents:
    starts = np.concatenate(([0], held.ends[:-1]))
    places = ranges(starts[own], held.ends[own] - starts[own])
    tokens = held.tokens.copy()
    found.tokens += int(np.count_nonzero(tokens[places] != pad))
    tokens[places] = pad
    runs = []
    for name, mask in zip(masks, held.masks, strict=True):
        kind, dense = MASKS[name], dense_mask(mask)
        if name not in _KEPT_MASKS:
            found.lost[kind.count] += int(np.count_nonzero(dense[places] != kind.default))
            dense[places] = kind.default
        runs.append(_runs(dense))
    return replace(held, tokens=tokens, masks=tuple(runs))


def _runs(dense: NDArray[Any]) -> MaskRuns:
    return runs_of_parts(dense, np.ones(len(dense), np.int64))


def rewrite_rows(
    old: Path,
    manifest: PackedManifest,
    shard: RowShard,
    documents: Offsets,
    paths: Mapping[str, Path],
    found: Overwritten,
) -> dict[str, Written]:
    """Write a shard of rows and its index to these files, without some documents; return the files
    by their old names: none if no such document is in it."""
    pieces = read_row_pieces(old, manifest, shard)
    is_gone = np.isin(pieces["document"].astype(np.int64), documents)
    if not is_gone.any():
        return {}
    with whole_while(old, shard, shard.index):
        layout = RowLayout.of_manifest(manifest)
        writer = RecordWriter(paths[shard.path], _OPTIONS[manifest.compression])
        sizes: list[int] = []
        for first, records in read_records(old, shard):
            rows = pieces["row"].astype(np.int64) - first
            own = (rows >= 0) & (rows < len(records))
            if is_gone[own].any():
                decoded = decode_rows(records, layout)
                masked = _masked_rows(decoded, is_gone[own], layout, manifest.pad, found)
                records = encode_rows(masked, layout)
            writer.write(*records)
            sizes += map(len, records)
        listed = save_array(paths[shard.index.path], np.array(sizes, "<u4"))
    return commit_files({shard.path: writer, shard.index.path: listed})


def _masked_rows(
    rows: Rows, is_gone: NDArray[np.bool_], layout: RowLayout, pad: int, found: Overwritten
) -> Rows:
    """Return the rows without these segments, which are numbered through all of them."""
    row = owner_of(np.diff(rows.ends.offsets))
    starts = np.concatenate(([0], rows.ends.values[:-1]))
    starts[rows.ends.offsets[:-1]] = rows.left_padding
    first = row[is_gone] * layout.capacity + starts[is_gone]
    places = ranges(first, rows.ends.values[is_gone] - starts[is_gone])
    tokens = rows.tokens.copy()
    flat = tokens.reshape(-1)
    found.tokens += int(np.count_nonzero(flat[places] != pad))
    flat[places] = pad
    masks = []
    for name, numbers in zip(layout.masks, rows.masks, strict=True):
        kind = MASKS[name]
        each = [dense_mask(runs_of_numbers(part, kind)) for part in _lists(numbers)]
        dense = np.concatenate(each)
        if name == "loss":
            targets = dense.reshape(-1, layout.capacity)[:, 1:]
            before, had = int(np.count_nonzero(targets)), targets.any(axis=1)
            dense[places] = False
            found.lost["target_tokens"] += before - int(np.count_nonzero(targets))
            found.lost["rows_without_target"] -= int(np.count_nonzero(had & ~targets.any(axis=1)))
        else:
            dense[places] = kind.default
        stored = [stored_numbers(_runs(part), kind) for part in dense.reshape(-1, layout.capacity)]
        masks.append(
            IntegerLists(
                values=np.concatenate(stored), offsets=offsets_of([len(part) for part in stored])
            )
        )
    first_loss = rows.first_loss & ~is_gone
    return replace(rows, tokens=tokens, first_loss=first_loss, masks=tuple(masks))


def _lists(numbers: IntegerLists) -> Iterator[Offsets]:
    return iter(np.split(numbers.values, numbers.offsets[1:-1]))
