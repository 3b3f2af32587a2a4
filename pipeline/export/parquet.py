"""Parquet files of lists, one row a sequence, in row groups that do not depend on what came when.

sequences   [4 tokens] [3] [6] [2] …      a group ends where it has GROUP_TOKENS or more
groups      └────────────┘ └──────
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dataprep.pipeline.export.format import MAIN
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import NewFile, Written
from dataprep.pipeline.types import Offsets

GROUP_TOKENS = 1 << 20
Columns = Mapping[str, Any]  # by name, each an array of lists
MakeColumns = Callable[[Sequences], Columns]


def lists(values: NDArray[Any], offsets: Offsets) -> Any:
    """Return an array of lists; list i is values[offsets[i]:offsets[i + 1]]."""
    assert offsets[-1] < 1 << 31, "too many values for one array"
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def _encodings(schema: Any) -> dict[str, str]:
    """Return the encodings of columns of numbers, by their paths in the file."""
    columns = [field for field in schema if not pa.types.is_boolean(field.type.value_type)]
    return {f"{field.name}.list.element": "BYTE_STREAM_SPLIT" for field in columns}


class ParquetFile:
    """Writes sequences as rows."""

    def __init__(self, path: Path, columns: MakeColumns) -> None:
        self._file, self._columns = NewFile(path), columns
        self._writer: Any = None
        self._held: list[Any] = []  # tables of the group that is not full
        self._tokens = 0  # in them

    def add(self, sequences: Sequences) -> Mapping[str, int]:
        table = pa.table(dict(self._columns(sequences)))
        self._open(table.schema)
        first, ends = 0, sequences.offsets
        while first < len(sequences):
            wanted = int(ends[first]) + GROUP_TOKENS - self._tokens
            stop = min(int(np.searchsorted(ends, wanted)), len(sequences))
            self._held.append(table.slice(first, stop - first))
            self._tokens += int(ends[stop] - ends[first])
            if self._tokens >= GROUP_TOKENS:
                self._write_group()
            first = stop
        return {"records": len(sequences), "tokens": len(sequences.tokens)}

    def commit(self) -> dict[str, Written]:
        if self._held:
            self._write_group()
        if self._writer is not None:  # else nothing came: the file is not published
            self._writer.close()
        return {MAIN: self._file.commit()}

    def _open(self, schema: Any) -> None:
        if self._writer is None:
            # Ids are of many values and hardly sorted: dictionaries and statistics are in vain.
            # Their high bytes are mostly zero: apart from the low ones, zstd takes half the time
            # for three quarters of the bytes. Its lowest level takes no longer than snappy.
            self._writer = pq.ParquetWriter(
                self._file,
                schema,
                use_dictionary=False,
                write_statistics=False,
                column_encoding=_encodings(schema),
                compression="zstd",
                compression_level=1,
            )

    def _write_group(self) -> None:
        table = pa.concat_tables(self._held).combine_chunks()
        self._writer.write_table(table, row_group_size=len(table))
        self._held, self._tokens = [], 0
