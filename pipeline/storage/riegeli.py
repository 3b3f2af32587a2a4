"""Where the bytes of an uncompressed ArrayRecord file lie, in closed form, and copies of them.

ArrayRecord stores riegeli: blocks of 64 KiB that begin with a header of 24 bytes. What is left of
the blocks holds, one after another, a signature of 40 bytes, a chunk for each record (the group
size is 1), the footer, and in a last block of its own the postscript:

    file      ┊▒▒ signature │ chunk │ chunk │ chu┊▒▒nk │ chunk │ footer … ┊▒▒ postscript …┊
    chunk     40 bytes header │ 0 │ sizes' length │ the record's size as varint │ the record
    postscript  40 bytes header │ 0 │ 3 │ three sizes │ 08 where the footer starts │ 10 magic

A logical place counts only the bytes that are not block headers (▒), so that the place of a record
follows from the sizes of the records before it. A physical place is an offset in the file:

    logical      0      83 = 40 + 43   65511   65512      83: the first byte of the first record
    physical    24     107             65535   65560      logical + 24 · (1 + logical // 65512)

All of this arithmetic is in this file. `arrayrecord` writes the files, `documents` and `rows` say
what is in a record, and the loaders map all shards of a dataset at once.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import numbers_within, owner_of
from dataprep.pipeline.types import Offsets

BLOCK_BYTES = 1 << 16
BLOCK_HEADER_BYTES = 24
PAYLOAD_BYTES = BLOCK_BYTES - BLOCK_HEADER_BYTES
_SIGNATURE_BYTES = 40
_CHUNK_HEADER_BYTES = 40
_BLOCKS_AT_ONCE = 8  # what was read is still near when it is hashed
_POSTSCRIPT_BYTES = 128  # enough of the last block to find where the footer starts
_MAGIC = 0x71930E704FDAE05E


# --- records ---


def record_places(sizes: NDArray[Any]) -> Offsets:
    """Return the logical place of each record, given the sizes of all records.

    >>> record_places(np.array([10, 10]))
    array([ 83, 136])
    """
    sizes = np.asarray(sizes, np.int64)
    ahead = _CHUNK_HEADER_BYTES + 2 + varint_bytes(sizes)
    places: Offsets = _SIGNATURE_BYTES + np.cumsum(ahead + sizes) - sizes
    return places


def physical(places: Offsets) -> Offsets:
    """Return where logical places are in the file.

    >>> physical(np.array([0, 83, 65511, 65512]))
    array([   24,   107, 65535, 65560])
    """
    return places // PAYLOAD_BYTES * BLOCK_BYTES + BLOCK_HEADER_BYTES + places % PAYLOAD_BYTES


def record_starts(sizes: NDArray[Any]) -> tuple[Offsets, int]:
    """Return where the records of these sizes start in the file, and where the footer does.

    >>> record_starts(np.array([10, 10]))
    (array([107, 160]), 170)
    """
    places = record_places(sizes)
    stop = int(places[-1] + sizes[-1]) if len(sizes) else _SIGNATURE_BYTES
    # A footer at the start of a block begins with the header of that block.
    return physical(places), stop + BLOCK_HEADER_BYTES * -(-stop // PAYLOAD_BYTES)


def locate(starts: Offsets, offset: int | Offsets) -> tuple[Offsets, Offsets]:
    """Return where byte `offset` of each record is, and how many bytes before the next header.

    `starts` is where the records start, all in physical places.

    >>> locate(np.array([107, 65530]), offset=6)
    (array([  113, 65560]), array([65423, 65512]))
    """
    headers, used = np.divmod(starts % BLOCK_BYTES + (offset - BLOCK_HEADER_BYTES), PAYLOAD_BYTES)
    return starts + BLOCK_HEADER_BYTES * headers + offset, PAYLOAD_BYTES - used


def hash_records(path: Path, sizes: NDArray[Any]) -> tuple[str, str]:
    """Return the xxh3-128 of a file and of its records, one after another, both of the same bytes:
    the file is read once."""
    sizes = np.asarray(sizes, np.int64)
    places = record_places(sizes)
    starts, lengths, _ = cut_at_blocks(places, sizes, places)
    starts = physical(starts)
    whole, records = xxhash.xxh3_128(), xxhash.xxh3_128()
    buffer = memoryview(bytearray(_BLOCKS_AT_ONCE * BLOCK_BYTES))
    first = place = 0
    with open(path, "rb") as file:
        while count := file.readinto(buffer):  # all of the buffer but at the end
            whole.update(buffer[:count])
            stop = int(np.searchsorted(starts, place + count))
            here = starts[first:stop] - place
            ends = here + lengths[first:stop]
            for start, end in zip(here.tolist(), ends.tolist(), strict=True):
                records.update(buffer[start:end])
            first, place = stop, place + count
    return whole.hexdigest(), records.hexdigest()


def stretches_after(stop: int, num_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (physical place, size) of the next `num_bytes` bytes after a block that ends at `stop`.

    >>> list(stretches_after(65536, 70000))
    [(65560, 65512), (131096, 4488)]
    """
    while num_bytes > 0:
        size = min(num_bytes, PAYLOAD_BYTES)
        yield stop + BLOCK_HEADER_BYTES, size
        stop, num_bytes = stop + BLOCK_BYTES, num_bytes - size


# --- the postscript ---


