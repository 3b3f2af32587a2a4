"""Check the media column of a table: does it exist, and does it hold media or names of files?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media.values import paths_in
from dataprep.pipeline.sources import format_of, read_piece, split_source
from dataprep.pipeline.sources.stream import is_url
from dataprep.pipeline.types import Source


def column_kind(source: Source, column: str) -> Literal["text", "bytes", "unknown"]:
    """Return what the column holds: `text` may be paths, `unknown` cannot be paths."""
    known = format_of(source.kind)
    if not known.names_files or is_url(source.path) or source.spool:
        return "unknown"
    schema = known.schema(source)
    if schema is None:
        return "text"
    if column not in schema.names:
        raise InputError(
            f"column {column!r} not in {source.path} (columns: {', '.join(schema.names)}); "
            "set --column"
        )
    described = str(schema.field(column).type)  # "string", "list<item: string>", "struct<…>"
    is_text = "string" in described and not any(t in described for t in ("struct", "binary"))
    return "text" if is_text else "bytes"


def referenced_paths(source: Source, column: str) -> Iterator[str]:
    """Yield every path that the column names."""
    keys = frozenset({column})
    for piece, _ in split_source(source, 0, sys.maxsize, keys, False):
        for records in read_piece(source, piece, keys):
            if records.columns is not None:
                values: list[Any] = list(records.columns[column])
            else:
                values = [row.get(column) for row in records.rows or ()]
            for value in values:
                yield from paths_in(value)
