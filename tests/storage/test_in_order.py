"""A shard is read once, from its first byte to its last, and hashed meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from array_record.python import array_record_module
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.storage.arrayrecord import MAPPABLE
from dataprep.pipeline.storage.entries import FileEntry
from dataprep.pipeline.storage.in_order import BYTES_AT_ONCE, records_in_order

SIZES = st.lists(
    st.integers(1, 300) | st.integers(65_400, 65_600) | st.integers(1, BYTES_AT_ONCE + 9),
    max_size=12,
)


def _shard(folder: Path, sizes: list[int]) -> tuple[FileEntry, list[bytes]]:
    rng = np.random.default_rng(sum(sizes))
    records = [rng.bytes(size) for size in sizes]
    path = folder / "a.arrayrecord"
    writer = array_record_module.ArrayRecordWriter(str(path), MAPPABLE)
    for record in records:
        writer.write(record)
    writer.close()
    entry = FileEntry(path=path.name, num_bytes=path.stat().st_size, xxh3_128=hash_file(path))
    return entry, records


@given(SIZES, st.booleans())
@settings(max_examples=25, deadline=None)
def test_records_are_those_that_were_written(sizes: list[int], apart: bool) -> None:
    folder = Path(os.environ["DATAPREP_CACHE"])
    entry, records = _shard(folder, sizes)
    found: list[bytes] = []
    with records_in_order(folder, entry, np.array(sizes, np.int64), apart=apart) as stretches:
        for stretch in stretches:
            assert stretch.first == len(found)
            assert not (apart and (stretch.starts % 8).any())
            found += [bytes(stretch.record(i)) for i in range(len(stretch.sizes))]
    assert found == records


def test_damage_anywhere_is_what_is_told_whatever_else_goes_wrong(tmp_path: Path) -> None:
    sizes = [70_000, 10, 3000]
    entry, _ = _shard(tmp_path, sizes)
    whole = (tmp_path / entry.path).read_bytes()
    for place in (0, 30, 100, 65_540, 70_200, len(whole) - 1000, len(whole) - 65_536 + 70):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (tmp_path / entry.path).write_bytes(damaged)
        for read in (_read, _read_and_fail):
            with pytest.raises(CorruptError, match="damaged: its xxh3-128"):
                read(tmp_path, entry, sizes)


def _read(folder: Path, entry: FileEntry, sizes: list[int]) -> None:
    with records_in_order(folder, entry, np.array(sizes), apart=True) as stretches:
        list(stretches)


def _read_and_fail(folder: Path, entry: FileEntry, sizes: list[int]) -> None:
    with records_in_order(folder, entry, np.array(sizes), apart=True) as stretches:
        next(stretches)
        raise ValueError("made of other bytes")


def test_less_may_be_read_than_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [70_000, 10, 3000]
    entry, records = _shard(tmp_path, sizes)
    whole, readv, asked = (tmp_path / entry.path).read_bytes(), os.readv, list[int]()

    def read_less(descriptor: int, views: list[memoryview]) -> int:
        asked.append(sum(map(len, views)))
        return readv(descriptor, [views[0][:7000]])

    monkeypatch.setattr(os, "readv", read_less)
    with records_in_order(tmp_path, entry, np.array(sizes), apart=True) as stretches:
        found = [bytes(each.record(i)) for each in stretches for i in range(len(each.sizes))]
    assert found == records
    assert max(asked) > 7000
    (tmp_path / entry.path).write_bytes(whole[:9000] + bytes(len(whole) - 9000))
    with pytest.raises(CorruptError, match="damaged: its xxh3-128"):
        _read(tmp_path, entry, sizes)


def test_other_sizes_than_those_of_the_records_are_refused(tmp_path: Path) -> None:
    entry, _ = _shard(tmp_path, [70_000, 10])
    with pytest.raises(CorruptError, match="of another dataset"):
        _read(tmp_path, entry, [70_000, 11])


def test_a_shard_that_changes_meanwhile_is_told(tmp_path: Path) -> None:
    entry, _ = _shard(tmp_path, [100, 200])

    def read() -> None:
        with records_in_order(tmp_path, entry, np.array([100, 200]), apart=False) as stretches:
            list(stretches)
            (tmp_path / entry.path).write_bytes((tmp_path / entry.path).read_bytes())

    with pytest.raises(CorruptError, match="changed while it was read"):
        read()
