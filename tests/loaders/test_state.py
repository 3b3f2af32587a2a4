"""A state is what was handed out: any loader of the same data goes on from it exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import DataLoader
from dataprep.pipeline.errors import ConfigError, ConflictError
from support.packed import Packed, write_packed

BATCH = 12  # a multiple of every number of hosts


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return write_packed(tmp_path_factory.mktemp("state") / "d", num_rows=100, seq_len=8)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    folder = tmp_path_factory.mktemp("state") / "o"
    return write_packed(folder, num_rows=60, seq_len=8, seed=1)


def loader_of(data: Any, **options: Any) -> DataLoader:
    return DataLoader(data, **{"batch_size": BATCH, "epochs": 2, "seed": 4, **options})


def tokens(loader: DataLoader) -> list[list[list[int]]]:
    with loader:
        return [batch["inputs"].tolist() for batch in loader]


def test_every_step_can_be_gone_on_from_with_any_reading_ahead(packed: Packed) -> None:
    whole = tokens(loader_of(packed.folder))
    with loader_of(packed.folder, prefetch=3) as loader:
        states = [loader.get_state()]
        for _ in loader:
            states.append(loader.get_state())
    assert [state["step"] for state in states] == list(range(len(whole) + 1))
    for step, state in enumerate(states):
        for depth in (0, 2):
            again = loader_of(packed.folder, prefetch=depth)
            again.set_state(json.loads(json.dumps(state)))
            assert tokens(again) == whole[step:]


@pytest.mark.parametrize("hosts", [1, 2, 3, 4])
@pytest.mark.parametrize("later", [1, 2, 3, 4])
def test_hosts_may_come_and_go_at_every_step(packed: Packed, hosts: int, later: int) -> None:
    """Each host reads its part of the batch; together they have the whole, before and after."""
    whole = tokens(loader_of(packed.folder))

    def read(loaders: list[DataLoader], step: int) -> list[list[int]]:
        parts = [one.part(step, i, len(loaders))["inputs"] for i, one in enumerate(loaders)]
        found: list[list[int]] = np.concatenate(parts).tolist()
        return found

    before = [loader_of(packed.folder, prefetch=0) for _ in range(hosts)]
    after = [loader_of(packed.folder, prefetch=0) for _ in range(later)]
    for step in range(len(whole)):
        assert read(before, step) == whole[step]
        state = before[-1].get_state()
        assert state["step"] == step
        for loader in after:
            loader.set_state(state)
        rest = [read(after, s) for s in range(after[0].get_state()["step"], len(whole))]
        assert rest == whole[step:]
        for loader in before:
            next(loader)


def test_a_state_is_small_and_says_what_it_belongs_to(packed: Packed) -> None:
    loader = loader_of(packed.folder, prefetch=0)
    next(loader)
    state = loader.get_state()
    assert state == {
        "version": 4,
        "step": 1,
        "seed": 4,
        "shuffle": True,
        "batch_size": {"0": BATCH},
        "datasets": {"": {"0": [0, loader.datasets[""].fingerprint]}},
        "phases": [[0, [1]]],
        "epoch_rows": None,
        "rows": 200,
        "epochs": 2,
        "exhausted": "stop",
    }
    assert len(json.dumps(state)) < 300


def test_batches_read_ahead_do_not_count(packed: Packed) -> None:
    with loader_of(packed.folder, prefetch=5) as loader:
        next(loader)
        next(loader)
        assert loader.get_state()["step"] == 2


def test_setting_a_state_forgets_what_was_read_ahead(packed: Packed) -> None:
    with loader_of(packed.folder, prefetch=5) as loader:
        whole = [next(loader)["inputs"].tolist() for _ in range(6)]
        start = loader_of(packed.folder).get_state()
        loader.set_state(start)
        assert [next(loader)["inputs"].tolist() for _ in range(6)] == whole


def test_a_state_passes_through_handlers_of_bytes(packed: Packed) -> None:
    """As grain's and MaxText's do: `get_state().decode()` to a file, `set_state(bytes)` from it."""
    loader = loader_of(packed.folder, prefetch=0)
    for _ in range(3):
        next(loader)
    text = loader.get_state().decode()
    again = loader_of(packed.folder, prefetch=0)
    again.set_state(text.encode())
    assert again.get_state() == loader.get_state()
    assert np.array_equal(next(again)["targets"], next(loader)["targets"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "seed 4, this loader has 5"),
        ({"shuffle": False}, "shuffle True"),
        ({"batch_size": 10}, r"batch_size=\{0: \d+, 2: 10\}"),
    ],
)
def test_a_state_of_another_order_is_an_error(
    packed: Packed, change: dict[str, Any], message: str
) -> None:
    loader = loader_of(packed.folder, prefetch=0)
    next(loader)
    next(loader)
    with pytest.raises(ConflictError, match=message) as error:
        loader_of(packed.folder, **change).set_state(loader.get_state())
    assert error.value.exit_code == 4


def test_a_state_of_another_dataset_is_an_error(packed: Packed, other: Packed) -> None:
    state = loader_of(packed.folder).get_state()
    with pytest.raises(ConflictError, match="datasets"):
        loader_of(other.folder).set_state(state)
    with pytest.raises(ConflictError, match="datasets"):
        loader_of({"a": (packed.folder, 1)}).set_state(state)


@pytest.mark.parametrize(
    "state",
    [{}, b"{", "[]", "7", {"version": 4}, {"version": 4, "step": -1}, {"version": 2, "step": 0}],
)
def test_what_is_no_state_is_an_error(packed: Packed, state: Any) -> None:
    with pytest.raises(ConflictError, match="state"):
        loader_of(packed.folder).set_state(state)


def test_batch_sizes_may_change_at_the_step_of_a_state(packed: Packed) -> None:
    loader = loader_of(packed.folder, prefetch=0)
    for _ in range(3):
        next(loader)
    grown = loader_of(packed.folder, batch_size={0: BATCH, 3: 20}, prefetch=0)
    grown.set_state(loader.get_state())
    rows = [row for step in range(3) for row in loader.rows_of(step)]
    assert next(grown)["inputs"].shape == (20, 8)
    more = [row for step in range(3, 5) for row in grown.rows_of(step)]
    assert len({*rows, *more}) == 3 * BATCH + 40  # none twice within the epoch


def test_weights_may_change_at_the_step_of_a_state(packed: Packed, other: Packed) -> None:
    def mixed(weight: Any) -> DataLoader:
        data = {"a": (packed.folder, weight), "b": (other.folder, 1)}
        return loader_of(data, epochs=None, prefetch=0)

    loader = mixed(3)
    for _ in range(4):
        next(loader)
    changed = mixed({0: 3, 4: 1})
    changed.set_state(loader.get_state())
    assert [changed.rows_of(s) for s in range(4)] == [loader.rows_of(s) for s in range(4)]
    assert [name for name, _ in changed.rows_of(4)].count("a") == BATCH // 2
    seen = [row for s in range(6) for row in changed.rows_of(s)]
    assert len(set(seen)) == len(seen)
    with pytest.raises(ConflictError, match=r"phases .*\{0: share before, 4: share now\}"):
        mixed(1).set_state(loader.get_state())


def test_a_loader_restored_at_its_end_gives_nothing_more(packed: Packed) -> None:
    loader = loader_of(packed.folder)
    assert len(tokens(loader)) == 16
    again = loader_of(packed.folder)
    again.set_state(loader.get_state())
    assert tokens(again) == []


def test_epochs_may_change_unless_the_last_batch_was_padded(packed: Packed) -> None:
    loader = loader_of(packed.folder, epochs=1, remainder="pad", prefetch=0)
    states = [loader.state_at(step) for step in range(10)]
    assert len(loader) == 9  # 8 batches of 12 rows, one of 4
    for epochs in (2, None):
        longer = loader_of(packed.folder, epochs=epochs, prefetch=0)
        longer.set_state(states[-2])
        assert len(longer.rows_of(8)) == BATCH
        with pytest.raises(ConflictError, match=r"epochs 1, this .* the last batch .* was padded"):
            longer.set_state(states[-1])
    with pytest.raises(ConflictError, match="rows '100'"):
        loader.set_state({**states[-1], "rows": "100"})
    loader.set_state(states[-1])
    assert tokens(loader) == []


def test_a_folder_may_move_under_a_state(packed: Packed, tmp_path: Path) -> None:
    loader = loader_of(packed.folder, prefetch=0)
    next(loader)
    (tmp_path / "link").symlink_to(packed.folder)
    again = loader_of(tmp_path / "link", prefetch=0)
    again.set_state(loader.get_state())
    assert np.array_equal(next(again)["inputs"], next(loader)["inputs"])


def test_a_state_is_json_whatever_kind_of_ints_were_given(packed: Packed) -> None:
    with loader_of(packed.folder, batch_size=np.int64(2), seed=np.int64(3)) as loader:
        next(iter(loader))
        assert json.loads(json.dumps(loader.get_state())) == loader.get_state()


@pytest.mark.parametrize("wrong", [{"batch_size": 2.5}, {"seed": None}, {"epochs": "1"}])
def test_what_is_no_whole_number_is_named(packed: Packed, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be a whole number"):
        loader_of(packed.folder, **wrong)


def test_a_state_that_differs_in_exhausted_or_epochs_names_that_and_both_values(
    packed: Packed, other: Packed
) -> None:
    def mixed(exhausted: str, *, epochs: int = 1, weight: int = 1) -> DataLoader:
        data = {"a": (packed.folder, weight), "b": (other.folder, 1)}
        return loader_of(data, epochs=epochs, exhausted=exhausted, prefetch=0)

    dropped = mixed("drop")
    early, late = dropped.state_at(4), dropped.state_at(12)  # b has 60 rows: used up at step 10
    mixed("repeat").set_state(early)
    with pytest.raises(
        ConflictError, match=r"with exhausted 'drop', this loader has 'repeat'; .* set exhausted"
    ):
        mixed("repeat").set_state(late)
    with pytest.raises(ConflictError, match=r"with epochs 1, this loader has 2; .* set the epochs"):
        mixed("drop", epochs=2).set_state(late)
    with pytest.raises(ConflictError, match=r"with phases .*; weights may change"):
        mixed("repeat", weight=2).set_state(early)
