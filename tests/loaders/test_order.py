"""Which row comes when: pure, a permutation in every epoch, and exact shares in a mixture."""

from __future__ import annotations

from fractions import Fraction
from math import log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.loaders import DataLoader
from dataprep.loaders.mixture import (
    Component,
    Exhausted,
    Mixture,
    plan_mixture,
)
from dataprep.loaders.order import shuffle
from dataprep.loaders.schedule import BatchSizes
from dataprep.loaders.shares import Shares, lowest_terms
from dataprep.pipeline.errors import ConfigError
from support.packed import write_packed

# --- the shuffle ---


@given(st.integers(1, 3000), st.integers(0, 10**9), st.integers(0, 2**63), st.text(max_size=5))
def test_every_epoch_has_every_row_once(n: int, epoch: int, seed: int, name: str) -> None:
    rows = shuffle(np.arange(n) + epoch * n, n, seed=seed, name=name)
    assert sorted(rows.tolist()) == list(range(n))


@given(st.integers(1, 10**15), st.lists(st.integers(0, 10**18), max_size=20))
def test_a_row_depends_on_its_position_alone(n: int, positions: list[int]) -> None:
    together = shuffle(np.array(positions, np.int64), n, seed=7)
    alone = [int(shuffle(np.array([p]), n, seed=7)[0]) for p in positions]
    assert together.tolist() == alone
    assert all(0 <= row < n for row in alone)


def test_the_order_never_changes() -> None:
    """Checkpoints rely on these numbers."""
    small = shuffle(np.arange(12), 5, seed=0)
    assert small.tolist() == [3, 1, 4, 0, 2, 2, 4, 1, 0, 3, 4, 2]
    large = shuffle(np.arange(4), 10**12, seed=1, name="web")
    assert large.tolist() == [612752599564, 847473948457, 188132494811, 527484456756]


def test_seeds_epochs_and_names_have_orders_of_their_own() -> None:
    places = np.arange(500)
    orders = {
        tuple(shuffle(places + epoch * 500, 500, seed=seed, name=name).tolist())
        for epoch in range(3)
        for seed in range(3)
        for name in ("", "a")
    }
    assert len(orders) == 18


def test_the_shuffle_is_even() -> None:
    """Each row at each place about equally often, and each neighbour too."""
    n, epochs = 50, 4000
    rows = shuffle(np.arange(n * epochs), n, seed=3).reshape(epochs, n)
    expected = epochs / n
    by_place = np.zeros((n, n))
    np.add.at(by_place, (np.tile(np.arange(n), epochs), rows.ravel()), 1)
    chi = ((by_place - expected) ** 2 / expected).sum() / (n - 1) ** 2
    assert 0.8 < chi < 1.2
    steps = np.bincount((np.diff(rows, axis=1) % n).ravel(), minlength=n)[1:]
    assert steps.std() < 4 * np.sqrt(steps.mean())


# --- shares ---

weights = st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any)


@given(weights, st.integers(0, 10**12))
def test_dealt_rows_are_within_a_few_of_their_share(parts: list[int], rows: int) -> None:
    shares = Shares(weights=lowest_terms(parts))
    for i, weight in enumerate(shares.weights):
        exact = Fraction(rows * weight, sum(shares.weights))
        assert abs(shares.count(i, rows) - exact) <= 1 + log2(len(parts))


@given(weights, st.integers(0, 10**9))
def test_shares_are_exact_after_every_period(parts: list[int], periods: int) -> None:
    shares = Shares(weights=lowest_terms(parts))
    counts = [shares.count(i, periods * sum(shares.weights)) for i in range(len(parts))]
    assert counts == [periods * weight for weight in shares.weights]


@given(weights, st.integers(0, 10**11))
def test_each_dataset_gets_its_rows_one_after_another(parts: list[int], first: int) -> None:
    shares = Shares(weights=lowest_terms(parts))
    datasets, ranks = shares.deal(np.arange(first, first + 200))
    for i in range(len(parts)):
        start = shares.count(i, first)
        assert ranks[datasets == i].tolist() == list(range(start, shares.count(i, first + 200)))


