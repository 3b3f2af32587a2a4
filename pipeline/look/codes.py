"""Look at a dataset of codes: one record, and how its codes are used.

record 5   vision 2×256 codes   source cats/tom.jpg   text "a cat"
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.encode import EncodeConfig
from dataprep.configs.load import recorded
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.checks.codes import read_codes
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.entries import CodeShard
from dataprep.pipeline.storage.manifest import EncodedManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRecord:
    number: int
    path: Path  # of its shard
    row: int  # there, from 1, as `Origin` counts
    name: str  # of the column of codes
    codes: NDArray[Any]  # [frames, tokens], or [codebooks, frames] of sound
    columns: dict[str, Any]  # the others


def column_name(folder: Path, manifest: EncodedManifest) -> str:
    """Return the column that holds the codes."""
    return recorded(EncodeConfig, manifest.config, folder).into or manifest.encoder.kind


def read_record(folder: Path, manifest: EncodedManifest, number: int) -> CodeRecord:
    """Return a record, numbered through all shards."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    starts = offsets_of([shard.num_records for shard in manifest.shards])
    shard = int(np.searchsorted(starts, number, side="right")) - 1
    entry, before = manifest.shards[shard], number - int(starts[shard])
    row = before + 1
    check_file(folder, entry)
    name, path = column_name(folder, manifest), folder / entry.path
    try:
        columns = pq.read_table(path).slice(before, 1).to_pylist()[0]
        codes = np.array(columns.pop(name), manifest.token_dtype)
    except (pa.ArrowException, OSError, LookupError, ValueError, TypeError) as error:
        raise CorruptError(f"row {row} of {path} cannot be read: {error}") from None
    size = manifest.encoder.frame_codes
    if not codes.size or codes.size % size:
        raise CorruptError(f"row {row} of {path} does not hold whole frames of {size} codes")
    shape = (-1, size) if manifest.encoder.kind == "vision" else (size, -1)
    return CodeRecord(
        number=number, path=path, row=row, name=name, codes=codes.reshape(shape), columns=columns
    )


def shard_codes(
    folder: Path, manifest: EncodedManifest, shard: CodeShard
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the codes of all records of a shard, joined, and how many each record has."""
    column = read_codes(folder / shard.path, column_name(folder, manifest), manifest)
    codes: NDArray[Any] = column.flatten(recursive=True).to_numpy(zero_copy_only=False)
    ends = column.offsets.to_numpy().astype(np.int64)
    inner = column.flatten()
    if hasattr(inner, "offsets"):  # a list for each codebook
        ends = inner.offsets.to_numpy().astype(np.int64)[ends - ends[0]]
    return codes, np.diff(ends)
