"""Give each column one type in all shards.

    shard 0   text: null       score: int64
    shard 1   text: string     score: double     ─►   text: string, score: double, in both

Each shard finds the types of its columns by itself: a column that is null in all of one shard, or
whole numbers here and fractions there, has another type in the next. The types that fit all are
found from the markers, and shards that differ are written again beside the old ones.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dataprep.pipeline.encode.tables import CodesMarker, write_table
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import NewFile, Written, sync_folder
from dataprep.pipeline.jobs.stored import at_hand, keep_stored


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCodes:
    path: Path  # of its Parquet file
    errors: Path
    marker: CodesMarker
    file: Written  # the file as it will be moved


def common_schema(schemas: Sequence[str]) -> Any:
    """Return a schema that fits every shard; None if there are no shards."""
    import pyarrow as pa

    parsed = [_parse_schema(text) for text in dict.fromkeys(schemas)]
    if not parsed:
        return None
    try:
        merged = pa.unify_schemas(parsed, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(
            f"a column has values of types that do not go together ({error}); make them one type, "
            "or choose other columns with --keep; what was encoded so far is kept"
        ) from None
    first, last = parsed[0].names[0], parsed[0].names[-1]
    middle = sorted(set(merged.names) - {first, last})
    return pa.schema([merged.field(name) for name in (first, *middle, last)])


def retyped(committed: CommittedCodes, common: Any) -> CommittedCodes:
    """Return the shard, written again if its types are not the common ones."""
    if _parse_schema(committed.marker.schema).equals(common):
        return committed
    committed.file.check_at(at_hand(committed.path, committed.file))
    path = committed.path.with_suffix(".retyped.parquet")
    file = NewFile(path)
    write_table(_cast(committed.path, common), file)
    committed.file.check_untouched_at(committed.path)  # not while it was read either
    written = file.commit()
    sync_folder(path.parent)
    keep_stored(path, written, instead_of=committed.path)
    return replace(committed, path=path, file=written)


def _cast(path: Path, common: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = {}
    for field in common:
        try:
            columns[field.name] = (
                table.column(field.name).cast(field.type)
                if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
            )
        except pa.ArrowException as error:
            raise InputError(
                f"column {field.name!r} cannot be of type {field.type} throughout: {error}; "
                "choose other columns with --keep; what was encoded so far is kept"
            ) from None
    return pa.table(columns, schema=common.with_metadata(table.schema.metadata))


def _parse_schema(text: str) -> Any:
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
