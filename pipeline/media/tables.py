"""The media column of a table: is it there, and does it hold media or the names of files?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media.values import paths_in
from dataprep.pipeline.sources import read_piece, split_source
from dataprep.pipeline.sources.stream import is_url
from dataprep.pipeline.sources.tables import table_errors
from dataprep.pipeline.types import Source

_FILE_MAGIC = b"ARROW1"


def column_kind(source: Source, column: str) -> Literal["text", "bytes", "unknown"]:
    """`text` may be paths; `unknown` where only reading would tell and no path is allowed."""
    if source.kind in ("jsonl", "json"):
        return "unknown" if is_url(source.path) else "text"
    if source.kind not in ("parquet", "arrow") or is_url(source.path):
        return "unknown"
    schema = _schema(source)
    if column not in schema.names:
        raise InputError(
            f"column {column!r} not in {source.path} (columns: {', '.join(schema.names)}); "
            "set --column"
        )
    described = str(schema.field(column).type)  # "string", "list<item: string>", "struct<…>"
    is_text = "string" in described and not any(t in described for t in ("struct", "binary"))
    return "text" if is_text else "bytes"


def referenced_paths(source: Source, column: str) -> Iterator[str]:
    """Every path that the column names."""
    keys = frozenset({column})
    for piece, _ in split_source(source, 0, sys.maxsize, keys, False):
        for records in read_piece(source, piece, keys):
            if records.columns is not None:
                values: list[Any] = list(records.columns[column])
            else:
                values = [row.get(column) for row in records.rows or ()]
            for value in values:
                yield from paths_in(value)


def _schema(source: Source) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with table_errors(source.path, source.kind.capitalize()):
        if source.kind == "parquet":
            return pq.read_schema(source.path)
        with pa.memory_map(source.path) as file:
            is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
            file.seek(0)
            return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file).schema
