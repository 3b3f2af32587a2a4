"""Read the rows of a shard with ArrayRecord's own reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.row_rules import check_rows
from dataprep.pipeline.storage.arrayrecord import read_records
from dataprep.pipeline.storage.entries import RowShard
from dataprep.pipeline.storage.kinds import PackedManifest
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows

__all__ = ["read_records", "read_rows", "rows_of"]


def read_rows(
    folder: Path, manifest: PackedManifest, shard: RowShard
) -> Iterator[tuple[int, Rows]]:
    """Yield all rows of a shard, many at a time, with the number of the first; a CorruptError if
    one breaks the rules of rows."""
    for first, records in read_records(folder, shard):
        yield first, rows_of(records, first, folder / shard.path, manifest, first_has_loss=True)


def rows_of(
    records: Sequence[bytes],
    first: int,
    path: Path,
    manifest: PackedManifest,
    *,
    first_has_loss: bool,
) -> Rows:
    """Return records of a shard, from the row `first` on, as rows; a CorruptError names the one
    that breaks a rule."""
    layout = RowLayout.of_manifest(manifest)
    try:
        rows = decode_rows(records, layout)
    except CorruptError as error:
        raise CorruptError(f"a row of {path} from {first} on: {error}") from None
    wrong = check_rows(
        rows, layout, max_id=manifest.max_id, pad=manifest.pad, first_has_loss=first_has_loss
    )
    if wrong:
        raise CorruptError(f"row {first + wrong.row} of {path}: {wrong.reason}")
    return rows
