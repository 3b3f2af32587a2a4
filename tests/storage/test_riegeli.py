"""Records, footers and ranges are where the official library puts them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from array_record.python import array_record_module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataprep.pipeline.storage.arrayrecord import MAPPABLE
from dataprep.pipeline.storage.riegeli import (
    BLOCK_BYTES,
    ShardBytes,
    footer_start,
    locate,
    physical,
    read_varint,
    record_places,
    record_starts,
    stretches_after,
    varint_bytes,
)

# --- where records lie ---


@given(st.lists(st.integers(1, 150_000), max_size=12))
@settings(max_examples=25, deadline=None)
def test_records_lie_where_their_sizes_say(sizes: list[int]) -> None:
    path = Path(os.environ["DATAPREP_CACHE"]) / "sizes.arrayrecord"
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    rng = np.random.default_rng(len(sizes))
    records = [rng.bytes(size) for size in sizes]
    for record in records:
        writer.write(record)
    writer.close()
    data = path.read_bytes()
    starts, footer = record_starts(np.array(sizes, np.uint32))
    assert footer_start(path, len(data)) == footer
    for start, record in zip(starts.tolist(), records, strict=True):
        found, place = b"", start
        while len(found) < len(record):
            room = BLOCK_BYTES - place % BLOCK_BYTES
            found += data[place : place + min(room, len(record) - len(found))]
            place += room + 24
        assert found == record


@pytest.mark.parametrize("size", [65512 - 40 - 40 - 45, 65512 - 40 - 45, 65512 - 45, 16383, 16384])
def test_records_that_end_at_a_block_are_placed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.arrayrecord"
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for _ in range(3):
        writer.write(b"\x07" * size)
    writer.close()
    _, footer = record_starts(np.full(3, size, np.uint32))
    assert footer_start(path, path.stat().st_size) == footer


@pytest.mark.parametrize("cut", [1, 100, BLOCK_BYTES, BLOCK_BYTES + 1])
def test_a_file_without_its_end_has_no_footer(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.arrayrecord"
    writer = array_record_module.ArrayRecordWriter(str(path), MAPPABLE)
    writer.write(b"\x07" * 100)
    writer.close()
    os.truncate(path, path.stat().st_size - cut)
    assert footer_start(path, path.stat().st_size) == -1


@given(
    sizes=st.lists(st.integers(1, 150_000), min_size=1, max_size=6),
    at=st.integers(0, 149_999),
    length=st.integers(1, 200_000),
)
@settings(deadline=None)
def test_bytes_of_records_are_where_the_logical_places_say(
    sizes: list[int], at: int, length: int
) -> None:
    """The three ways to say where bytes are, `physical`, `locate` and `stretches_after`, agree."""
    array = np.array(sizes, np.int64)
    starts, _ = record_starts(array)
    places, rooms = locate(starts, at)
    assert places.tolist() == physical(record_places(array) + at).tolist()
    logical = record_places(array).tolist()
    for start, place, room in zip(logical, places.tolist(), rooms.tolist(), strict=True):
        found = [(place, min(room, length)), *stretches_after(place + room, length - room)]
        every = np.concatenate([np.arange(first, first + size) for first, size in found])
        assert np.array_equal(every, physical(start + at + np.arange(length)))


# --- copies of ranges ---


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(
        st.one_of(st.integers(1, 300), st.integers(16000, 17000), st.integers(65000, 200000)),
        min_size=1,
        max_size=40,
    ),
    seed=st.integers(0, 1000),
    maps=st.booleans(),
)
def test_ranges_equal_the_official_readers_bytes(
    tmp_path: Path, sizes: list[int], seed: int, maps: bool
) -> None:
    rng = np.random.default_rng(seed)
    records = [rng.bytes(size) for size in sizes]
    path = tmp_path / "x.arrayrecord"
    writer = array_record_module.ArrayRecordWriter(str(path), MAPPABLE)
    for record in records:
        writer.write(record)
    writer.close()
    shard = ShardBytes(path, path.stat().st_size, np.array(sizes), maps=maps)
    which = rng.integers(0, len(records), 50)
    starts = np.array([rng.integers(0, sizes[i]) for i in which])
    lengths = np.array(
        [rng.integers(0, sizes[i] - s + 1) for i, s in zip(which, starts, strict=True)]
    )
    targets = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    buffer = np.empty(int(lengths.sum()), np.uint8)
    shard.copy_ranges(shard.places[which] + starts, lengths, buffer, targets)
    shard.close()
    expected = b"".join(
        records[i][s : s + n] for i, s, n in zip(which, starts, lengths, strict=True)
    )
    assert buffer.tobytes() == expected


def test_varints_take_a_byte_for_seven_bits() -> None:
    values = np.array([0, 127, 128, 16383, 16384, 2**21])
    assert varint_bytes(values).tolist() == [1, 1, 2, 2, 3, 4]


def test_varints_are_read_as_protocol_buffers_write_them() -> None:
    assert read_varint(b"\x00\xff", 0) == (0, 1)
    assert read_varint(b"\xac\x02", 0) == (300, 2)
    assert read_varint(bytes([0xFF] * 9 + [0x01]), 0) == (2**64 - 1, 10)
