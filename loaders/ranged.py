"""Single rows and documents of a dataset in an object store, read by ranges of bytes.

    open_dataset("s3://bucket/packed")[7]     manifest (once), index of the shard (once a shard),
                                              the bytes of row 7
    dataset[3:9]                              rows that lie together in one request

For a look, not for training: `fetched` brings whole shards, which are proven by their hashes. Of
ranges only the index is, and that a record of that size is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.gather import RowBytes
from dataprep.loaders.whole import Verify, prove_bytes
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import array_in
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.entries import DocumentShard, RowShard
from dataprep.pipeline.storage.fetched import damage_if_gone
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.objects import is_remote, open_objects
from dataprep.pipeline.storage.riegeli import (
    BLOCK_BYTES,
    BLOCK_HEADER_BYTES,
    physical,
    read_varint,
    record_places,
    varint_bytes,
)
from dataprep.pipeline.types import Offsets

_GAP = 64 << 10  # bytes between records that are rather read than asked for in two requests
_MOST = 8 << 20  # bytes of one request
_AT_ONCE = 8  # requests
_KEPT = 256  # shards whose indexes are kept


class RangedRecords:
    """The records of shards in a store."""

    def __init__(self, folder: Path, shards: Sequence[RowShard | DocumentShard]) -> None:
        self._folder, self._shards = folder, shards
        self._objects = open_objects(str(folder))

    def index(self, shard: int) -> tuple[Path, bytes]:
        """Return the index of a shard, by its hash, and what it is called."""
        entry = self._shards[shard].index
        with damage_if_gone():
            data = self._objects.get(entry.path)
        prove_bytes(self._folder / entry.path, data, entry)
        return self._folder / entry.path, data

    def read(self, shard: int, sizes: Offsets, records: Sequence[int]) -> list[bytes]:
        """Return records of a shard, whose records have these sizes."""
        places = record_places(sizes)
        wanted = sorted(set(records))
        # With what is ahead of a record: a zero, and its size, which tells whether it is one.
        ahead = 2 + varint_bytes(sizes[wanted])
        first = physical(places[wanted] - ahead)
        stop = physical(places[wanted] + sizes[wanted] - 1) + 1
        begins = np.ones(len(wanted), np.bool_)
        for i in range(1, len(wanted)):
            begins[i] = first[i] > stop[i - 1] + _GAP
        runs = np.flatnonzero(begins)
        ends = [*(runs[1:] - 1).tolist(), len(wanted) - 1]
        spans = [
            (start, min(start + _MOST, int(stop[j])))
            for i, j in zip(runs.tolist(), ends, strict=True)
            for start in range(int(first[i]), int(stop[j]), _MOST)
        ]
        path = self._shards[shard].path
        with damage_if_gone(), ThreadPoolExecutor(min(_AT_ONCE, len(spans))) as pool:
            read = list(pool.map(lambda s: self._objects.get_range(path, s[0], s[1] - s[0]), spans))
        found = {}
        for record, start, end in zip(wanted, first.tolist(), stop.tolist(), strict=True):
            data = b"".join(
                part[max(0, start - span[0]) : max(0, end - span[0])]
                for part, span in zip(read, spans, strict=True)
            )
            found[record] = _record_of(_without_headers(data, start), int(sizes[record]))
            if len(found[record]) != int(sizes[record]):
                raise CorruptError(
                    f"{self._folder / path} was cut or changed: it lacks record {record}"
                )
        return [found[record] for record in records]


class RangedShards:
    """The rows of a packed dataset in a store, as a loader reads them."""

    def __init__(self, folder: Path, manifest: PackedManifest, least: int, verify: Verify) -> None:
        check_uncompressed(folder, manifest)
        if verify == "open":
            check_local(folder)
        self._folder, self._least, self._shards = folder, least, manifest.shards
        self._records = RangedRecords(folder, manifest.shards)
        self._starts = offsets_of([shard.num_records for shard in manifest.shards])
        # Not a method: a cycle would keep what is dropped.
        records, shards = self._records, manifest.shards
        self._sizes = lru_cache(maxsize=_KEPT)(lambda i: _sizes(records, shards[i], i, least))

    def fetch(self, rows: Offsets) -> RowBytes:
        payloads: list[bytes] = [b""] * len(rows)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            wanted = (rows[places] - self._starts[number]).tolist()
            found = self._records.read(number, self._sizes(number), wanted)
            for place, payload in zip(places.tolist(), found, strict=True):
                payloads[place] = payload
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        memory = np.frombuffer(b"".join(payloads), np.uint8)
        return RowBytes(memory=memory, first=offsets_of(sizes)[:-1], size=sizes, in_blocks=False)

    def check(self) -> None:
        """Do nothing: what was read is in memory."""

    def prove_all(self) -> None:
        check_local(self._folder)

    def will_need(self, rows: Offsets, part: tuple[Offsets, Offsets] | None = None) -> None:
        """Do nothing: a row is asked for when it is read."""


def check_local(folder: Path) -> None:
    """Raise a ConfigError where all bytes would have to be fetched to be proven."""
    if is_remote(folder):
        raise ConfigError(
            f"verify='open' would read all of {folder}: leave it out (a loader proves each shard "
            "when it comes), or verify a copy on a local disk"
        )


def check_uncompressed(folder: Path, manifest: PackedManifest) -> None:
    if manifest.compression != "none":
        raise ConfigError(
            f"the rows of {folder} are compressed, so that they cannot be found from afar; copy it "
            "to a local disk, or pack it without compression"
        )


def _sizes(records: RangedRecords, shard: RowShard, number: int, least: int) -> Offsets:
    path, data = records.index(number)
    sizes: NDArray[np.uint32] = array_in(path, data, U32, shard.num_records)
    if len(sizes) and int(sizes.min()) < least:
        raise CorruptError(f"{path} lists a row of {sizes.min()} bytes, the least is {least}")
    return sizes.astype(np.int64)


def _record_of(data: bytes, size: int) -> bytes:
    """Return the record of what is read from the bytes ahead of it on; nothing if it is none."""
    ahead = 2 + int(varint_bytes(np.array([size]))[0])
    if len(data) < ahead or data[0] or read_varint(data, 2) != (size, ahead):
        return b""
    return data[ahead:]


def _without_headers(data: bytes, start: int) -> bytes:
    """Return bytes of a file, from `start` on, without the block headers among them."""
    room = BLOCK_BYTES - start % BLOCK_BYTES
    parts = [data[:room]]
    for place in range(room, len(data), BLOCK_BYTES):
        parts.append(data[place + BLOCK_HEADER_BYTES : place + BLOCK_BYTES])
    return b"".join(parts)
