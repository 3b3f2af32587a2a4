"""Arithmetic on sizes gives what loops over lists of lists give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.ragged import IntegerLists, numbers_within, offsets_of, owner_of, ranges

SIZES = st.lists(st.integers(0, 5), max_size=8)


@given(SIZES)
def test_sizes_say_offsets_owners_and_numbers_of_all_values(sizes: list[int]) -> None:
    array = np.array(sizes, np.int64)
    assert offsets_of(sizes).tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert owner_of(array).tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
    assert numbers_within(array).tolist() == [k for size in sizes for k in range(size)]
    for found in (offsets_of(sizes), owner_of(array), numbers_within(array)):
        assert found.dtype == np.int64


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 5)), max_size=8), st.integers(1, 4))
def test_ranges_follow_one_another(given_ranges: list[tuple[int, int]], step: int) -> None:
    first, size = np.array(given_ranges, np.int64).reshape(-1, 2).T
    expected = [a + step * k for a, n in given_ranges for k in range(n)]
    assert ranges(first, size, step).tolist() == expected
    assert ranges(first, size, step).dtype == np.int64


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), st.data())
def test_lists_are_taken_in_any_order_and_more_than_once(
    lists: list[list[int]], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    values = np.array([value for items in lists for value in items], np.int64)
    found = IntegerLists(values, offsets_of(list(map(len, lists)))).take(np.array(rows, np.int64))
    assert [items.tolist() for items in found] == [lists[row] for row in rows]
