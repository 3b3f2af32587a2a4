"""Loaders of datasets that have grown: any generation, and moves to a newer one at a step.

What a loader must give is known without it: the arrays of every row of every generation, and for
each generation the order in which a loader that does nothing else reads it.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataprep.loaders import DataLoader, PackedDataset, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError
from dataprep.pipeline.run.generations import publish_generation
from support.grown import copy_of_generation, grow, parts_in, replace_part
from support.packed import Packed, write_packed

SEQ_LEN = 8
Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A dataset of several generations, and the dense arrays of each."""

    folder: Path
    tokens: list[NDArray[Any]]  # by generation: [rows, seq_len + 1]


def make(folder: Path, *sizes: int, seed: int, replaced: int | None = None) -> Grown:
    """Grow by so many rows at a time; then replace a part by another of as many rows."""
    parts: list[Packed] = []

    def write(out: Path, number: int, size: int) -> None:
        made = write_packed(out, num_rows=size, seq_len=SEQ_LEN, seed=100 * seed + number)
        parts[number : number + 1] = [made]

    tokens = []
    for number, size in enumerate(sizes):
        grow(folder, lambda out, n=number, s=size: write(out, n, s))  # type: ignore[misc]
        tokens.append(np.concatenate([part.tokens for part in parts]))
    if replaced is not None:

        def rewrite(out: Path) -> None:
            rows, own = sizes[replaced], 100 * seed + 99
            parts[replaced] = write_packed(out, num_rows=rows, seq_len=SEQ_LEN, seed=own)

        replace_part(folder, replaced, 1, rewrite)
        tokens.append(np.concatenate([part.tokens for part in parts]))
    return Grown(folder=folder, tokens=tokens)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return make(tmp_path_factory.mktemp("grown") / "web", 20, 9, 30, seed=1, replaced=0)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return make(tmp_path_factory.mktemp("grown") / "code", 7, 12, seed=2)


