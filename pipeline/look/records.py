"""Read the records of a shard with ArrayRecord's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from array_record.python import array_record_module

from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.storage.entries import DocumentShard, RowShard

RECORDS_AT_ONCE = 8


def read_records(folder: Path, shard: DocumentShard | RowShard) -> Iterator[tuple[int, bytes]]:
    """Yield every record of a shard with its number."""
    path = folder / shard.path
    reader = array_record_module.ArrayRecordReader(str(path))
    if not reader.ok() or reader.num_records() != shard.num_records:
        raise CorruptError(
            f"{path} is damaged: its footer lists {counted(reader.num_records(), 'record')}"
        )
    for first in range(0, shard.num_records, RECORDS_AT_ONCE):
        numbers = range(first, min(first + RECORDS_AT_ONCE, shard.num_records))
        yield from zip(numbers, reader.read(list(numbers)), strict=True)
    reader.close()
