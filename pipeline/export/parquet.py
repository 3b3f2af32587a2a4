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

from dataprep.pipeline.export.files import OutFile
from dataprep.pipeline.export.format import MAIN
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.files import Content
from dataprep.pipeline.types import Offsets

GROUP_TOKENS = 1 << 20
Columns = Mapping[str, Any]  # by name, each an array of lists
MakeColumns = Callable[[Sequences], Columns]


def lists(values: NDArray[Any], offsets: Offsets) -> Any:
    """Return an array of lists; list i is values[offsets[i]:offsets[i + 1]]."""
    assert offsets[-1] < 1 << 31, "too many values for one array"
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


class _Sink:
    """What pyarrow asks of a file that it writes to, from the start to the end."""

    closed = False

    def __init__(self, file: OutFile) -> None:
        self.write = file.write

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class ParquetFile:
    """Writes sequences as rows."""

    def __init__(self, path: Path, columns: MakeColumns) -> None:
        self._file, self._columns = OutFile(path), columns
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

    def close(self) -> Mapping[str, Content | None]:
        if self._held:
            self._write_group()
        if self._writer is not None:  # else nothing came, and the file is not published
            self._writer.close()
        return {MAIN: self._file.close()}

    def _open(self, schema: Any) -> None:
        if self._writer is None:
            # Ids are of many values and hardly sorted: dictionaries and statistics are in vain.
            # The lowest level of zstd takes no longer than snappy, and half the bytes.
            self._writer = pq.ParquetWriter(
                pa.PythonFile(_Sink(self._file), mode="w"),
                schema,
                use_dictionary=False,
                write_statistics=False,
                compression="zstd",
                compression_level=1,
            )

    def _write_group(self) -> None:
        table = pa.concat_tables(self._held).combine_chunks()
        self._writer.write_table(table, row_group_size=len(table))
        self._held, self._tokens = [], 0
