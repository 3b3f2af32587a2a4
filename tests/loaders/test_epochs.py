"""`max_steps_per_epoch`: epochs that are cut short, each in an order of its own over all rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.loaders import DataLoader
from dataprep.loaders.order import shuffle
from dataprep.loaders.replay import replay_of
from dataprep.pipeline.errors import ConfigError, ConflictError
from support.packed import Packed, write_packed

ROWS = 50


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("epochs") / "d", num_rows=ROWS, seq_len=8)


def loader_of(data: Any, **options: Any) -> DataLoader:
    return DataLoader(data, **{"batch_size": 4, "seed": 3, "prefetch": 0, **options})


def rows_of(loader: DataLoader, steps: int) -> list[int]:
    return [row for step in range(steps) for _, row in loader.rows_of(step)]


@given(
    per_epoch=st.integers(1, 20),
    size=st.integers(1, 9),
    epochs=st.integers(1, 4),
    is_shuffled=st.booleans(),
)
@settings(max_examples=40)
def test_an_epoch_has_the_first_rows_of_its_own_order(
    packed: Packed, per_epoch: int, size: int, epochs: int, is_shuffled: bool
) -> None:
    loader = loader_of(
        packed.folder,
        batch_size=size,
        max_steps_per_epoch=per_epoch,
        epochs=epochs,
        shuffle=is_shuffled,
        remainder="pad",
    )
    length = min(ROWS, per_epoch * size)
    orders = np.arange(ROWS * epochs) % ROWS
    if is_shuffled:
        orders = shuffle(np.arange(ROWS * epochs), ROWS, seed=3)
    expected = orders.reshape(epochs, ROWS)[:, :length].ravel().tolist()
    assert rows_of(loader, len(loader)) == expected
    assert loader.epochs_at(len(loader)) == {"": float(epochs)}
    if per_epoch * size <= ROWS:
        assert len(loader) == epochs * per_epoch


def test_shuffled_epochs_see_other_rows_each_time(packed: Packed) -> None:
    loader = loader_of(packed.folder, max_steps_per_epoch=3, epochs=20)
    assert len(loader) == 60
    assert {*rows_of(loader, 60)} == {*range(ROWS)}


def test_a_limit_that_no_epoch_reaches_changes_nothing(packed: Packed) -> None:
    free, held = (
        loader_of(packed.folder, epochs=2, max_steps_per_epoch=n, remainder="pad")
        for n in (None, 13)
    )
    assert rows_of(free, len(free)) == rows_of(held, len(held))


def test_of_a_mixture_each_dataset_is_cut_short(packed: Packed, tmp_path: Path) -> None:
    other = write_packed(tmp_path / "o", num_rows=6, seq_len=8, seed=1)
    mix = {"a": (packed.folder, 1), "b": (other.folder, 1)}
    loader = loader_of(mix, max_steps_per_epoch=5, epochs=1, exhausted="drop", remainder="pad")
    found = [pair for step in range(len(loader)) for pair in loader.rows_of(step)]
    assert len([1 for name, _ in found if name == "a"]) == 20  # five batches of four
    assert sorted(row for name, row in found if name == "b") == list(range(6))


def test_sizes_that_change_count_as_the_last(packed: Packed) -> None:
    loader = loader_of(packed.folder, batch_size={0: 2, 3: 5}, max_steps_per_epoch=4, epochs=1)
    assert len(rows_of(loader, len(loader))) == 16  # of 20, batches of 2 2 2 5 5
    assert loader.get_state()["epoch_rows"] == 20


def test_a_state_goes_on_in_any_epoch(packed: Packed) -> None:
    options = {"max_steps_per_epoch": 3, "epochs": 4}
    whole = [batch["inputs"].tolist() for batch in loader_of(packed.folder, **options)]
    for step in range(len(whole) + 1):
        loader = loader_of(packed.folder, **options)
        loader.set_state(json.dumps(loader.state_at(step)))
        assert [batch["inputs"].tolist() for batch in loader] == whole[step:]


def test_a_state_of_other_epochs_is_an_error_once_it_matters(packed: Packed) -> None:
    cut = loader_of(packed.folder, max_steps_per_epoch=3)
    free = loader_of(packed.folder)
    free.set_state(cut.state_at(3))  # so far both had the same batches
    assert free.get_state()["step"] == 3
    with pytest.raises(ConflictError, match="set max_steps_per_epoch"):
        free.set_state(cut.state_at(4))
    with pytest.raises(ConflictError, match="epoch_rows None"):
        cut.set_state(free.state_at(4))


def test_rows_of_a_step_are_known_by_a_state(packed: Packed) -> None:
    loader = loader_of(packed.folder, max_steps_per_epoch=3, epochs=4)
    replay = replay_of(loader.state_at(9))
    for step in range(9):
        assert replay.rows_of(step, {"": (ROWS,)}) == loader.rows_of(step)


@pytest.mark.parametrize("steps", [0, -1, 1.5, "3", True])
def test_a_limit_that_is_none_is_an_error(packed: Packed, steps: Any) -> None:
    with pytest.raises(ConfigError, match="max_steps_per_epoch"):
        loader_of(packed.folder, max_steps_per_epoch=steps)
