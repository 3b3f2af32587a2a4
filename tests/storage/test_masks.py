"""Masks and weights survive their runs, however these are cut, joined and stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataprep.pipeline.storage.masks import (
    MASKS,
    WEIGHT_DTYPE,
    MaskRuns,
    check_runs,
    count_marked,
    dense_mask,
    join_runs,
    marked_before,
    runs_of_numbers,
    runs_of_parts,
    slice_runs,
    stored_numbers,
)

LOSS, WEIGHT = MASKS["loss"], MASKS["weight"]
flags = st.lists(st.booleans(), max_size=40).map(lambda m: np.array(m, bool))
weights = st.lists(st.sampled_from([1.0, 0.5, 0.1, 3.0]), max_size=40).map(
    lambda w: np.array(w, WEIGHT_DTYPE)
)
masks = st.one_of(flags, weights)


def runs_of(mask: NDArray[Any]) -> MaskRuns:
    return runs_of_parts(mask, np.ones(len(mask), np.int64))


def kind_of(mask: NDArray[Any]) -> Any:
    return LOSS if mask.dtype == bool else WEIGHT


def as_lists(runs: MaskRuns) -> list[list[Any]]:
    return [runs.ends.tolist(), runs.values.tolist()]


@given(masks)
def test_a_mask_survives_its_runs(mask: NDArray[Any]) -> None:
    runs = runs_of(mask)
    assert dense_mask(runs).tolist() == mask.tolist()
    assert check_runs(runs, len(mask)) == ""
    assert count_marked(runs, kind_of(mask)) == int((mask != kind_of(mask).default).sum())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4))))
def test_parts_give_the_same_runs_as_their_tokens(parts: list[tuple[bool, int]]) -> None:
    values = np.array([flag for flag, _ in parts], bool)
    lengths = np.array([length for _, length in parts], np.int64)
    dense = np.repeat(values, lengths)
    assert as_lists(runs_of_parts(values, lengths)) == as_lists(runs_of(dense))


@given(masks, st.data())
def test_a_slice_of_runs_is_the_slice_of_the_mask(mask: NDArray[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(mask)))
    stop = data.draw(st.integers(start, len(mask)))
    runs = slice_runs(runs_of(mask), start, stop)
    assert as_lists(runs) == as_lists(runs_of(mask[start:stop]))


@given(masks, st.lists(st.integers(0, 40), max_size=6))
def test_marked_tokens_before_places_are_those_of_the_slices(
    mask: NDArray[Any], places: list[int]
) -> None:
    kind = kind_of(mask)
    places = [min(place, len(mask)) for place in places]
    found = marked_before(runs_of(mask), kind, np.array(places, np.int64))
    assert found.tolist() == [int((mask[:place] != kind.default).sum()) for place in places]


@given(st.one_of(st.tuples(flags, flags), st.tuples(weights, weights)))
def test_joined_runs_are_the_joined_masks(pair: tuple[NDArray[Any], NDArray[Any]]) -> None:
    left, right = pair
    joined = join_runs(runs_of(left), len(left), runs_of(right))
    assert as_lists(joined) == as_lists(runs_of(np.concatenate(pair)))


@given(masks)
def test_what_is_stored_gives_the_runs_back(mask: NDArray[Any]) -> None:
    runs, kind = runs_of(mask), kind_of(mask)
    numbers = stored_numbers(runs, kind)
    assert len(numbers) % kind.numbers == 0
    assert not len(numbers) or 0 <= numbers.min() <= numbers.max() < 1 << 16
    assert as_lists(runs_of_numbers(numbers, kind)) == as_lists(runs)


def test_the_stored_numbers_are_as_documented() -> None:
    assert stored_numbers(runs_of(np.array([0, 0, 1, 1, 1, 0], bool)), LOSS).tolist() == [2, 5, 6]
    assert stored_numbers(runs_of(np.array([1, 1, 0], bool)), LOSS).tolist() == [0, 2, 3]
    halves = np.array([1, 1, 0.5, 0.5, 0.5, 1], WEIGHT_DTYPE)
    one, half = 0x3C00, 0x3800  # bits of float16
    assert stored_numbers(runs_of(halves), WEIGHT).tolist() == [2, 5, 6, one, half, one]


def test_a_weight_that_is_no_positive_number_is_found() -> None:
    for bad in (0.0, -1.0, float("inf"), float("nan")):
        runs = MaskRuns(ends=np.array([3]), values=np.array([bad], WEIGHT_DTYPE))
        assert "positive" in check_runs(runs, 3)
