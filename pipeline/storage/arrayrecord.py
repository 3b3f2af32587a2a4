"""Write ArrayRecord files and check them, with errors that say what to do.

`riegeli` knows where the bytes are in such a file, `documents` and `rows` what a record holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.pipeline.errors import ResourceError

# Options of every file that is read in random order or mapped.
MAPPABLE = "group_size:1,uncompressed"


class RecordWriter:
    """ArrayRecord's writer, whose errors say what to do."""

    def __init__(self, path: Path, options: str) -> None:
        self._path = path
        self._writer = array_record_module.ArrayRecordWriter(str(path), options)

    def write(self, record: bytes) -> None:
        with self._errors_named():
            self._writer.write(record)

    def close(self) -> None:
        with self._errors_named():
            self._writer.close()

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # a full disk is one, not an OSError
            raise ResourceError(
                f"cannot write {self._path}: {error}; make room and run the same command again"
            ) from None


def save_array(path: Path, array: NDArray[Any]) -> None:
    with open(path, "wb") as file:
        np.save(file, array)


def check_written(path: Path, num_records: int) -> None:
    """Read the file's footer back: it may be the only sign that the disk was full."""
    reader = array_record_module.ArrayRecordReader(str(path))
    try:
        if not reader.ok() or reader.num_records() != num_records:
            raise ResourceError(f"{path} was not written completely; run the same command again")
    finally:
        reader.close()
