"""Small packed datasets, with the dense arrays that they must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.pipeline.hashes import fingerprint, hash_file
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, TokenDtype, ends_dtype
from dataprep.pipeline.storage.entries import BlockTags, FileEntry, RowShard, TokenizerEntry
from dataprep.pipeline.storage.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    PackedManifest,
    manifest_text,
    read_manifest,
)
from dataprep.pipeline.storage.masks import (
    MASKS,
    WEIGHT_DTYPE,
    blocks_among,
    runs_of_parts,
    stored_numbers,
)
from dataprep.pipeline.storage.provenance import ROW_PIECE
from dataprep.pipeline.storage.rows import RowLayout, Rows, encode_rows

PAD, EOS = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Every array is [rows, seq_len + 1]; the first token of row r is r, or the next in line."""

    folder: Path
    tokens: NDArray[Any]
    segment_ids: NDArray[Any]
    positions: NDArray[Any]
    masks: dict[str, NDArray[Any]]
    own_loss: NDArray[Any]  # the loss as documents have it, on their first tokens too

    def weights(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The loss weights of these rows' targets, where there are any."""
        if "weight" not in self.masks:
            return {}
        weights = self.masks["weight"][rows, 1:].astype(np.float32)
        return {"loss_weights": weights * self.masks["loss"][rows, 1:]}

    def expected(self, rows: Sequence[int] | NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The default view of these rows."""
        own = np.asarray(rows)
        return {
            "inputs": self.tokens[own, :-1],
            "targets": self.tokens[own, 1:],
            "loss_mask": self.masks["loss"][own, 1:],
            "segment_ids": self.segment_ids[own, :-1],
            "positions": self.positions[own, :-1],
            **{f"{m}_mask": a[own, :-1] for m, a in self.masks.items() if MASKS[m].is_block},
            **self.weights(own),
        }


def write_packed(
    folder: Path,
    *,
    num_rows: int,
    seq_len: int = 16,
    seed: int = 0,
    masks: Sequence[str] = ("loss",),
    rows_per_shard: int = 64,
    max_documents: int = 4,
    token_dtype: str = "uint16",
    pad_side: str = "right",
    compression: str = "none",
    strategy: str = "best_fit",
) -> Packed:
    rng = np.random.default_rng(seed)
    capacity = seq_len + 1
    rows = [_row(rng, capacity, max_documents, pad_side) for _ in range(num_rows)]
    edges = [edge for edge, _ in rows]
    segments = np.array([s for _, s in rows]).reshape(num_rows, capacity)
    positions = np.zeros((num_rows, capacity), np.int32)
    for r, edge in enumerate(edges):
        for start, stop in pairwise(edge.tolist()):
            positions[r, start:stop] = np.arange(stop - start)
    tokens = rng.integers(4, 1000, (num_rows, capacity)).astype(token_dtype)
    tokens[np.arange(num_rows), [edge[0] for edge in edges]] = np.arange(num_rows)
    tokens[segments == 0] = PAD
    dense = {name: (rng.random(segments.shape) < 0.7) & (segments > 0) for name in masks}
    begins = (segments > 0) & (positions == 0)
    first_loss = rng.random(int(begins.sum())) < 0.5
    own_loss = dense["loss"] & (positions > 0)
    own_loss[begins] = first_loss
    dense["loss"] &= positions > 0
    if "weight" in dense:
        dense["weight"] = rng.choice(np.array([1, 0.5, 0.1, 2], WEIGHT_DTYPE), segments.shape)
    layout = RowLayout(
        capacity=capacity,
        masks=tuple(masks),
        tokens=TOKEN_DTYPES[token_dtype],
        ends=TOKEN_DTYPES[ends_dtype(seq_len)],
    )
    payloads = encode_rows(
        Rows(
            tokens=tokens,
            left_padding=np.array([edge[0] for edge in edges], np.int64),
            ends=_ragged([edge[1:] for edge in edges]),
            first_loss=first_loss,
            masks=tuple(_ragged([_stored(row, name) for row in dense[name]]) for name in masks),
        ),
        layout,
    )
    _write(folder, payloads, layout, masks, seq_len, rows_per_shard, compression, strategy, seed)
    return Packed(
        folder=folder,
        tokens=tokens.astype(np.int32),
        segment_ids=segments,
        positions=positions,
        masks=dense,
        own_loss=own_loss,
    )


def _row(
    rng: np.random.Generator, capacity: int, max_documents: int, pad_side: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where the documents begin and end, and the segment ids."""
    used = capacity - int(rng.integers(0, capacity // 3 + 1)) * int(rng.integers(0, 2))
    count = int(rng.integers(1, min(max_documents, used) + 1))
    cuts = np.sort(rng.choice(np.arange(1, used), count - 1, replace=False))
    left = capacity - used if pad_side == "left" else 0
    edges = np.concatenate(([0], cuts, [used])).astype(np.int64) + left
    segments = np.zeros(capacity, np.int32)
    segments[left : left + used] = np.repeat(np.arange(1, count + 1), np.diff(edges))
    return edges, segments


def _stored(mask: NDArray[Any], name: str) -> NDArray[np.int64]:
    return stored_numbers(runs_of_parts(mask, np.ones(len(mask), np.int64)), MASKS[name])


def _ragged(arrays: Sequence[NDArray[Any]]) -> IntegerLists:
    offsets = np.cumsum([0, *(len(array) for array in arrays)])
    return IntegerLists(values=np.concatenate([np.zeros(0, np.int64), *arrays]), offsets=offsets)


def _write(
    folder: Path,
    payloads: list[bytes],
    layout: RowLayout,
    masks: Sequence[str],
    seq_len: int,
    rows_per_shard: int,
    compression: str,
    strategy: str,
    seed: int,
) -> None:
    for part in ("shards", "provenance"):
        (folder / part).mkdir(parents=True)
    options = "uncompressed" if compression == "none" else "zstd:3"
    entries = []
    count = -(-len(payloads) // rows_per_shard)
    for number, first in enumerate(range(0, len(payloads), rows_per_shard)):
        own = payloads[first : first + rows_per_shard]
        name = f"rows-{number:05d}-of-{count:05d}"
        path = folder / f"shards/{name}.arrayrecord"
        writer = array_record_module.ArrayRecordWriter(str(path), f"group_size:1,{options}")
        for payload in own:
            writer.write(payload)
        writer.close()
        index, provenance = path.with_suffix(".npy"), folder / f"provenance/{name}.npy"
        np.save(index, np.array([len(payload) for payload in own], "<u4"))
        np.save(provenance, np.zeros(0, ROW_PIECE))  # the loader reads none
        entries.append(
            RowShard(
                first_document=0,
                **asdict(_entry(folder, path)),
                num_records=len(own),
                num_tokens=len(own) * layout.capacity,
                index=_entry(folder, index),
                provenance=_entry(folder, provenance),
            )
        )
    identity = {"seed": seed, "shards": [entry.xxh3_128 for entry in entries]}
    tokenizer = TokenizerEntry(
        sha256="", kind="bytes", vocab_size=256, bos=None, eos=EOS, pad=None, engine="bytes"
    )
    tags: dict[str, Any] = {
        mask: BlockTags(start=(), end=(), named=True) for mask in blocks_among(masks)
    }
    manifest = PackedManifest(
        format_version=FORMAT_VERSION,
        kind="packed",
        fingerprint=fingerprint(identity),
        parents=(),
        config={"pack": {"strategy": strategy}},
        tokenizer=tokenizer,
        sources=(),
        seq_len=seq_len,
        token_dtype=cast(TokenDtype, layout.tokens.name),
        ends_dtype=cast(TokenDtype, layout.ends.name),
        max_id=min(np.iinfo(layout.tokens).max, (1 << 31) - 1),
        pad=PAD,
        compression=cast(Any, compression),
        strategy=strategy,
        **tags,
        masks=tuple(masks),
        shards=tuple(entries),
        counts={
            **dict.fromkeys(COUNTS, 0),
            "rows": len(payloads),
            "tokens": len(payloads) * layout.capacity,
        },
        identity=identity,
    )
    write_manifest(folder, manifest)


COUNTS = (
    *("documents_read", "documents_written", "documents_quarantined"),
    *("tokens", "target_tokens", "rows", "padding"),
)


def _entry(folder: Path, path: Path) -> FileEntry:
    return FileEntry(
        path=path.relative_to(folder).as_posix(),
        num_bytes=path.stat().st_size,
        xxh3_128=hash_file(path),
    )


def manifest_of(packed: Packed) -> PackedManifest:
    manifest = read_manifest(packed.folder)
    assert isinstance(manifest, PackedManifest)
    return manifest


def write_manifest(folder: Path, manifest: PackedManifest) -> None:
    (folder / MANIFEST).write_text(manifest_text(manifest), "utf-8")
