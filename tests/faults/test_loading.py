"""Rows 16, 17, 47 to 50: a loader whose shards vanish, whose hosts change, whose thread fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError
from support.elastic import BATCH, batch_on, open_loader, resume_all
from support.leaks import leaks_of
from support.packed import Packed, write_packed


@pytest.fixture
def packed(tmp_path: Path) -> Packed:
    return write_packed(tmp_path / "packed", num_rows=300, rows_per_shard=50)


def test_16_a_deleted_shard_is_still_read_and_named_when_it_is_opened_again(
    packed: Packed,
) -> None:
    with DataLoader(packed.folder, batch_size=8, prefetch=0) as loader:
        before = loader[0]
        shard = next((packed.folder / "shards").glob("*.arrayrecord"))
        shard.unlink()
        np.testing.assert_array_equal(loader[0]["inputs"], before["inputs"])
    with pytest.raises(CorruptError, match=shard.name):
        DataLoader(packed.folder, batch_size=8)


# Reads every batch again and again while a shard is cut short under it.
CUT = """
import os, sys
from pathlib import Path
from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import CorruptError
folder, size = Path(sys.argv[1]), int(sys.argv[2])
loader = DataLoader(folder, batch_size=50, shuffle=False, prefetch=0, epochs=1)
whole = [loader[step]["inputs"].tobytes() for step in range(len(loader))]
shard = sorted((folder / "shards").glob("*.arrayrecord"))[2]
os.truncate(shard, size)
print("cut", flush=True)
for step in range(len(loader)):
    try:
        if loader[step]["inputs"].tobytes() != whole[step]:
            sys.exit(f"other bytes at step {step}")
    except CorruptError as error:
        print("raised", shard.name in str(error), flush=True)
"""


@pytest.mark.parametrize("size", [0, 4096, 9000])
def test_17_a_shard_cut_short_under_the_loader_raises(tmp_path: Path, size: int) -> None:
    # Large enough rows that what is cut off is on pages of its own.
    packed = write_packed(tmp_path / "packed", num_rows=300, seq_len=512, rows_per_shard=50)
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(packed.folder), str(size)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "cut" in done.stdout
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-500:]}"
    assert "raised True" in done.stdout
    assert "raised False" not in done.stdout


@pytest.mark.parametrize("hosts", range(1, 9))
def test_47_the_hosts_together_read_every_row_once(tmp_path: Path, hosts: int) -> None:
    size = hosts * 6
    packed = write_packed(tmp_path / "packed", num_rows=size * 5)
    loader = DataLoader(packed.folder, batch_size=size, epochs=1, prefetch=0)
    rows = [row for step in range(len(loader)) for row in batch_on(loader, step, hosts)]
    assert len(rows) == size * 5
    assert len(set(rows)) == size * 5  # disjoint
    own = packed.tokens[:, :-1].astype(np.int32)
    assert set(rows) == {row.tobytes() for row in own}


def test_48_any_number_of_hosts_goes_on_where_any_other_stopped(tmp_path: Path) -> None:
    write_packed(tmp_path / "packed", num_rows=BATCH * 3 + 5)
    tried, wrong = resume_all(tmp_path / "packed", (1, 2, 4))
    assert wrong == []
    assert tried >= 9 * 5


@pytest.mark.slow
def test_48_eight_hosts_go_on_where_any_other_stopped(tmp_path: Path) -> None:
    write_packed(tmp_path / "packed", num_rows=BATCH * 4 + 5)
    _, wrong = resume_all(tmp_path / "packed", (1, 2, 3, 4, 6, 8))
    assert wrong == []


def test_48_a_batch_that_does_not_divide_is_a_clear_error(packed: Packed) -> None:
    loader = open_loader(packed.folder)
    with pytest.raises(ConfigError, match="parts must be equal"):
        loader.part(0, 0, 7)


def test_49_the_state_of_another_dataset_is_refused(packed: Packed, tmp_path: Path) -> None:
    other = write_packed(tmp_path / "other", num_rows=300, seed=1, rows_per_shard=50)
    state = open_loader(other.folder).get_state()
    loader = open_loader(packed.folder)
    with pytest.raises(ConflictError, match="datasets"):
        loader.set_state(state)
    loader.set_state(open_loader(packed.folder).get_state())  # the control


@pytest.mark.timeout(60)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_50_what_fails_while_reading_ahead_raises_and_does_not_hang(
    packed: Packed, prefetch: int
) -> None:
    def view(rows: object) -> dict[str, object]:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        next(DataLoader(packed.folder, batch_size=8, prefetch=prefetch, view=view))


def test_leaks_opening_reading_and_closing_leaves_nothing_behind(packed: Packed) -> None:
    def use() -> None:
        with DataLoader(packed.folder, batch_size=8, prefetch=2, epochs=1) as loader:
            for _ in range(3):
                next(loader)
        len(open_dataset(packed.folder))

    assert leaks_of(use, 10) == {"threads": 0, "descriptors": 0, "shared memory": 0}


def test_leaks_the_control_finds_what_is_left_open(tmp_path: Path) -> None:
    held: list[int] = []

    def leak() -> None:
        held.append(os.open(tmp_path, os.O_RDONLY))

    assert leaks_of(leak, 5)["descriptors"] == 5
    for descriptor in held:
        os.close(descriptor)
