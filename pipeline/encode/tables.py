"""Write codes of records into Parquet shards: temp -> fsync -> rename -> marker.

    vision   list<uint16>      codes of all frames, one after another
    audio    list<uint16>      one codebook; list<list<uint16>> for K codebooks of T codes each
    text, …                    the columns that came with the record
    source   string            where it came from, unless the record has a column of that name

The metadata of the schema say which encoder made the codes (`sources.makers`).

A shard has the columns that its records have, with the types that pyarrow finds in the values. The
final types are known when all shards are there (`retype`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.encoders.interface import Codes
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import NewFile, Written, commit_files
from dataprep.pipeline.jobs.commits import Cursor, shard_file, write_marker
from dataprep.pipeline.jobs.progress import Example
from dataprep.pipeline.sources.makers import Maker, metadata_of
from dataprep.pipeline.storage.documents import TokenDtype

ENDINGS = {"shards": ".parquet", "errors": ".errors.jsonl"}
SOURCE = "source"
VARIANT = "variant"  # of a picture that is changed at random


@dataclass(slots=True, kw_only=True)
class CodeTally:
    """What became of the records of one source."""

    read: int = 0
    written: int = 0
    bad: int = 0
    frames: int = 0
    codes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesMarker:
    """The marker of one committed shard of codes."""

    num_records: int
    num_codes: int
    tallies: dict[str, CodeTally]  # by source index
    examples: list[Example]  # its first bad records
    files: dict[str, Written]  # by role
    schema: str  # serialised by Arrow, in base64
    cursor: Cursor
    final: bool  # whether it is the last shard of its task

    @property
    def is_empty(self) -> bool:
        return not self.num_records


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeColumn:
    """How codes are written."""

    name: str
    codebook_size: int
    is_nested: bool  # a list for each codebook

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(code_dtype(self.codebook_size))


def code_dtype(codebook_size: int) -> TokenDtype:
    return "uint16" if codebook_size <= 1 << 16 else "uint32"


@dataclass(slots=True)
class OpenShard:
    """The records of a shard that is being filled."""

    codes: list[Codes] = field(default_factory=list)  # [frames, tokens] or [codebooks, frames]
    columns: list[dict[str, Any]] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)  # of each record that is written
    errors: list[dict[str, Any]] = field(default_factory=list)  # {file, line, byte_offset, reason}
    examples: list[Example] = field(default_factory=list)
    tallies: dict[str, CodeTally] = field(default_factory=dict)

    def tally(self, source: int) -> CodeTally:
        return self.tallies.setdefault(str(source), CodeTally())


def prepare_commit(
    shard: OpenShard,
    stem: Path,
    number: int,
    *,
    column: CodeColumn,
    makers: Iterable[Maker],
    cursor: Cursor,
    final: bool,
) -> Callable[[], None]:
    """Return the function that commits the shard; the table is built now, so it can fail now."""
    table = make_table(shard, column).replace_schema_metadata(metadata_of(makers))
    paths = {role: shard_file(stem, number, ending) for role, ending in ENDINGS.items()}

    def commit() -> None:
        files = {role: NewFile(path) for role, path in paths.items()}
        write_table(table, files["shards"])
        files["errors"].write_lines(
            json.dumps(error, ensure_ascii=False) + "\n" for error in shard.errors
        )
        marker = CodesMarker(
            num_records=table.num_rows,
            num_codes=sum(codes.size for codes in shard.codes),
            tallies=shard.tallies,
            examples=shard.examples,
            files=commit_files(files),
            schema=base64.b64encode(table.schema.serialize().to_pybytes()).decode(),
            cursor=cursor,
            final=final,
        )
        write_marker(stem, number, marker, paths)

    return commit


def write_table(table: Any, file: NewFile) -> None:
    import pyarrow.parquet as pq

    pq.write_table(
        table,
        file,
        compression="zstd",
        # One row group: a shard is small, and a worker of tokenize reads row groups.
        row_group_size=max(1, table.num_rows),
        write_page_checksum=True,  # of 4 bytes, by which any reader notices damage
    )


def make_table(shard: OpenShard, column: CodeColumn) -> Any:
    import pyarrow as pa

    names = sorted({name for columns in shard.columns for name in columns} - {SOURCE})
    arrays = {column.name: codes_array(shard.codes, column)}
    arrays |= {name: column_array(name, shard.columns) for name in (*names, SOURCE)}
    return pa.table(arrays)


def codes_array(codes: Sequence[Codes], column: CodeColumn) -> Any:
    import pyarrow as pa

    flat = [part.astype(column.dtype).ravel() for part in codes]
    values = pa.array(np.concatenate([np.zeros(0, column.dtype), *flat]))
    if not column.is_nested:
        return pa.ListArray.from_arrays(_offsets([part.size for part in codes]), values)
    rows = [len(row) for part in codes for row in part]
    inner = pa.ListArray.from_arrays(_offsets(rows), values)
    return pa.ListArray.from_arrays(_offsets([len(part) for part in codes]), inner)


def _offsets(lengths: Sequence[int]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def column_array(name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    try:
        return pa.array([row.get(name) for row in rows])
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        cause = str(error).partition("\n")[0]
        raise InputError(
            f"column {name!r} cannot be kept: {cause}; make its values one type, or choose others "
            "with --keep"
        ) from None