def same(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def batches(loader: DataLoader, count: int) -> list[Batch]:
    with loader:
        return [{k: v.copy() for k, v in batch.items()} for batch in islice(loader, count)]


# --- one generation ---


@pytest.mark.parametrize("generation", [0, 1, 2, 3])
def test_a_generation_is_the_dataset_that_never_grew_beyond_it(
    web: Grown, tmp_path: Path, generation: int
) -> None:
    copy = copy_of_generation(web.folder, generation, tmp_path / "copy")
    dataset, plain = open_dataset(web.folder, generation=generation), open_dataset(copy)
    assert isinstance(dataset, PackedDataset)
    assert isinstance(plain, PackedDataset)
    assert np.array_equal(dataset[:]["tokens"], web.tokens[generation])
    assert dataset.manifest == plain.manifest == json.loads((copy / "manifest.json").read_text())
    assert repr(dataset) == repr(plain)
    assert f"generation={generation}" in repr(dataset)
    options: dict[str, Any] = {"batch_size": 4, "epochs": 2, "seed": 3}
    own = batches(DataLoader(web.folder, generation=generation, **options), 100)
    theirs = batches(DataLoader(copy, **options), 100)
    assert len(own) == len(theirs) == 2 * len(web.tokens[generation]) // 4
    assert all(map(same, own, theirs))
    by_step = batches(DataLoader(web.folder, generation={0: generation}, **options), 100)
    assert all(map(same, own, by_step))


def test_latest_is_the_newest_at_the_time_of_opening(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    make(folder, 8, seed=5)
    dataset, loader = open_dataset(folder), DataLoader(folder, batch_size=4, prefetch=0)
    before = loader[0]
    grow(folder, lambda out: write_packed(out, num_rows=6, seq_len=SEQ_LEN, seed=9))
    assert (len(dataset), dataset.manifest["generation"]) == (8, 0)
    assert same(loader[0], before)
    again = pickle.loads(pickle.dumps(dataset))
    assert (len(again), again.manifest["generation"]) == (8, 0)
    for latest in (open_dataset(folder), open_dataset(folder, generation="latest")):
        assert (len(latest), latest.manifest["generation"]) == (14, 1)
    assert DataLoader(dataset, batch_size=4).datasets[""] is dataset
    assert len(DataLoader(dataset, batch_size=4, generation="latest").datasets[""]) == 14
    assert "generation" not in repr(open_dataset(folder / "parts/00000"))


# --- moving on ---


def order_of(grown: Grown, name: str, generation: int, seed: int, *, moved: bool) -> list[int]:
    """The rows that a loader reads of a generation alone, from where it begins; `moved`: it has
    moved there from an older one."""
    schedule = {0: 0, 1: generation} if moved else generation
    with DataLoader(
        {name: (grown.folder, 1)}, batch_size=1, seed=seed, generation=schedule, prefetch=0
    ) as loader:
        first = 1 if moved else 0
        return [loader.rows_of(step)[0][1] for step in range(first, first + 150)]


schedules = st.dictionaries(st.integers(1, 14), st.integers(0, 3), max_size=3).map(
    lambda found: dict(zip([0, *sorted(found)], sorted([0, *found.values()]), strict=True))
)


def clipped(schedule: Mapping[int, int], most: int) -> dict[int, int]:
    return {step: min(generation, most) for step, generation in schedule.items()}


def at(schedule: Mapping[int, Any], step: int) -> Any:
    return schedule[max(s for s in schedule if s <= step)]


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    first=schedules,
    second=schedules,
    seed=st.integers(0, 5),
    sizes=st.sampled_from([{0: 4}, {0: 8}, {0: 2, 3: 6}, {0: 5, 6: 3}]),
    shares=st.sampled_from([(1, 1), (5, 3), (1, 4)]),
    resume=st.integers(0, 16),
    prefetch=st.sampled_from([0, 0, 2]),
    shuffle=st.booleans(),
)
def test_every_batch_follows_from_the_step(
    web: Grown,
    code: Grown,
    first: dict[int, int],
    second: dict[int, int],
    seed: int,
    sizes: dict[int, int],
    shares: tuple[int, int],
    resume: int,
    prefetch: int,
    shuffle: bool,
) -> None:
    plan = {"web": clipped(first, 3), "code": clipped(second, 1)}
    data = {"web": (web.folder, shares[0]), "code": (code.folder, shares[1])}

    def loader_of(**options: Any) -> DataLoader:
        named = {"batch_size": sizes, "seed": seed, "shuffle": shuffle, "generation": plan}
        return DataLoader(data, **{**named, **options})  # type: ignore[arg-type]

    whole = batches(loader_of(prefetch=2), 17)
    loader = loader_of(prefetch=prefetch)
    check_rows(loader, {"web": web, "code": code}, plan, seed if shuffle else None, whole)
    # By step, in any order; and after a state that went through JSON.
    for step in (resume, 16, 0):
        assert same(loader[step], whole[step])
    before = loader_of(prefetch=0)
    for _ in range(resume):
        next(before)
    state = json.loads(json.dumps(before.get_state()))
    loader.set_state(state)
    assert all(map(same, batches(loader, 17 - resume), whole[resume:]))
    # One that knows nothing yet of what comes after the state goes on from it as well.
    known = {
        name: {s: g for s, g in own.items() if s < max(resume, 1)} for name, own in plan.items()
    }
    other = loader_of(generation=known, prefetch=0)
    other.set_state(state)
    assert same(other[resume - 1], whole[resume - 1]) if resume else True


def check_rows(
    loader: DataLoader,
    grown: Mapping[str, Grown],
    plan: Mapping[str, Mapping[int, int]],
    seed: int | None,
    whole: Sequence[Batch],
) -> None:
    """Rows are those of the generation of their step, in the order of that generation alone."""
    read: dict[str, tuple[int, list[int]]] = {name: (-1, []) for name in grown}
    for step, batch in enumerate(whole):
        rows = loader.rows_of(step)
        tokens = np.stack([grown[name].tokens[at(plan[name], step)][row] for name, row in rows])
        assert np.array_equal(batch["inputs"], tokens[:, :-1])
        for name in grown:
            generation, own = at(plan[name], step), [row for n, row in rows if n == name]
            before = read[name][1] if read[name][0] == generation else []
            read[name] = (generation, [*before, *own])
            assert loader.datasets_at(step)[name].about.generation == generation
            wanted = len(read[name][1])
            epochs = loader.epochs_at(step + 1)[name]
            moves_on = at(plan[name], step + 1) != generation
            assert epochs == (0 if moves_on else wanted / len(grown[name].tokens[generation]))
            if seed is None:
                count = len(grown[name].tokens[generation])
                assert read[name][1] == [i % count for i in range(wanted)]
            else:
                moved = generation != at(plan[name], 0)
                order = order_of(grown[name], name, generation, seed, moved=moved)
                assert read[name][1] == order[:wanted]


def test_a_newer_generation_is_read_whole_in_an_order_of_its_own(web: Grown) -> None:
    count = len(web.tokens[2])
    orders = [
        order_of(web, "", 2, seed, moved=moved)[:count] for seed in (0, 1) for moved in (0, 1)
    ]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


# --- the end ---


@pytest.mark.parametrize(
    ("generation", "epochs", "steps"),
    [
        ({0: 0, 2: 1}, 1, 2 + 29 // 4),  # 8 rows of generation 0, then all 29 of generation 1
        ({0: 0, 5: 1}, 1, 5 + 29 // 4),  # all 20 rows, then the next generation at that very step
        ({0: 0, 6: 1}, 1, 5),  # the end comes before the move
        ({0: 0, 1: 1, 2: 2}, 2, 2 + 2 * 59 // 4),
        ({0: 0, 9: 1}, 2, 9 + 2 * 29 // 4),
    ],
)
def test_epochs_count_from_the_move_on(
    web: Grown, generation: dict[int, int], epochs: int, steps: int
) -> None:
    loader = DataLoader(web.folder, batch_size=4, epochs=epochs, generation=generation, prefetch=0)
    assert len(loader) == steps == len(batches(loader, 1000))
    assert not loader.has(steps)
    assert loader.has(steps - 1)
    last = max(s for s in generation if s < steps)
    rows = [row for step in range(last, steps) for _, row in loader.rows_of(step)]
    count = len(web.tokens[generation[last]])
    assert max(np.bincount(rows, minlength=count)) == epochs


@pytest.mark.parametrize("exhausted", ["stop", "repeat", "drop"])
def test_a_dataset_that_moves_on_is_not_used_up(web: Grown, code: Grown, exhausted: Any) -> None:
    data = {"web": (web.folder, 1), "code": (code.folder, 1)}
    options: dict[str, Any] = {"batch_size": 2, "epochs": 1, "exhausted": exhausted}
    loader = DataLoader(
        data, generation={"web": 1, "code": {0: 0, 7: 1}}, prefetch=0, remainder="pad", **options
    )
    rows = [pair for step in range(len(loader)) for pair in loader.rows_of(step)]
    # Step 7 is where the 7 rows of generation 0 of code are all read: its 19 rows begin there.
    begun = [row for name, row in rows[14:] if name == "code"]
    assert sorted(row for name, row in rows[:14] if name == "code") == list(range(7))
    assert sorted(begun[:19]) == list(range(19))
    total = {"stop": 2 * 26, "repeat": 2 * 29, "drop": 26 + 29}[exhausted]
    assert abs(len(rows) - total) <= 2


def test_parts_of_batches_are_of_one_generation(web: Grown) -> None:
    loader = DataLoader(web.folder, batch_size=8, generation={0: 0, 2: 3}, prefetch=0)
    for step in (0, 1, 2, 3):
        parts = [loader.part(step, i, 4)["inputs"] for i in range(4)]
        assert np.array_equal(np.concatenate(parts), loader[step]["inputs"])


def test_batches_on_eight_devices_are_those_of_one(web: Grown, code: Grown) -> None:
    program = """
import json, sys
import jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from dataprep.loaders import DataLoader

data = {"web": (sys.argv[1], 5), "code": (sys.argv[2], 3)}
options = dict(batch_size=8, seed=4, generation={"web": {0: 1, 3: 2, 5: 3}, "code": {0: 0, 4: 1}})
plain = DataLoader(data, prefetch=0, **options)
assert len(jax.devices()) == 8
for names, shape, spec in (("d", (8,), P("d")), (("d", "s"), (4, 2), P("d", "s"))):
    mesh = Mesh(np.array(jax.devices()).reshape(shape), names)
    with DataLoader(data, mesh=mesh, spec=spec, prefetch=3, **options) as loader:
        loader.set_state(plain.state_at(2))
        for step in range(2, 9):
            batch = next(loader)
            for name, array in plain[step].items():
                assert np.array_equal(np.asarray(batch[name]), array), (step, name)
"""
    flags = "--xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", program, str(web.folder), str(code.folder)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


# --- states of other generations ---


def advice(error: ConflictError) -> list[Any]:
    """What a message says to write, as values."""
    texts = str(error).split("generation=")[1:]
    return [eval(text.split(" to ")[0]) for text in texts]


def conflict(loader: DataLoader, state: Any) -> ConflictError:
    with pytest.raises(ConflictError) as found:
        loader.set_state(state)
    return found.value


def test_a_state_that_came_to_its_generation_at_another_step_is_told_so(web: Grown) -> None:
    moved = DataLoader(web.folder, batch_size=4, generation={0: 1, 2: 3}, prefetch=0)
    for _ in range(5):
        next(moved)
    error = conflict(DataLoader(web.folder, batch_size=4), moved.get_state())
    assert f"came to generation 3 of {web.folder} at another step than this" in str(error)
    assert advice(error) == [{0: 1, 2: 3}]


def test_a_state_of_an_older_generation_says_what_to_write(web: Grown) -> None:
    old = DataLoader(web.folder, batch_size=4, generation=1, prefetch=0)
    whole = batches(DataLoader(web.folder, batch_size=4, generation=1), 12)
    for _ in range(5):
        next(old)
    error = conflict(DataLoader(web.folder, batch_size=4), old.get_state())
    assert f"made on generation 1 of {web.folder}, this loader is on 3" in str(error)
    assert "write generation=1 to go on as before" in str(error)
    assert "generation={0: 1, 5: 3} to move on from there" in str(error)
    as_before, moved = advice(error)
    on = DataLoader(web.folder, batch_size=4, generation=as_before)
    on.set_state(old.get_state())
    assert all(map(same, batches(on, 7), whole[5:]))
    on = DataLoader(web.folder, batch_size=4, generation=moved, prefetch=0)
    on.set_state(old.get_state())
    assert same(on[4], whole[4])
    rows = [row for step in range(5, 20) for _, row in on.rows_of(step)]
    assert sorted(rows[:59]) == list(range(59))
    assert np.array_equal(next(on)["inputs"], web.tokens[3][rows[:4], :-1])
    # And further on, when there is a still newer one.
    state = on.get_state()
    assert list(state["datasets"][""]) == ["0", "5"]
    error = conflict(DataLoader(web.folder, batch_size=4, generation=2), state)
    assert advice(error) == [{0: 1, 5: 3}]  # there is no way back


def test_a_state_of_a_mixture_says_what_to_write_for_each(web: Grown, code: Grown) -> None:
    data = {"web": (web.folder, 1), "code": (code.folder, 1)}
    old = DataLoader(data, batch_size=4, generation={"web": {0: 0, 2: 1}, "code": 0}, prefetch=0)
    for _ in range(3):
        next(old)
    error = conflict(DataLoader(data, batch_size=4), old.get_state())
    wanted = [
        {"code": 0, "web": {0: 0, 2: 1}},
        {"code": {0: 0, 3: 1}, "web": {0: 0, 2: 1, 3: 3}},
    ]
    assert advice(error) == wanted
    for generation in wanted:
        loader = DataLoader(data, batch_size=4, generation=generation, prefetch=0)
        loader.set_state(old.get_state())
        assert same(loader[2], old[2])
    assert same(DataLoader(data, batch_size=4, generation=wanted[0], prefetch=0)[7], old[7])


def test_a_state_of_the_first_step_or_of_another_dataset_has_no_move(
    web: Grown, code: Grown
) -> None:
    old = DataLoader(web.folder, batch_size=4, generation=1, prefetch=0)
    assert advice(conflict(DataLoader(web.folder, batch_size=4), old.get_state())) == [1]
    next(old)
    error = conflict(DataLoader(code.folder, batch_size=4), old.get_state())
    assert "open the dataset that the state is of" in str(error)
    state = json.loads(json.dumps(old.get_state()))
    state["datasets"][""]["0"][0] = 9
    assert "generation 9" in str(conflict(DataLoader(web.folder, batch_size=4), state))


# --- parts that are gone ---


def test_a_removed_part_is_missed_only_by_batches_that_are_of_it(tmp_path: Path) -> None:
    grown = make(tmp_path / "d", 12, 8, seed=3, replaced=0)
    options: dict[str, Any] = {"batch_size": 4, "generation": {0: 1, 3: 2}, "prefetch": 0}
    whole = batches(DataLoader(grown.folder, **options), 8)
    state = DataLoader(grown.folder, **options).state_at(3)
    shutil.rmtree(grown.folder / "parts/00000")
    gone = "generation 1 of .* cannot be read any more: parts/00000 was removed"
    loader = DataLoader(grown.folder, **options)
    loader.set_state(state)
    assert all(map(same, batches(loader, 5), whole[3:]))
    with DataLoader(grown.folder, **options) as loader, pytest.raises(ConfigError, match=gone):
        loader[2]
    for opening in (
        lambda: open_dataset(grown.folder, generation=0),
        lambda: DataLoader(grown.folder, batch_size=4, generation=1),
    ):
        with pytest.raises(ConfigError, match="cannot be read any more"):
            opening()
    (grown.folder / "generations/00000.json").unlink()
    with pytest.raises(ConfigError, match=r"generation 0 .* was removed"):
        open_dataset(grown.folder, generation=0)


# --- mistakes ---


@pytest.mark.parametrize(
    ("generation", "message"),
    [
        (4, "generation 4: .* has 4 generations, numbered from 0; dataprep log"),
        (-1, "generation must be at least 0"),
        (True, "generation must be a whole number"),
        (1.0, "generation must be a whole number"),
        ("newest", "must be a number or 'latest'"),
        ({}, "from step 0 on, such as"),
        ({1: 0}, "from step 0 on, such as"),
        ({-1: 0, 0: 0}, "a step of generation must be at least 0"),
        ({0: 2, 5: 1}, "goes back from 2 to 1 at step 5"),
        ({0: "latest", 5: 1}, "goes back from 3 to 1 at step 5"),
        ({0: [1]}, "generation must be a whole number"),
        ({"news": 0}, "generation of 'news': the mixture has"),
    ],
)
def test_what_is_no_generation_is_an_error(web: Grown, generation: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DataLoader({"web": (web.folder, 1)}, batch_size=4, generation=generation)


def test_kinds_of_whole_numbers_and_repeated_ones_are_the_same(web: Grown) -> None:
    plain = DataLoader(web.folder, batch_size=4, generation={0: 1, 6: 3}, prefetch=0)
    for generation in ({np.int64(0): np.int32(1), 3: 1, 6: "latest"}, {6: 3, 0: 1, 9: 3}):
        loader = DataLoader(web.folder, batch_size=4, generation=generation, prefetch=0)
        assert [loader.rows_of(s) for s in range(12)] == [plain.rows_of(s) for s in range(12)]
        assert loader.state_at(9) == plain.state_at(9)


def test_generations_are_published_once(web: Grown) -> None:
    """The fixture is what these tests take it for."""
    assert publish_generation(web.folder, parts_in(web.folder)).generation == 3
    assert [len(tokens) for tokens in web.tokens] == [20, 29, 59, 59]
    assert not np.array_equal(web.tokens[2][:20], web.tokens[3][:20])
    assert np.array_equal(web.tokens[2][20:], web.tokens[3][20:])
