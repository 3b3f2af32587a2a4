"""Describe a dataset in numbers: lengths, loss, padding, segments, vocabulary.

Counts come from the manifest, lengths from the index or the provenance; for the vocabulary and the
targets of each row every token is read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.look.records import read_records
from dataprep.pipeline.storage.documents import decode_documents
from dataprep.pipeline.storage.manifest import (
    EncodedManifest,
    PackedManifest,
    TokenizedManifest,
    read_manifest,
)
from dataprep.pipeline.storage.masks import dense_mask
from dataprep.pipeline.storage.rows import RowLayout, decode_row
from dataprep.pipeline.types import Offsets

TOP = 10
PERCENTILES = (1, 10, 50, 90, 99)


def stats(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    if isinstance(manifest, EncodedManifest):
        raise ConfigError(f"{folder} holds codes, not tokens; tokenize it first")
    counts = manifest.counts
    result: dict[str, Any] = {
        "kind": manifest.kind,
        "shards": len(manifest.shards),
        "bytes": sum(shard.num_bytes for shard in manifest.shards),
        "token_dtype": manifest.token_dtype,
        "masks": list(manifest.masks),
        "counts": counts,
        "loss_share": _share(counts["target_tokens"], counts["tokens"]),
    }
    if isinstance(manifest, PackedManifest):
        return {**result, **_of_rows(folder, manifest)}
    return {**result, **_of_documents(folder, manifest)}


def _of_documents(folder: Path, manifest: TokenizedManifest) -> dict[str, Any]:
    lengths = [np.load(folder / shard.index.path)["length"] for shard in manifest.shards]
    uses = np.zeros(manifest.max_id + 1, np.int64)
    for shard in manifest.shards:
        for _, data in read_records(folder, shard):
            found = decode_documents(data, manifest.token_dtype, manifest.masks)
            uses += np.bincount(found.tokens, minlength=len(uses))
    return {
        "document_lengths": spread(_join(lengths)),
        "vocabulary": _vocabulary(uses),
    }


def _of_rows(folder: Path, manifest: PackedManifest) -> dict[str, Any]:
    counts, capacity = manifest.counts, manifest.seq_len + 1
    uses = np.zeros(max(manifest.max_id, manifest.pad) + 1, np.int64)
    targets: list[int] = []
    for tokens, loss in _rows(folder, manifest):
        uses += np.bincount(tokens, minlength=len(uses))
        targets.append(int(loss[1:].sum()))
    pieces = [np.load(folder / shard.provenance.path) for shard in manifest.shards]
    segments = [np.bincount(p["row"]) for p in pieces]
    return {
        "seq_len": manifest.seq_len,
        "padding_share": _share(counts["padding"], counts["rows"] * capacity),
        "segment_lengths": spread(_join([p["length"] for p in pieces])),
        "segments_per_row": spread(_join(segments)),
        "targets_per_row": spread(np.array(targets, np.int64)),
        "vocabulary": _vocabulary(uses),
    }


def _rows(
    folder: Path, manifest: PackedManifest
) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Yield the tokens, without padding, and the loss mask of every row."""
    layout = RowLayout.of_manifest(manifest)
    for shard in manifest.shards:
        for _, data in read_records(folder, shard):
            row = decode_row(data, layout)
            loss = dense_mask(row.masks[0])
            yield row.tokens[row.left_padding : int(row.ends[-1])], loss


def spread(values: Offsets) -> dict[str, Any]:
    """Return mean, percentiles and a histogram by powers of two: {"8": n} counts 8..15."""
    if not len(values):
        return {"count": 0}
    percentiles = np.percentile(values, PERCENTILES, method="nearest").astype(int).tolist()
    powers = np.floor(np.log2(np.maximum(values, 1))).astype(np.int64)
    sizes = np.bincount(powers[values > 0]) if (values > 0).any() else np.zeros(0, np.int64)
    zeros = int((values == 0).sum())
    histogram = {"0": zeros} if zeros else {}
    histogram |= {str(1 << i): int(n) for i, n in enumerate(sizes) if n}
    return {
        "count": len(values),
        "mean": round(float(values.mean()), 2),
        "min": int(values.min()),
        **{f"p{p}": value for p, value in zip(PERCENTILES, percentiles, strict=True)},
        "max": int(values.max()),
        "histogram": histogram,
    }


def _vocabulary(uses: Offsets) -> dict[str, Any]:
    order = np.argsort(-uses, kind="stable")[:TOP]
    return {
        "size": len(uses),  # codes of other modalities included
        "ids_used": int((uses > 0).sum()),
        "most_used": {str(i): int(uses[i]) for i in order if uses[i]},
    }


def _join(parts: list[NDArray[Any]]) -> Offsets:
    return np.concatenate([np.zeros(0, np.int64), *(p.astype(np.int64) for p in parts)])


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
