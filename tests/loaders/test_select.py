"""A selection is a dataset of its own: lazy, exact, known by what was selected from what."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataprep.loaders import DataLoader, Longest, open_dataset
from dataprep.pipeline.errors import ConfigError, ConflictError
from support.lengths import write_documents
from support.packed import write_packed


@pytest.fixture(scope="module", params=["packed", "tokenized"])
def dataset(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("select")
    if request.param == "packed":
        return open_dataset(write_packed(home / "d", num_rows=100).folder)
    return open_dataset(write_documents(home, [*range(1, 60), *range(40, 81)]))


def loader_of(data: Any, **options: Any) -> DataLoader:
    size: Any = Longest(4) if "Tokenized" in repr(data) else 4
    return DataLoader(data, batch_size=size, prefetch=0, **options)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return list(one) == list(other) and all(np.array_equal(one[key], other[key]) for key in one)


MASK = np.arange(100) % 7 == 2
WAYS: list[Any] = [
    range(10, 50),
    range(3, 90, 4),
    range(50, 10, -2),
    slice(20, None, 3),
    [7, 3, 9, 3, -1],
    np.array([5, 99, 0]),
    MASK,
    MASK.tolist(),
    {4: "", 2: ""}.keys(),
]
NUMBERS = [
    [*range(10, 50)],
    [*range(3, 90, 4)],
    [*range(50, 10, -2)],
    [*range(20, 100, 3)],
    [7, 3, 9, 3, 99],
    [5, 99, 0],
    np.flatnonzero(MASK).tolist(),
    np.flatnonzero(MASK).tolist(),
    [4, 2],
]


@pytest.mark.parametrize(("way", "numbers"), [*zip(WAYS, NUMBERS, strict=True)], ids=range(9))
def test_what_is_selected_are_those_rows(dataset: Any, way: Any, numbers: list[int]) -> None:
    some = dataset.select(way)
    assert len(some) == len(numbers)
    assert same(some[: len(some)], dataset[numbers])
    assert same(some[0], dataset[numbers[0]])
    assert same(some[-1], dataset[numbers[-1]])
    assert some.locate(1) == dataset.locate(numbers[1])
    twice = some.select([1, 0])
    assert same(twice[:2], dataset[[numbers[1], numbers[0]]])
    with pytest.raises(IndexError):
        some[len(some)]


def test_a_range_of_a_range_is_a_range_and_takes_no_memory(dataset: Any) -> None:
    some = dataset.select(range(10, 90, 2)).select(slice(5, 20, 3))
    assert some.chosen.numbers == range(20, 50, 6)
    assert same(some[:5], dataset[20:50:6])


def test_a_loader_reads_it_and_its_state_knows_it(dataset: Any) -> None:
    some = dataset.select([5, 60, 7, 88, 9, 10, 99, 3, 42])
    loader = loader_of(some, epochs=2, seed=1)
    found = [some.locate(row) for step in range(len(loader)) for _, row in loader.rows_of(step)]
    assert sorted(found[:8]) <= sorted(dataset.locate(i) for i in (5, 60, 7, 88, 9, 10, 99, 3, 42))
    state = json.loads(json.dumps(loader.state_at(2)))
    again = loader_of(dataset.select([5, 60, 7, 88, 9, 10, 99, 3, 42]), epochs=2, seed=1)
    again.set_state(state)
    assert same(next(again), loader[2])
    for other in (dataset, dataset.select([5, 60, 7, 88, 9, 10, 99, 42, 3]), dataset.select(MASK)):
        with pytest.raises(ConflictError, match="made with datasets"):
            loader_of(other, epochs=2, seed=1).set_state(state)


def test_parts_of_a_mixture_may_be_selections_of_one_dataset(dataset: Any) -> None:
    odd, even = (dataset.select(range(first, 100, 2)) for first in (1, 0))
    size: Any = Longest(4) if "Tokenized" in repr(dataset) else 4
    loader = DataLoader({"odd": (odd, 3), "even": (even, 1)}, batch_size=size, prefetch=0)
    names = [name for step in range(5) for name, _ in loader.rows_of(step)]
    assert (names.count("odd"), names.count("even")) == (15, 5)


def test_it_goes_to_other_processes_and_to_grain(dataset: Any) -> None:
    some = dataset.select([5, 60, 7])
    again = pickle.loads(pickle.dumps(some))
    assert same(again[:3], some[:3])
    assert repr(again) == repr(some) != repr(dataset)
    assert repr(dataset.select([5, 60, 8])) != repr(some)
    assert same(some.__getitems__([2, 0]), [some[2], some[0]])
    grain = pytest.importorskip("grain")
    assert same(grain.MapDataset.source(some)[1], some[1])


@pytest.mark.parametrize(
    ("which", "error", "message"),
    [
        ([0, 100], IndexError, "100 is outside of a dataset of 100"),
        (range(90, 110), IndexError, "outside"),
        (np.array([(1 << 64) - 1], np.uint64), IndexError, "18446744073709551615 is outside"),
        (np.ones(99, bool), ConfigError, "a mask of 99 for a dataset of 100"),
        (np.ones(0, bool), ConfigError, "a mask of 0 for a dataset of 100"),
        ([1.5], ConfigError, "whole numbers"),
        ("abc", ConfigError, "needs numbers"),
        (7, ConfigError, "needs numbers"),
        (np.zeros((2, 2), int), ConfigError, "whole numbers"),
    ],
)
def test_what_cannot_be_selected_is_an_error(
    dataset: Any, which: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dataset.select(which)


def test_nothing_may_be_selected_but_not_loaded(dataset: Any) -> None:
    none = dataset.select([])
    assert len(none) == 0
    with pytest.raises(ConfigError, match="has no"):
        loader_of(none)
    with pytest.raises(ConfigError, match="empty"):
        none.draw(1, seed=0)


def test_draws_follow_from_the_seed_and_are_those_of_a_loader(dataset: Any) -> None:
    assert same(dataset.draw(8, seed=3), dataset.draw(8, seed=3))
    assert not same(dataset.draw(8, seed=3), dataset.draw(8, seed=4))
    loader = loader_of(dataset, seed=3)
    rows = [row for _, row in loader.rows_of(5)]
    assert same(dataset.draw(4, seed=3, start=20), dataset[rows])
    with pytest.raises(ConfigError, match="count must be"):
        dataset.draw(2.5, seed=0)


def test_a_generation_of_a_selection_cannot_be_asked_for(dataset: Any) -> None:
    with pytest.raises(ConfigError, match="it is of one generation"):
        loader_of(dataset.select([1, 2, 3, 4]), generation=0)


def test_a_selection_of_documents_may_be_batched_by_lengths(tmp_path: Path) -> None:
    from dataprep.loaders import ByTokens

    folder = write_documents(tmp_path, [*range(1, 80)])
    some: Any = open_dataset(folder).select(range(0, 79, 3))
    assert some.lengths.tolist() == [*range(1, 80, 3)]
    loader = DataLoader(
        some, batch_size=ByTokens(200, multiple_of=8), epochs=1, remainder="pad", prefetch=0
    )
    rows = [row for step in range(len(loader)) for _, row in loader.rows_of(step)]
    assert sorted(rows) == [*range(len(some))]
    for step in range(len(loader)):
        batch = loader[step]
        for number, (_, row) in enumerate(loader.rows_of(step)):
            tokens = some[row]["tokens"]
            width = min(len(tokens), batch["inputs"].shape[1])
            assert np.array_equal(batch["inputs"][number, :width], tokens[:width])