@given(weights, st.integers(0, 1000))
def test_reach_is_the_least_number_of_rows(parts: list[int], count: int) -> None:
    shares = Shares(weights=lowest_terms(parts))
    for i, weight in enumerate(shares.weights):
        if weight:
            rows = shares.reach(i, count)
            assert shares.count(i, rows) == count
            assert not rows or shares.count(i, rows - 1) < count


def test_large_weights_do_not_overflow() -> None:
    shares = Shares(weights=(2**30 - 1, 2**30))
    datasets, ranks = shares.deal(np.arange(10**15, 10**15 + 5))
    assert [shares.count(d, 10**15 + i) for i, d in enumerate(datasets.tolist())] == ranks.tolist()


# --- mixtures ---


def mix(
    parts: dict[str, tuple[int, dict[int, int]]],
    *,
    epochs: int | None = 1,
    exhausted: Exhausted = "stop",
) -> Mixture:
    return plan_mixture(
        [
            Component(name=name, num_rows=n, weights={r: Fraction(w) for r, w in shares.items()})
            for name, (n, shares) in parts.items()
        ],
        epochs=epochs,
        exhausted=exhausted,
        shuffled=False,
        seed=0,
    )


def drawn(mixture: Mixture) -> list[list[int]]:
    """The rows of each dataset, in the order they are drawn."""
    assert mixture.num_rows is not None
    datasets, rows = mixture.locate(0, mixture.num_rows)
    return [rows[datasets == i].tolist() for i in range(len(mixture.components))]


def test_stop_ends_before_the_first_row_that_is_not_there() -> None:
    mixture = mix({"a": (10, {0: 1}), "b": (100, {0: 3})})
    a, b = drawn(mixture)
    assert a == list(range(10))
    assert b == list(range(len(b)))
    assert 27 <= len(b) <= 33


def test_repeat_goes_on_until_every_dataset_was_used_up() -> None:
    a, b = drawn(mix({"a": (10, {0: 1}), "b": (100, {0: 3})}, exhausted="repeat"))
    assert b == list(range(100))
    assert a == [i % 10 for i in range(len(a))]
    assert 32 <= len(a) <= 34


def test_drop_uses_every_row_of_every_dataset_once_an_epoch() -> None:
    mixture = mix({"a": (10, {0: 1}), "b": (100, {0: 3}), "c": (7, {0: 1})}, exhausted="drop")
    a, b, c = drawn(mixture)
    assert (a, b, c) == (list(range(10)), list(range(100)), list(range(7)))
    twice = mix({"a": (10, {0: 1}), "b": (100, {0: 3})}, exhausted="drop", epochs=2)
    assert drawn(twice) == [[*range(10)] * 2, [*range(100)] * 2]


def test_without_epochs_a_mixture_never_ends() -> None:
    mixture = mix({"a": (3, {0: 1}), "b": (5, {0: 1})}, epochs=None)
    assert mixture.num_rows is None
    datasets, rows = mixture.locate(10**12, 10**12 + 30)
    assert np.bincount(datasets).tolist() == [15, 15]
    assert set(rows[datasets == 0].tolist()) == {0, 1, 2}


def test_weights_change_at_a_row_and_each_dataset_goes_on() -> None:
    mixture = mix({"a": (10**6, {0: 9, 100: 1}), "b": (10**6, {0: 1})}, epochs=None)
    datasets, rows = mixture.locate(0, 200)
    assert np.bincount(datasets[:100]).tolist() == [90, 10]
    assert np.bincount(datasets[100:]).tolist() == [50, 50]
    assert rows[datasets == 0].tolist() == list(range(140))
    assert rows[datasets == 1].tolist() == list(range(60))


