"""Read the rows of a shard with ArrayRecord's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.row_rules import check_rows
from dataprep.pipeline.storage.arrayrecord import read_records
from dataprep.pipeline.storage.entries import RowShard
from dataprep.pipeline.storage.kinds import PackedManifest
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows

__all__ = ["read_records", "read_rows"]


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
