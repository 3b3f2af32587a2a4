"""Byte ranges out of memory-mapped ArrayRecord files, past the official reader.

An uncompressed file of group size 1 is riegeli: 64 KiB blocks that begin with a 24-byte header,
and in what is left of them, one after another, a signature of 40 bytes and a chunk a record:

    chunk   40 bytes header | 0 | sizes' length | the record's size as varint | the record

Counting only bytes that are not block headers ("logical"), the place of a record follows from the
sizes of those before it; a logical byte L stands at 65536 · (L // 65512) + 24 + L % 65512.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.types import Offsets

BLOCK_BYTES = 1 << 16
BLOCK_HEADER_BYTES = 24
PAYLOAD_BYTES = BLOCK_BYTES - BLOCK_HEADER_BYTES
SIGNATURE_BYTES = 40
CHUNK_HEADER_BYTES = 40


def record_places(sizes: NDArray[Any]) -> Offsets:
    """Logical place of every record's first byte, given the records' sizes."""
    sizes = np.asarray(sizes, np.int64)
    ahead = CHUNK_HEADER_BYTES + 2 + varint_bytes(sizes)
    places: Offsets = SIGNATURE_BYTES + np.cumsum(ahead + sizes) - sizes
    return places


def varint_bytes(values: Offsets) -> Offsets:
    """Bytes that each value takes as a varint: [0, 127, 128, 20000] -> [1, 1, 2, 3]."""
    count = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        count += values >= 1 << bits
    return count


def physical(places: Offsets) -> Offsets:
    """Where logical bytes stand in the file."""
    return places // PAYLOAD_BYTES * BLOCK_BYTES + BLOCK_HEADER_BYTES + places % PAYLOAD_BYTES


class MappedShard:
    """One shard, open for copying byte ranges of its records."""

    def __init__(self, path: Path, num_bytes: int, record_bytes: NDArray[Any]) -> None:
        try:
            actual = path.stat().st_size
        except FileNotFoundError:
            raise CorruptError(f"{path} is missing; make the dataset again") from None
        if actual != num_bytes:
            raise CorruptError(f"{path} has {actual} bytes, the manifest says {num_bytes}")
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._view = memoryview(self._map)
        self.places = record_places(record_bytes)
        last = int(self.places[-1] + record_bytes[-1]) if len(self.places) else 0
        self._end = last
        if last and int(physical(np.array([last - 1]))[0]) >= num_bytes:
            raise CorruptError(f"{path} is too short for the records that the manifest lists")

    def copy_ranges(
        self, places: Offsets, lengths: Offsets, target: NDArray[Any], targets: Offsets
    ) -> None:
        """Copy logical ranges [place, place + length) to byte offsets of the array `target`.

        A Python loop over ranges, cut at block headers: a copy takes about as long as its loop
        turn at some kilobytes, so many short ranges cost, and few long ones do not.
        """
        if not len(places):
            return
        assert int((places + lengths).max()) <= self._end, "a range is outside the records"
        first = places // PAYLOAD_BYTES
        spans = (places + np.maximum(lengths, 1) - 1) // PAYLOAD_BYTES - first + 1
        if int(spans.max()) > 1:
            places, lengths, targets = _cut_at_blocks(places, lengths, targets, first, spans)
        view, into = self._view, memoryview(target.view(np.uint8).data).cast("B")
        starts = physical(places)
        for start, stop, to, to_stop in zip(
            starts.tolist(),
            (starts + lengths).tolist(),
            targets.tolist(),
            (targets + lengths).tolist(),
            strict=True,
        ):
            into[to:to_stop] = view[start:stop]

    def close(self) -> None:
        self._view.release()
        self._map.close()


def _cut_at_blocks(
    places: Offsets, lengths: Offsets, targets: Offsets, first: Offsets, spans: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """The same ranges, none of which crosses a block header."""
    owner = np.repeat(np.arange(len(places)), spans)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(spans) - spans, spans)
    block = first[owner] + number
    start = np.maximum(places[owner], block * PAYLOAD_BYTES)
    stop = np.minimum(places[owner] + lengths[owner], (block + 1) * PAYLOAD_BYTES)
    return start, stop - start, targets[owner] + start - places[owner]
