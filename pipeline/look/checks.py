"""Check a shard record by record, and count what is in it.

    documents   ids in range, ends and mask runs ascend, the index matches
    rows        the same, padding has its id and no mask, no loss on a document's first token
    codes       codes in range, whole frames, no record without codes

Each check returns counts under the names that the manifest has for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.configs import EncodeConfig, PackConfig, TokenizeConfig, recorded
from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.look.records import read_records
from dataprep.pipeline.pack.strategies import STRATEGIES
from dataprep.pipeline.storage.documents import (
    check_documents,
    decode_documents,
    index_documents,
    index_dtype,
)
from dataprep.pipeline.storage.entries import CodeShard, DocumentShard, RowShard
from dataprep.pipeline.storage.manifest import (
    EncodedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
)
from dataprep.pipeline.storage.masks import MASKS, count_marked, dense_mask
from dataprep.pipeline.storage.rows import RowLayout, check_row, decode_row

CheckShard = Callable[[Any], Counter[str]]


def check_shards_of(folder: Path, manifest: Manifest) -> CheckShard:
    """Return the function that checks one shard of the dataset."""
    if isinstance(manifest, TokenizedManifest):
        return lambda shard: _check_documents(folder, manifest, shard)
    if isinstance(manifest, PackedManifest):
        pack = recorded(TokenizeConfig, manifest.config, folder).pack
        return lambda shard: _check_rows(folder, manifest, shard, pack)
    into = recorded(EncodeConfig, manifest.config, folder).into
    return lambda shard: _check_codes(folder, manifest, shard, into or "")


def _check_documents(
    folder: Path, manifest: TokenizedManifest, shard: DocumentShard
) -> Counter[str]:
    path = folder / shard.path
    parts = [np.zeros(0, index_dtype(manifest.masks))]
    kinds = [MASKS[mask] for mask in manifest.masks]
    counts = Counter[str]()
    for number, data in read_records(folder, shard):
        found = decode_documents(data, manifest.token_dtype, manifest.masks)
        wrong = check_documents(found, manifest.max_id)
        if wrong or len(data) != shard.record_bytes[number]:
            raise CorruptError(f"record {number} of {path}: {wrong or 'wrong size'}")
        parts.append(index_documents(found, manifest.masks, number))
        for runs, kind in zip(found.masks, kinds, strict=True):
            counts[kind.count] += count_marked(runs, kind)
    index = np.load(folder / shard.index.path, allow_pickle=False)
    if not np.array_equal(index, np.concatenate(parts)):
        raise CorruptError(f"{folder / shard.index.path} does not match {path}")
    counts["documents_written"] = len(index)
    counts["tokens"] = int(index["length"].sum(dtype=np.int64))
    return counts


def _check_rows(
    folder: Path, manifest: PackedManifest, shard: RowShard, pack: PackConfig
) -> Counter[str]:
    path = folder / shard.path
    layout = RowLayout.of_manifest(manifest)
    sizes = np.load(folder / shard.index.path, allow_pickle=False)
    quirks = STRATEGIES[pack.strategy].quirks(pack)
    counts = Counter[str](rows=shard.num_records)
    for number, data in read_records(folder, shard):
        row = decode_row(data, layout)
        wrong = check_row(
            row,
            max_id=manifest.max_id,
            pad=manifest.pad,
            first_has_loss=quirks.keep_first_loss,
        )
        if wrong or len(data) != sizes[number]:
            raise CorruptError(f"row {number} of {path}: {wrong or 'wrong size'}")
        loss = dense_mask(row.masks[0])
        counts["tokens"] += int(row.ends[-1]) - row.left_padding
        counts["target_tokens"] += int(loss[1:].sum())
        counts["segments"] += len(row.ends)
    return counts


def _check_codes(
    folder: Path, manifest: EncodedManifest, shard: CodeShard, column_name: str
) -> Counter[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, encoder = folder / shard.path, manifest.encoder
    try:
        column = pq.read_table(path, columns=[column_name]).column(0).combine_chunks()
    except (pa.ArrowException, OSError, IndexError) as error:
        raise CorruptError(f"{path} cannot be read as Parquet: {error}") from None
    codes = column.flatten(recursive=True).to_numpy()
    if len(codes) and (codes.min() < 0 or codes.max() >= encoder.codebook_size):
        raise CorruptError(f"{path} holds a code outside 0..{encoder.codebook_size - 1}")
    lengths = np.diff(column.offsets.to_numpy())
    if column.null_count or not lengths.all() or (lengths % encoder.frame_codes).any():
        raise CorruptError(f"{path} holds a record without codes, or with a part of a frame")
    if len(column) != shard.num_records:
        raise CorruptError(
            f"{path} holds {counted(len(column), 'record')}, the manifest says {shard.num_records}"
        )
    return Counter(documents_written=len(column), tokens=len(codes), codes=len(codes))
