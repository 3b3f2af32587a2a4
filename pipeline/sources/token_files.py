"""Files of nothing but token ids: their records have one key, `tokens`.

    open_ids      a file and its size
    read_ids      the ids between two places
    id_records    a batch of lists of ids, as records

What a document is in such a file is for the formats: `flat`, `megatron`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.sources.blobs import TOKENS
from dataprep.pipeline.sources.stream import naming, open_file
from dataprep.pipeline.storage.foreign.megatron_read import read_exactly
from dataprep.pipeline.types import Offsets, Records


@contextmanager
def open_ids(path: str) -> Iterator[tuple[Any, int]]:
    """Open a file; yield it with its size in bytes."""
    with closing(open_file(path)) as file:
        with naming(path):
            size = int(file.seek(0, io.SEEK_END))
            file.seek(0)
        yield file, size


def read_ids(
    file: BinaryIO, dtype: np.dtype[Any], place: int, count: int, path: str
) -> NDArray[Any]:
    """Return `count` ids from byte `place` on."""
    size = count * dtype.itemsize
    with naming(path):
        file.seek(place)
        data = read_exactly(file, size)
    if len(data) < size:
        raise InputError(f"{path} was cut short while it was read; run again when it is complete")
    return np.frombuffer(data, dtype)


def id_records(
    ids: IntegerLists, places: Offsets, *, line: int, num_bytes: int, next_line: int | None = None
) -> Records:
    """Return lists of ids as records, which start at these bytes of their file."""
    count = len(ids)
    return Records(
        lines=np.arange(line, line + count),
        offsets=places,
        next_line=line + count if next_line is None else next_line,
        num_bytes=num_bytes,
        columns={TOKENS: ids},
    )
