"""Read the records of a shard with ArrayRecord's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.arrayrecord import open_records
from dataprep.pipeline.storage.entries import DocumentShard, RowShard

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
