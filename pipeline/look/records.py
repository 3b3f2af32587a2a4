"""Read the records of a shard with ArrayRecord's own reader, and the rows in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.row_rules import check_rows
from dataprep.pipeline.storage.arrayrecord import open_records
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.kinds import PackedManifest
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows

BYTES_AT_ONCE = 2 << 20


def read_records(
    folder: Path, shard: DocumentShard | RowShard
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield all records of a shard, many at a time, with the number of the first."""
    path = folder / shard.path
    reader = open_records(path, shard.num_records)
    step = max(1, BYTES_AT_ONCE * shard.num_records // max(1, shard.num_bytes))
    for first in range(0, shard.num_records, step):
        numbers = list(range(first, min(first + step, shard.num_records)))
        try:
            records: list[bytes] = reader.read(numbers)
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            raise CorruptError(f"cannot read {path}: {error}") from None
        if len(records) != len(numbers):
            raise CorruptError(f"{path} is damaged: records are missing from {first} on")
        yield first, records
    reader.close()


def read_rows(
    folder: Path, manifest: PackedManifest, shard: RowShard
) -> Iterator[tuple[int, Rows]]:
    """Yield all rows of a shard, many at a time, with the number of the first; a CorruptError if
    one breaks the rules of rows."""
    layout = RowLayout.of_manifest(manifest)
    for first, records in read_records(folder, shard):
        rows = decode_rows(records, layout)
        wrong = check_rows(
            rows, layout, max_id=manifest.max_id, pad=manifest.pad, first_has_loss=True
        )
        if wrong:
            raise CorruptError(f"{folder / shard.path} is damaged: {wrong.reason}")
        yield first, rows
