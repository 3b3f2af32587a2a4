"""The split of a document depends on its group and the rates alone, and edges are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.run.splits import edges_of, split_of

ALL = 1 << 64
weights = st.lists(st.integers(0, 20), min_size=1, max_size=8)
groups = st.lists(st.integers(0, ALL - 1), max_size=30)


def mixed(group: int) -> int:
    """SplitMix64, in Python's own integers."""
    z = (group + 0x9E3779B97F4A7C15) % ALL
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % ALL
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % ALL
    return z ^ (z >> 31)


@given(weights, groups)
def test_a_hash_is_in_the_split_whose_share_it_falls_into(
    given_weights: list[int], given_groups: list[int]
) -> None:
    total = sum(given_weights)
    assume(total)
    rates = [Fraction(weight, total) for weight in given_weights]
    found = split_of(np.array(given_groups, np.uint64), rates)
    for group, split in zip(given_groups, found.tolist(), strict=True):
        ends = [sum(rates[:i], Fraction(0)) * ALL for i in range(1, len(rates) + 1)]
        assert split == next(i for i, end in enumerate(ends) if mixed(group) < int(end))
        assert rates[split] > 0


def unmixed(wanted: int) -> int:
    """The group that is mixed to a number: every step of it can be undone."""
    z = wanted ^ (wanted >> 31) ^ (wanted >> 62)
    z = z * pow(0x94D049BB133111EB, -1, ALL) % ALL
    z ^= (z >> 27) ^ (z >> 54)
    z = z * pow(0xBF58476D1CE4E5B9, -1, ALL) % ALL
    z ^= (z >> 30) ^ (z >> 60)
    return (z - 0x9E3779B97F4A7C15) % ALL


@pytest.mark.parametrize("rates", [[0.5, 0.5], [0.9, 0.05, 0.05], [0.1] * 10, [0, 1], [1, 0]])
def test_edges_are_exact(rates: list[Any]) -> None:
    edges = edges_of(rates)
    places = sorted({0, ALL - 1, *(e + d for e in edges for d in (-1, 0) if 0 <= e + d < ALL)})
    found = split_of(np.array([unmixed(place) for place in places], np.uint64), rates).tolist()
    assert found == [sum(place >= edge for edge in edges) for place in places]
    assert edges == [
        int(Fraction(str(round(sum(rates[:i]), 9))) * ALL) for i in range(1, len(rates))
    ]


def test_shares_are_those_of_the_rates() -> None:
    group = np.arange(200_000, dtype=np.uint64)
    shares = np.bincount(split_of(group, [0.9, 0.07, 0.03])) / len(group)
    assert np.abs(shares - [0.9, 0.07, 0.03]).max() < 0.003


def test_some_values_never_change() -> None:
    """They are in datasets of users: whoever changes them moves documents to another side."""
    found = split_of(np.array([0, 1, 7, 1 << 40, ALL - 1], np.uint64), [0.25] * 4)
    assert found.tolist() == [3, 2, 1, 0, 3]


@pytest.mark.parametrize(
    "rates",
    [[], [0.5], [0.5, 0.6], [0.9, 0.1000001], [-0.5, 1.5], [float("nan"), 1.0], [1.0] + [0] * 254],
)
def test_rates_must_sum_to_one(rates: list[float]) -> None:
    with pytest.raises(ConfigError, match="split"):
        split_of(np.zeros(1, np.uint64), rates)