def footer_start(path: Path, num_bytes: int) -> int:
    """Return where the footer starts by the file's own postscript; -1 if it has no postscript."""
    with open(path, "rb", buffering=0) as file:
        start = max(0, num_bytes - BLOCK_BYTES)
        found = _parse_postscript(os.pread(file.fileno(), _POSTSCRIPT_BYTES, start))
    return -1 if num_bytes % BLOCK_BYTES else found


def check_footer(path: Path, num_bytes: int, expected: int) -> None:
    """Raise a CorruptError if the footer of a shard is not where the sizes of its records say."""
    try:
        found = footer_start(path, num_bytes)
    except OSError as error:
        raise CorruptError(f"{path} cannot be opened: {error.strerror}") from None
    if found != expected:
        raise CorruptError(
            f"{path} is damaged or of another dataset: its records end at byte {found}, "
            f"its index says {expected}"
        )


def _parse_postscript(block: bytes) -> int:
    """Return where the footer starts by the last block of a file; -1 if that is no postscript."""
    place = BLOCK_HEADER_BYTES + _CHUNK_HEADER_BYTES
    # No compression, three sizes of a byte each, then {1: footer, 2: magic} as a protocol buffer.
    if len(block) < _POSTSCRIPT_BYTES or block[place : place + 2] != b"\x00\x03":
        return -1
    tag, place = block[place + 5], place + 6
    footer, place = read_varint(block, place)
    magic_tag, (magic, _) = block[place], read_varint(block, place + 1)
    return footer if (tag, magic_tag, magic) == (0x08, 0x10, _MAGIC) else -1


# --- varints: seven bits a byte, lowest first; the top bit says that more bytes follow ---


def varint_bytes(values: Offsets) -> Offsets:
    """Return how many bytes each value takes as a varint.

    >>> varint_bytes(np.array([0, 127, 128, 20000]))
    array([1, 1, 2, 3])
    """
    count = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        count += values >= 1 << bits
    return count


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    r"""Return the number that starts at `place`, and the place after it.

    >>> read_varint(b"\x07\xac\x02", 1)
    (300, 3)
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, place


# --- copies ---


class ShardBytes:
    """One shard, open for copying byte ranges of its records.

    Mapped, a short range takes a third of the time; but if the file is cut short meanwhile, the
    system ends the process. Not mapped, that is a CorruptError.
    """

    def __init__(
        self, path: Path, num_bytes: int, record_bytes: NDArray[Any], *, maps: bool
    ) -> None:
        self._path = path
        self.places = record_places(record_bytes)
        self._end = int(self.places[-1] + record_bytes[-1]) if len(self.places) else 0
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise CorruptError(f"{path} is missing; make the dataset again") from None
        self._close = weakref.finalize(self, os.close, self._descriptor)
        actual = os.fstat(self._descriptor).st_size
        if actual != num_bytes:
            raise CorruptError(f"{path} has {actual} bytes, the manifest says {num_bytes}")
        if self._end and int(physical(np.array([self._end - 1]))[0]) >= num_bytes:
            raise CorruptError(f"{path} is too short for the records that the manifest lists")
        self._map = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ) if maps else None

    def copy_ranges(
        self, places: Offsets, lengths: Offsets, target: NDArray[Any], targets: Offsets
    ) -> None:
        """Copy bytes [place, place + length) of the file to byte offsets `targets` of an array.

        This is a Python loop over ranges, cut at block headers. A copy of some kilobytes takes
        about as long as its turn of the loop, so many short ranges are slow, few long ones fast.
        Places are logical.
        """
        if not len(places):
            return
        assert int((places + lengths).max()) <= self._end, "a range is outside the records"
        places, lengths, targets = cut_at_blocks(places, lengths, targets)
        starts = physical(places)
        ranges = zip(
            starts.tolist(),
            (starts + lengths).tolist(),
            targets.tolist(),
            (targets + lengths).tolist(),
            strict=True,
        )
        into = memoryview(target.view(np.uint8).data).cast("B")
        if self._map is None:
            self._read(ranges, into)
            return
        with memoryview(self._map) as view:
            for start, stop, to, to_stop in ranges:
                into[to:to_stop] = view[start:stop]

    def _read(self, ranges: Iterable[tuple[int, int, int, int]], into: memoryview) -> None:
        try:
            for start, stop, to, to_stop in ranges:
                # File systems behind a network may read less than is asked for.
                while start < stop:
                    count = os.preadv(self._descriptor, [into[to:to_stop]], start)
                    if not count:
                        raise CorruptError(
                            f"{self._path} was cut short while it was read; make the dataset again"
                        )
                    start, to = start + count, to + count
        except OSError as error:
            raise CorruptError(f"{self._path} cannot be read: {error.strerror}") from None

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
        self._close()


def cut_at_blocks(
    places: Offsets, lengths: Offsets, targets: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """Return ranges of logical bytes, and where they go, cut so that none crosses a block header.

    >>> cut_at_blocks(np.array([65500]), np.array([20]), np.array([0]))
    (array([65500, 65512]), array([12,  8]), array([ 0, 12]))
    """
    first = places // PAYLOAD_BYTES
    spans = (places + np.maximum(lengths, 1) - 1) // PAYLOAD_BYTES - first + 1  # blocks touched
    if not len(spans) or int(spans.max()) == 1:
        return places, lengths, targets
    owner = owner_of(spans)
    block = first[owner] + numbers_within(spans)
    start = np.maximum(places[owner], block * PAYLOAD_BYTES)
    stop = np.minimum(places[owner] + lengths[owner], (block + 1) * PAYLOAD_BYTES)
    return start, stop - start, targets[owner] + start - places[owner]
