"""Parquet files: pieces are row groups, lines are rows.

Only the wanted columns are read, a few rows at a time, so memory does not depend on the size of a
row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.stream import is_url, open_file
from dataprep.pipeline.sources.tables import (
    broken_table,
    check_columns,
    rows_before,
    slices,
    table_errors,
    table_records,
)
from dataprep.pipeline.types import Piece, Records, Source

# A repeated value is stored once: rows that are small by the metadata can be large when read.
_MAX_ROWS = 8192
_NO_COLUMN: frozenset[str] = frozenset()


class Parquet(Format):
    """Pieces are row groups."""

    kind = "parquet"
    endings = (".parquet",)
    names_files = True

    def split(self, source: Source, target_bytes: int, keys: frozenset[str] | None) -> list[Cut]:
        return cuts.groups(group_sizes(source.path, keys), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        line = 0
        with _open(source.path, wanted.keys) as file:
            sizes = _group_sizes(file, wanted.keys)[piece.start : piece.stop]
            if len(sizes) < piece.stop - piece.start:
                cause = f"row group {piece.stop - 1} no longer exists"
                raise broken_table(source.path, "Parquet", cause)
            for group, size in enumerate(sizes, piece.start):
                yield from _read_group(file, group, size, line, wanted, source.path)
                line += size[0]
        yield empty_batch(next_line=line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        sizes = group_sizes(source.path, _NO_COLUMN)
        return sum(rows for rows, _ in sizes[piece.start : piece.stop])

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        return rows_before(group_sizes(source.path, _NO_COLUMN), starts)

    def schema(self, source: Source) -> Any:
        with _open(source.path, _NO_COLUMN) as file:
            return file.schema_arrow


@contextmanager
def _open(path: str, keys: frozenset[str] | None) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with ExitStack() as stack:
        place = stack.enter_context(closing(open_file(path))) if is_url(path) else path
        with table_errors(path, "Parquet"):
            # Read ahead only over a network: for local files it would hold whole row groups.
            file = pq.ParquetFile(
                place,
                buffer_size=1 << 20,
                pre_buffer=is_url(path),
                page_checksum_verification=True,  # where a page has one
            )
        stack.callback(file.close)
        check_columns(keys, file.schema_arrow.names, path)
        yield file


def group_sizes(path: str, keys: frozenset[str] | None) -> list[tuple[int, int]]:
    """Return (rows, uncompressed bytes of the wanted columns) of each row group."""
    with _open(path, keys) as file:
        return _group_sizes(file, keys)


def _group_sizes(file: Any, keys: frozenset[str] | None) -> list[tuple[int, int]]:
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    return [
        (
            group.num_rows,
            sum(
                group.column(i).total_uncompressed_size
                for i in range(group.num_columns)
                if _is_wanted(group.column(i).path_in_schema, keys)
            ),
        )
        for group in groups
    ]


def _is_wanted(path_in_schema: str, keys: frozenset[str] | None) -> bool:
    """
    >>> _is_wanted("turns.list.element.role", frozenset({"turns"}))
    True
    """
    if keys is None:
        return True
    return any(path_in_schema == key or path_in_schema.startswith(f"{key}.") for key in keys)


def _read_group(
    file: Any, group: int, size: tuple[int, int], line: int, wanted: Wanted, path: str
) -> Iterator[Records]:
    """Yield the records of a row group of `size` = (rows, bytes) that begins at `line`."""
    num_rows, num_bytes = size
    group_end = line + num_rows
    if group_end <= wanted.from_line:
        yield empty_batch(next_line=group_end, num_bytes=num_bytes)
        return
    num_bytes_of_row = num_bytes / max(1, num_rows)
    rows_at_once = min(_MAX_ROWS, max(1, int(wanted.batch_bytes / max(1, num_bytes_of_row))))
    for batch in _batches(file, group, rows_at_once, wanted.keys, path):
        skipped = min(batch.num_rows, max(0, wanted.from_line - line))
        line += skipped
        yield empty_batch(next_line=line, num_bytes=int(skipped * num_bytes_of_row))
        for part in slices(batch.slice(skipped), wanted.batch_bytes):
            part_bytes = int(part.num_rows * num_bytes_of_row)
            yield table_records(part, wanted, first_line=line, num_bytes=part_bytes, path=path)
            line += part.num_rows
    if line != group_end:
        rows = "1 row" if num_rows == 1 else f"{num_rows} rows"
        cause = f"row group {group} does not have the {rows} that it states"
        raise broken_table(path, "Parquet", cause)


def _batches(
    file: Any, group: int, num_rows: int, keys: frozenset[str] | None, path: str
) -> Iterator[Any]:
    batches = file.iter_batches(
        batch_size=num_rows,
        row_groups=[group],
        columns=None if keys is None else sorted(keys),
        use_threads=False,
    )
    while True:
        with table_errors(path, "Parquet"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
