"""Small packed datasets, with the dense arrays that they must give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.pipeline.files import hash_file
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, runs_of_parts
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, fingerprint, write_manifest
from dataprep.pipeline.storage.rows import Ragged, RowLayout, Rows, encode_rows, ends_dtype

PAD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Every array is [rows, seq_len + 1]; the first token of row r is r, or the next in line."""

    folder: Path
    tokens: NDArray[Any]
    segment_ids: NDArray[Any]
    positions: NDArray[Any]
    masks: dict[str, NDArray[Any]]

    def expected(self, rows: Sequence[int] | NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The default view of these rows."""
        own = np.asarray(rows)
        return {
            "inputs": self.tokens[own, :-1],
            "targets": self.tokens[own, 1:],
            "loss_mask": self.masks["loss"][own, 1:],
            "segment_ids": self.segment_ids[own, :-1],
            "positions": self.positions[own, :-1],
            **{f"{m}_mask": a[own, :-1] for m, a in self.masks.items() if m != "loss"},
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
    dense["loss"] &= positions > 0
    layout = RowLayout(
        capacity=capacity,
        num_masks=len(masks),
        tokens=TOKEN_DTYPES[token_dtype],
        ends=TOKEN_DTYPES[ends_dtype(seq_len)],
    )
    payloads = encode_rows(
        Rows(
            tokens=tokens,
            left_padding=np.array([edge[0] for edge in edges], np.int64),
            ends=_ragged([edge[1:] for edge in edges]),
            runs=tuple(_ragged([_runs(row) for row in dense[name]]) for name in masks),
        ),
        layout,
    )
    _write(folder, payloads, layout, masks, seq_len, rows_per_shard, compression, seed)
    return Packed(
        folder=folder,
        tokens=tokens.astype(np.int32),
        segment_ids=segments,
        positions=positions,
        masks=dense,
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


def _runs(mask: NDArray[Any]) -> NDArray[np.int64]:
    return runs_of_parts(mask, np.ones(len(mask), np.int64))


def _ragged(arrays: Sequence[NDArray[Any]]) -> Ragged:
    offsets = np.cumsum([0, *(len(array) for array in arrays)])
    return Ragged(values=np.concatenate([np.zeros(0, np.int64), *arrays]), offsets=offsets)


def _write(
    folder: Path,
    payloads: list[bytes],
    layout: RowLayout,
    masks: Sequence[str],
    seq_len: int,
    rows_per_shard: int,
    compression: str,
    seed: int,
) -> None:
    (folder / "shards").mkdir(parents=True)
    options = "uncompressed" if compression == "none" else "zstd:3"
    entries = []
    for number, first in enumerate(range(0, len(payloads), rows_per_shard)):
        own = payloads[first : first + rows_per_shard]
        path = folder / f"shards/rows-{number:05d}.arrayrecord"
        writer = array_record_module.ArrayRecordWriter(str(path), f"group_size:1,{options}")
        for payload in own:
            writer.write(payload)
        writer.close()
        index = path.with_suffix(".npy")
        np.save(index, np.array([len(payload) for payload in own], "<u4"))
        entries.append(
            {
                **_entry(folder, path),
                "num_records": len(own),
                "num_tokens": len(own) * layout.capacity,
                "index": _entry(folder, index),
            }
        )
    identity = {"seed": seed, "shards": [entry["xxh3_128"] for entry in entries]}
    write_manifest(
        folder,
        {
            "format_version": FORMAT_VERSION,
            "kind": "packed",
            "fingerprint": fingerprint(identity),
            "identity": identity,
            "config": {},
            "tokenizer": {},
            "seq_len": seq_len,
            "token_dtype": layout.tokens.name,
            "ends_dtype": layout.ends.name,
            "masks": list(masks),
            "pad": PAD,
            "compression": compression,
            "shards": entries,
            "counts": {"rows": len(payloads)},
        },
    )


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    return {
        "path": path.relative_to(folder).as_posix(),
        "num_bytes": path.stat().st_size,
        "xxh3_128": hash_file(path),
    }
