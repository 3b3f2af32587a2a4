"""Describe a dataset in numbers: lengths, loss, padding, segments, vocabulary; codes and frames.

Counts come from the manifest, lengths from the index or the provenance; for the vocabulary and the
targets of each row every token is read once. Files that are not what the manifest lists are errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.look.codes import shard_codes
from dataprep.pipeline.look.groups import Between
from dataprep.pipeline.look.records import read_records, read_rows
from dataprep.pipeline.look.row_rules import dense_masks, is_of_document
from dataprep.pipeline.storage.checked import check_file, read_array
from dataprep.pipeline.storage.documents import decode_documents, index_dtype
from dataprep.pipeline.storage.manifest import (
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
    files_of_shard,
    size_of,
)
from dataprep.pipeline.storage.parts import files_named
from dataprep.pipeline.storage.provenance import LOST, ROW_PIECE
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.storage.turns import find_turns
from dataprep.pipeline.types import Offsets

TOP = 10
PERCENTILES = (1, 10, 50, 90, 99)


def stats(
    folder: Path, manifest: Manifest, between: Between = lambda num_bytes: None
) -> dict[str, Any]:
    """Return the numbers of a dataset, or of the generation of this manifest; `between` is called
    now and then with the bytes that were read since."""
    refuse_export(folder, manifest)
    counts = manifest.counts
    result: dict[str, Any] = {
        "kind": manifest.kind,
        "shards": len(manifest.shards),
        "bytes": size_of(manifest),
        "token_dtype": manifest.token_dtype,
    }
    if isinstance(manifest, EncodedManifest):
        return {**result, "counts": counts, **_of_codes(folder, manifest, between)}
    result |= {
        "masks": list(manifest.masks),
        "counts": counts,
        "loss_share": _share(counts["target_tokens"], counts["tokens"]),
    }
    if isinstance(manifest, PackedManifest):
        return {**result, **_of_rows(folder, manifest, between)}
    assert isinstance(manifest, TokenizedManifest)
    return {**result, **_of_documents(folder, manifest, between)}


def refuse_export(folder: Path, manifest: Manifest) -> None:
    if isinstance(manifest, ExportedManifest):
        raise ConfigError(
            f"{folder} is an export to {manifest.format}; stats are of the dataset that it was "
            f"made from, {manifest.sources[0].path}"
        )


def _of_codes(folder: Path, manifest: EncodedManifest, between: Between) -> dict[str, Any]:
    encoder, uses = manifest.encoder, Uses(manifest.encoder.codebook_size - 1)
    frames = []
    for shard in _checked_shards(folder, manifest, between):
        codes, sizes = shard_codes(folder, manifest, shard)
        uses.count(codes)
        frames.append(sizes // encoder.frame_codes)
    return {
        "encoder": encoder.name,
        "columns": dict(manifest.columns),
        "frames_per_record": spread(_join(frames)),
        "codebook": {**uses.described(), "perplexity": uses.perplexity()},
        "uses_per_code": spread(uses.counts()),
        "sources": [
            {
                "path": source.path,
                "records": source.written,
                "frames": source.frames,
                "codes": source.codes,
                "share": _share(source.codes, manifest.counts["codes"]),
            }
            for source in read_sources(folder, manifest)
        ],
    }


def _of_documents(folder: Path, manifest: TokenizedManifest, between: Between) -> dict[str, Any]:
    uses, lengths, turns = Uses(manifest.max_id), [], []
    number = manifest.masks.index("turns") if "turns" in manifest.masks else None
    for shard in _checked_shards(folder, manifest, between):
        index = read_array(folder, shard.index, index_dtype(manifest.masks), shard.num_documents)
        lengths.append(index["length"])
        for _, records in read_records(folder, shard):
            for data in records:
                found = decode_documents(data, manifest.token_dtype, manifest.masks)
                uses.count(found.tokens)
                if number is not None:
                    owner, _ = find_turns(found.masks[number], found.ends)
                    turns.append(np.bincount(owner, minlength=len(found.ends)))
    return {
        "document_lengths": spread(_join(lengths)),
        **({} if number is None else {"turns_per_document": spread(_join(turns))}),
        "vocabulary": uses.described(),
    }


def _of_rows(folder: Path, manifest: PackedManifest, between: Between) -> dict[str, Any]:
    counts, layout = manifest.counts, RowLayout.of_manifest(manifest)
    lost = [str(place / LOST) for place, _, _ in files_named(folder, manifest, LOST)]
    uses = Uses(max(manifest.max_id, manifest.pad))
    targets, lengths, segments = [], [], []
    for shard in _checked_shards(folder, manifest, between):
        pieces = read_array(folder, shard.provenance, ROW_PIECE)
        if len(pieces) and int(pieces["row"].max()) >= shard.num_records:
            path = folder / shard.provenance.path
            raise CorruptError(f"{path} names row {pieces['row'].max()} of {shard.num_records}")
        lengths.append(pieces["length"])
        segments.append(np.bincount(pieces["row"], minlength=shard.num_records))
        for _, rows in read_rows(folder, manifest, shard):
            targets.append(np.count_nonzero(dense_masks(rows, layout)[0][:, 1:], axis=1))
            uses.count(rows.tokens[is_of_document(rows)])
    return {
        "seq_len": manifest.seq_len,
        **({"lost_documents": lost} if lost else {}),
        "padding_share": _share(counts["padding"], counts["rows"] * layout.capacity),
        "segment_lengths": spread(_join(lengths)),
        "segments_per_row": spread(_join(segments)),
        "targets_per_row": spread(_join(targets)),
        "vocabulary": uses.described(),
    }


def _checked_shards(folder: Path, manifest: Manifest, between: Between) -> Iterator[Any]:
    """Yield every shard, after its files were found to be what the manifest lists."""
    for shard in manifest.shards:
        for entry in files_of_shard(shard):
            check_file(folder, entry)
        yield shard
        between(shard.num_bytes)


class Uses:
    """How often each id is used."""

    def __init__(self, max_id: int) -> None:
        self._size = max_id + 1
        self._uses = np.zeros(0, np.int64)  # as long as ids were found, not as ids may be

    def count(self, tokens: NDArray[Any]) -> None:
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < self._size:
            odd = tokens.min() if tokens.min() < 0 else tokens.max()
            raise CorruptError(f"id {odd} is not one of 0..{self._size - 1}")
        found = np.bincount(tokens.ravel())
        if len(found) > len(self._uses):
            self._uses = np.pad(self._uses, (0, len(found) - len(self._uses)))
        self._uses[: len(found)] += found

    def counts(self) -> Offsets:
        """Return how often each id is used, those that are not used too."""
        return np.pad(self._uses, (0, self._size - len(self._uses)))

    def perplexity(self) -> float:
        """Return of how many ids, used equally often, the ids are as uneven."""
        shares = self._uses[self._uses > 0] / max(1, self._uses.sum())
        return round(float(np.exp(-(shares * np.log(shares)).sum())), 1) if len(shares) else 0.0

    def described(self) -> dict[str, Any]:
        uses = self._uses
        order = np.argsort(-uses, kind="stable")[:TOP]
        return {
            "size": self._size,  # codes of other modalities included
            "ids_used": int((uses > 0).sum()),
            "most_used": {str(i): int(uses[i]) for i in order if uses[i]},
        }


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


def _join(parts: list[NDArray[Any]]) -> Offsets:
    return np.concatenate([np.zeros(0, np.int64), *(p.astype(np.int64) for p in parts)])


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