def test_a_dataset_may_join_later() -> None:
    mixture = mix({"a": (100, {0: 1}), "b": (100, {0: 0, 40: 1})}, epochs=None)
    datasets, _ = mixture.locate(0, 60)
    assert not datasets[:40].any()
    assert np.bincount(datasets[40:]).tolist() == [10, 10]


@given(st.integers(0, 400), st.integers(0, 60), st.sampled_from(["stop", "repeat", "drop"]))
@settings(max_examples=60)
def test_any_stretch_is_the_same_as_in_the_whole(
    start: int, length: int, exhausted: Exhausted
) -> None:
    parts = {"a": (30, {0: 5, 77: 1}), "b": (90, {0: 3}), "c": (55, {0: 0, 30: 2})}
    mixture = mix(parts, exhausted=exhausted)
    assert mixture.num_rows is not None
    stop = min(start + length, mixture.num_rows)
    whole = mixture.locate(0, mixture.num_rows)
    found = mixture.locate(start, stop)
    for part, expected in zip(found, whole, strict=True):
        assert part.tolist() == expected[start:stop].tolist()


def test_a_mixture_without_any_weight_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no dataset of the mixture has a weight"):
        mix({"a": (3, {0: 0})})
    with pytest.raises(ConfigError, match="row 10 on"):
        mix({"a": (3, {0: 1, 10: 0})}, epochs=None)


def test_weights_are_read_as_they_are_written(tmp_path: Path) -> None:
    for name in "ab":
        write_packed(tmp_path / name, num_rows=40, seed=ord(name))
    loader = DataLoader(
        {"b": (tmp_path / "b", 0.3), "a": (tmp_path / "a", "7/10")}, batch_size=10, prefetch=0
    )
    for step in range(20):
        names = [name for name, _ in loader.rows_of(step)]
        assert (names.count("a"), names.count("b")) == (7, 3)
    swapped = DataLoader(
        {"a": (tmp_path / "a", 70), "b": (tmp_path / "b", 30)}, batch_size=10, prefetch=0
    )
    assert [swapped.rows_of(s) for s in range(9)] == [loader.rows_of(s) for s in range(9)]


@pytest.mark.parametrize("weight", [-1, "x", float("nan"), {5: 1}, {}, "1/0"])
def test_a_weight_that_is_none_is_an_error(tmp_path: Path, weight: object) -> None:
    write_packed(tmp_path / "a", num_rows=4)
    with pytest.raises(ConfigError, match="weight"):
        DataLoader({"a": (tmp_path / "a", weight)}, batch_size=2)  # type: ignore[dict-item]


def test_weights_too_fine_to_be_exact_are_an_error(tmp_path: Path) -> None:
    write_packed(tmp_path / "a", num_rows=4)
    data = {"a": (tmp_path / "a", 0.123456789123), "b": (tmp_path / "a", 1)}
    with pytest.raises(ConfigError, match="fewer digits"):
        DataLoader(data, batch_size=2)


# --- batch sizes ---


@given(
    st.dictionaries(st.integers(1, 30), st.integers(1, 9), max_size=4),
    st.integers(1, 9),
    st.integers(0, 400),
)
def test_steps_and_rows_agree(later: dict[int, int], first: int, num_rows: int) -> None:
    sizes = BatchSizes.of({0: first, **later})
    rows = 0
    for step in range(60):
        assert sizes.first_row(step) == rows
        rows += sizes.size(step)
    full = sizes.num_steps(num_rows, "drop")
    padded = sizes.num_steps(num_rows, "pad")
    assert sizes.first_row(full) <= num_rows < sizes.first_row(full + 1)
    assert padded == full + (sizes.first_row(full) < num_rows)


@pytest.mark.parametrize("size", [0, -1, {}, {1: 4}, {0: 4, 5: 0}])
def test_a_batch_size_that_is_none_is_an_error(size: int | dict[int, int]) -> None:
    with pytest.raises(ConfigError, match="batch_size"):
        BatchSizes.of(size)
