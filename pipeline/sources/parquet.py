"""Parquet files: pieces are row groups, lines are rows.

Only the wanted columns are read, a few rows at a time, so memory does not depend on the size of a
row group, nor on how often a value that is stored once is repeated (parquet_bounds.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import cache, partial
from typing import Any

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.parquet_bounds import (
    OpenFile,
    batches_of,
    bounds_of,
    chunks_of,
    wanted_columns,
)
from dataprep.pipeline.sources.stream import is_url, open_file
from dataprep.pipeline.sources.table_columns import find_columns
from dataprep.pipeline.sources.tables import TableRows, broken_table, rows_before, table_errors
from dataprep.pipeline.types import Piece, Records, Source

_SIGNATURE_BYTES = 28
_NO_COLUMN = Keys(needed=frozenset())


class Parquet(Format):
    """Pieces are row groups."""

    kind = "parquet"
    endings = (".parquet",)
    knows_rows = True
    names_files = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        return cuts.groups(group_sizes(source.path, keys), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        with ExitStack() as stack:
            file = stack.enter_context(_open(source.path, wanted.keys))
            columns = find_columns(wanted.keys, file.schema_arrow, source.path)
            rows = TableRows(wanted, columns, source.path)

            @cache
            def as_dictionaries() -> Any:
                return stack.enter_context(_open(source.path, wanted.keys, like=file))

            sizes = _group_sizes(file, wanted.keys)[piece.start : piece.stop]
            if len(sizes) < piece.stop - piece.start:
                cause = f"row group {piece.stop - 1} no longer exists"
                raise broken_table(source.path, "Parquet", cause)
            for group, size in enumerate(sizes, piece.start):
                yield from _read_group(file, as_dictionaries, source, group, size, rows, wanted)
        yield empty_batch(next_line=rows.line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        sizes = group_sizes(source.path, _NO_COLUMN)
        return sum(rows for rows, _ in sizes[piece.start : piece.stop])

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        return rows_before(group_sizes(source.path, _NO_COLUMN), starts)

    def schema(self, source: Source) -> Any:
        with _open(source.path, _NO_COLUMN) as file:
            return file.schema_arrow


@contextmanager
def _open(path: str, keys: Keys | None, *, like: Any = None) -> Iterator[Any]:
    """Open a file, or the same again `like` it, but so that texts are read as dictionaries."""
    import pyarrow.parquet as pq

    with ExitStack() as stack:
        place = stack.enter_context(closing(open_file(path))) if is_url(path) else path
        with table_errors(path, "Parquet"):
            # Read ahead only over a network: for local files it would hold whole row groups.
            file = pq.ParquetFile(
                place,
                buffer_size=1 << 20,
                pre_buffer=is_url(path) and like is None,
                page_checksum_verification=True,  # where a page has one
                metadata=like and like.metadata,
                read_dictionary=like and _with_dictionaries(like, keys),
            )
            stack.callback(file.close)
            if _footer_bytes(place) == file.metadata.serialized_size + _SIGNATURE_BYTES:
                raise InputError(f"{path} has encrypted columns; write it again without encryption")
        find_columns(keys, file.schema_arrow, path)
        yield file


def _footer_bytes(place: Any) -> int:
    """Return the length of the footer, and of its signature if there is one: if columns are
    encrypted and the footer is not. pyarrow ends the process when it looks at such a column."""
    with open(place, "rb") if isinstance(place, str) else nullcontext(place) as file:
        file.seek(-8, os.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def _with_dictionaries(file: Any, keys: Keys | None) -> list[str]:
    """Return the columns of texts that have a dictionary in any row group."""
    groups = range(file.metadata.num_row_groups)
    chunks = (c for group in groups for c in chunks_of(file, group, partial(_is_wanted, keys=keys)))
    return sorted({chunk.path for chunk in chunks if chunk.has_dictionary})


def group_sizes(path: str, keys: Keys | None) -> list[tuple[int, int]]:
    """Return (rows, uncompressed bytes of the wanted columns) of each row group."""
    with _open(path, keys) as file:
        return _group_sizes(file, keys)


def _group_sizes(file: Any, keys: Keys | None) -> list[tuple[int, int]]:
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    wanted = wanted_columns(file, partial(_is_wanted, keys=keys))
    return [
        (group.num_rows, sum(group.column(i).total_uncompressed_size for i in wanted))
        for group in groups
    ]


def _is_wanted(path_in_schema: str, keys: Keys | None) -> bool:
    """
    >>> _is_wanted("turns.list.element.role", Keys(needed=frozenset({"turns"})))
    True
    """
    if keys is None:
        return True
    return any(path_in_schema == key or path_in_schema.startswith(f"{key}.") for key in keys.names)


def _read_group(
    file: Any,
    as_dictionaries: OpenFile,
    source: Source,
    group: int,
    size: tuple[int, int],
    rows: TableRows,
    wanted: Wanted,
) -> Iterator[Records]:
    """Yield the records of a row group of `size` = (rows, bytes)."""
    path = source.path
    num_rows, num_bytes = size
    group_end = rows.line + num_rows
    if group_end <= wanted.from_line:
        rows.line = group_end
        yield empty_batch(next_line=group_end, num_bytes=num_bytes)
        return
    chunks = chunks_of(file, group, partial(_is_wanted, keys=wanted.keys))
    stored = sum(chunk.metadata.total_compressed_size for chunk in chunks)
    growth = Growth(
        place=f"row group {group} of {path}",
        stored=min(stored, source.num_bytes) if source.num_bytes >= 0 else stored,
        max_ratio=source.max_ratio,
    )
    bounds = bounds_of(chunks, group, growth, path, as_dictionaries)
    bytes_of_row = max(1, num_bytes, bounds.fixed_bytes) / max(1, num_rows)
    at_once = max(1, min(bounds.max_rows, int(wanted.batch_bytes / bytes_of_row)))
    columns = None if wanted.keys is None else rows.leaves
    reader = as_dictionaries() if bounds.as_dictionaries else file
    yield from rows.read(
        batches_of(reader, group, at_once, columns, path),
        growth=growth,
        bytes_of_row=num_bytes / max(1, num_rows),
        schema=file.schema_arrow if bounds.as_dictionaries else None,
    )
    if rows.line != group_end:
        stated = "1 row" if num_rows == 1 else f"{num_rows} rows"
        cause = f"row group {group} does not have the {stated} that it states"
        raise broken_table(path, "Parquet", cause)
