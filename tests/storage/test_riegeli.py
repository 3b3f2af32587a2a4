"""Mapped ranges equal what the official reader gives, wherever block headers fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from array_record.python import array_record_module
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataprep.pipeline.storage.arrayrecord import MAPPABLE
from dataprep.pipeline.storage.riegeli import MappedShard, varint_bytes


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
)
def test_ranges_equal_the_official_readers_bytes(
    tmp_path: Path, sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    records = [rng.bytes(size) for size in sizes]
    path = tmp_path / "x.arrayrecord"
    writer = array_record_module.ArrayRecordWriter(str(path), MAPPABLE)
    for record in records:
        writer.write(record)
    writer.close()
    shard = MappedShard(path, path.stat().st_size, np.array(sizes))
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
