"""The rows of a packed dataset as bytes, from all of its shards at once.

Uncompressed shards are mapped: opening checks every file's size, the index that says how long its
rows are, and that the file's own footer stands where the index says it must. So no row can lie
outside of its file, and reading needs no further check of places. Compressed shards, and those on
a file system that cannot map, go through the official reader, with the same results.

Shards are immutable: cutting a mapped file short while it is in use ends the process.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.blocks import POSTSCRIPT_BYTES, footer_start, place_records
from dataprep.loaders.files import check_size, open_shard
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.region import Region
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.riegeli import BLOCK_BYTES
from dataprep.pipeline.types import Offsets


class Shards(Protocol):
    def fetch(self, rows: Offsets) -> RowBytes: ...
    def will_need(self, rows: Offsets) -> None: ...


def open_shards(folder: Path, manifest: Mapping[str, Any], least: int) -> Shards:
    """`least`: what the smallest row has, in bytes."""
    for shard in manifest["shards"]:
        check_size(folder / shard["path"], shard["num_bytes"])
        check_size(folder / shard["index"]["path"], shard["index"]["num_bytes"])
    if manifest["compression"] == "none":
        try:
            return MappedShards(folder, manifest["shards"], least)
        except OSError as error:
            message = f"cannot map {folder} ({error}); it is read in another way, which is slower"
            warnings.warn(message, stacklevel=2)
    return ReadShards(folder, manifest["shards"], least)


class MappedShards:
    """12 bytes of memory for each row; the rest is the system's page cache."""

    def __init__(self, folder: Path, shards: list[dict[str, Any]], least: int) -> None:
        total = sum(shard["num_records"] for shard in shards)
        self._first = np.empty(total, np.int64)  # byte of the region
        self._size = np.empty(total, np.uint32)
        row = place = 0
        for shard in shards:
            sizes = read_index(folder, shard, least)
            starts, footer = place_records(sizes)
            check_footer(folder / shard["path"], shard, footer)
            rows = slice(row, row + len(sizes))
            self._first[rows], self._size[rows] = starts + place, sizes
            row, place = row + len(sizes), place + shard["num_bytes"]
        self._region = Region([(folder / shard["path"], shard["num_bytes"]) for shard in shards])

    def fetch(self, rows: Offsets) -> RowBytes:
        return RowBytes(
            memory=self._region.memory,
            first=self._first[rows],
            size=self._size[rows].astype(np.int64),
            in_blocks=True,
        )

    def will_need(self, rows: Offsets) -> None:
        # The block headers inside of a row are not counted: at most its last bytes are left out.
        self._region.will_need(self._first[rows], self._size[rows].astype(np.int64))


class ReadShards:
    """Through the official reader, a batch of each shard at a time."""

    def __init__(self, folder: Path, shards: list[dict[str, Any]], least: int) -> None:
        self._folder, self._shards = folder, shards
        counts = [shard["num_records"] for shard in shards]
        self._starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self._open = lru_cache(maxsize=256)(self._open_shard)
        indexes = (read_index(folder, shard, least) for shard in shards)
        self._size = np.concatenate([np.zeros(0, np.uint32), *indexes])

    def fetch(self, rows: Offsets) -> RowBytes:
        payloads: list[bytes] = [b""] * len(rows)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            wanted = (rows[places] - self._starts[number]).tolist()
            for place, payload in zip(places.tolist(), self._read(number, wanted), strict=True):
                payloads[place] = payload
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        if (sizes != self._size[rows]).any():
            raise CorruptError(f"rows of {self._folder} have other sizes than its index says")
        return RowBytes(
            memory=np.frombuffer(b"".join(payloads), np.uint8),
            first=np.cumsum(sizes) - sizes,
            size=sizes,
            in_blocks=False,
        )

    def will_need(self, rows: Offsets) -> None:
        """The reader has no way to be told."""

    def _read(self, number: int, records: list[int]) -> list[bytes]:
        path = self._folder / self._shards[number]["path"]
        try:
            found: list[bytes] = self._open(number).read(records)
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            raise CorruptError(f"cannot read {path}: {error}") from None
        if not all(found):
            raise CorruptError(f"records of {path} are gone: the file changed underneath")
        return found

    def _open_shard(self, number: int) -> Any:
        shard = self._shards[number]
        return open_shard(self._folder / shard["path"], shard["num_records"])


def read_index(folder: Path, shard: Mapping[str, Any], least: int) -> NDArray[np.uint32]:
    """How many bytes each row of a shard has."""
    path = folder / shard["index"]["path"]
    try:
        sizes: NDArray[np.uint32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptError(f"{path} is damaged: {error}") from None
    if sizes.dtype != np.uint32 or sizes.shape != (shard["num_records"],):
        raise CorruptError(f"{path} does not list the {shard['num_records']} rows of its shard")
    if len(sizes) and int(sizes.min()) < least:
        raise CorruptError(f"{path} lists a row of {sizes.min()} bytes, the least is {least}")
    return sizes


def check_footer(path: Path, shard: Mapping[str, Any], expected: int) -> None:
    with open(path, "rb", buffering=0) as file:
        last = os.pread(file.fileno(), POSTSCRIPT_BYTES, max(0, shard["num_bytes"] - BLOCK_BYTES))
    found = footer_start(last)
    if found != expected or shard["num_bytes"] % BLOCK_BYTES:
        raise CorruptError(
            f"{path} is damaged or of another dataset: its rows end at byte {found}, "
            f"its index says {expected}"
        )
