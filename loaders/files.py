"""Files of a dataset, checked against its manifest as they are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from array_record.python import array_record_module

from dataprep.pipeline.errors import CorruptError


def check_size(path: Path, num_bytes: int) -> None:
    try:
        actual = path.stat().st_size
    except OSError as error:
        raise CorruptError(f"{path} cannot be opened: {error.strerror}") from None
    if actual != num_bytes:
        raise CorruptError(f"{path} has {actual} bytes, the manifest says {num_bytes}")


def open_shard(path: Path, num_records: int) -> Any:
    """The official reader; it opens damaged files without a word, so ask it twice."""
    reader = array_record_module.ArrayRecordReader(str(path), "readahead_buffer_size:0")
    if not reader.ok() or reader.num_records() != num_records:
        raise CorruptError(f"{path} is damaged: its footer does not list {num_records} records")
    return reader
