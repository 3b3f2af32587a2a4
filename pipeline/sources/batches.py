"""Batches of records for every format: empty ones, and those made from single records.

a format's read   yields batches as they come: empty ones where it skipped lines or met blank
                  ones, and a last one with the piece's line count
settle            drops empty batches, except a last one that adds a line count or bytes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.reasons import too_long_reason
from dataprep.pipeline.types import ABSENT, Record, RecordError, Records


def empty_batch(*, next_line: int, num_bytes: int = 0) -> Records:
    none = np.empty(0, np.int64)
    return Records(lines=none, offsets=none, next_line=next_line, num_bytes=num_bytes, rows=())


def settle(batches: Iterable[Records]) -> Iterator[Records]:
    """Yield at least one batch; only the last may be empty, and it has the piece's line count."""
    idle: Records | None = None
    told = -1  # the line count of the last batch that was yielded
    for batch in batches:
        if idle is not None:
            batch = replace(batch, num_bytes=batch.num_bytes + idle.num_bytes)
        if len(batch.lines) or batch.errors:
            idle = None
            told = batch.next_line
            yield batch
        else:
            idle = batch
    if idle is not None and (told < idle.next_line or idle.num_bytes):
        yield idle


def as_columns(rows: Sequence[Record], keys: Keys) -> dict[str, list[Any]] | None:
    """Return the wanted keys as columns, or None if a row lacks a needed one."""
    if any(map(keys.lacking, rows)):
        return None
    return {key: [row.get(key, ABSENT) for row in rows] for key in sorted(keys.tops)}


def batch_rows(
    rows: Iterable[tuple[Record, int]],  # with their sizes in bytes
    wanted: Wanted,
    *,
    first_line: int,
) -> Iterator[Records]:
    """Yield batches of records that have no byte offsets and no blank lines between them."""
    gathered: list[Record] = []
    num_bytes = 0
    line = first_line
    for row, row_bytes in rows:
        if row_bytes > wanted.max_record_bytes:
            yield _row_batch(gathered, wanted.keys, line, num_bytes)
            line += len(gathered) + 1
            yield too_long_batch(line - 1, row_bytes, wanted.max_record_bytes)
            gathered, num_bytes = [], 0
            continue
        gathered.append(row)
        num_bytes += row_bytes
        if num_bytes >= wanted.batch_bytes:
            yield _row_batch(gathered, wanted.keys, line, num_bytes)
            line += len(gathered)
            gathered, num_bytes = [], 0
    yield _row_batch(gathered, wanted.keys, line, num_bytes)


def too_long_batch(line: int, num_bytes: int, max_record_bytes: int) -> Records:
    """Return a batch of nothing but the error of one record."""
    reason = too_long_reason(num_bytes, max_record_bytes)
    error = RecordError(line=line, offset=-1, reason=reason)
    return replace(empty_batch(next_line=line + 1, num_bytes=num_bytes), errors=(error,))


def _row_batch(rows: list[Record], keys: Keys | None, first_line: int, num_bytes: int) -> Records:
    columns = None if keys is None else as_columns(rows, keys)
    next_line = first_line + len(rows)
    return Records(
        lines=np.arange(first_line, next_line),
        offsets=np.full(len(rows), -1, np.int64),
        next_line=next_line,
        num_bytes=num_bytes,
        columns=columns,
        rows=rows if columns is None else None,
    )
