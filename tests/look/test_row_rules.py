"""A row that breaks a rule is named, wherever it is among others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dataprep.pipeline.look.row_rules import BadRow, check_rows, dense_masks, is_of_document
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.masks import (
    MASKS,
    WEIGHT_DTYPE,
    runs_of_parts,
    stored_numbers,
    weight_bits,
)
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows, encode_rows

ENDS = "document ends do not ascend within the row"
PLAIN = ("loss",)
VISION = ("loss", "vision")
WEIGHT = ("loss", "weight")
U16 = np.dtype("<u2")


def layout_of(masks: tuple[str, ...], capacity: int = 4) -> RowLayout:
    return RowLayout(capacity=capacity, masks=masks, tokens=U16, ends=np.dtype("<u4"))


def ragged(lists: list[list[int]]) -> IntegerLists:
    values = np.array([x for part in lists for x in part], np.int64)
    return IntegerLists(values=values, offsets=np.cumsum([0, *map(len, lists)]))


ONE, HALF, NAN, NEGATIVE, INF = 0x3C00, 0x3800, 0x7E00, 0xBC00, 0x7C00  # bits of float16
UNMARKED = {"loss": [4], "vision": [4], "weight": [4, ONE]}


def rows_of(
    names: tuple[str, ...],
    tokens: list[int],
    ends: list[int],
    *masks: list[int],
    left: int = 0,
    before: int = 0,
) -> Rows:
    """One row, after `before` rows that break no rule."""
    return Rows(
        tokens=np.array([[5, 6, 7, 8]] * before + [tokens], U16),
        left_padding=np.array([0] * before + [left]),
        ends=ragged([[4]] * before + [ends]),
        first_loss=np.zeros(before + len(ends), np.bool_),
        masks=tuple(
            ragged([UNMARKED[name]] * before + [mask])
            for name, mask in zip(names, masks, strict=True)
        ),
    )


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize(
    ("masks", "row", "wrong"),
    [
        (PLAIN, ([5, 6, 7, 0], [2, 3], [1, 2, 4]), ""),
        (PLAIN, ([5, 6, 7, 8], [4], [4]), ""),
        (VISION, ([5, 6, 7, 0], [2, 3], [1, 2, 4], [0, 1, 4]), ""),
        (WEIGHT, ([5, 6, 7, 0], [2, 3], [1, 2, 4], [2, 4, HALF, ONE]), ""),
        (PLAIN, ([5, 99, 7, 0], [2, 3], [4]), "token id 99"),
        (PLAIN, ([5, 6, 7, 0], [2, 2], [4]), "document ends"),
        (PLAIN, ([5, 6, 7, 0], [3, 2], [4]), "document ends"),
        (PLAIN, ([5, 6, 7, 0], [2, 5], [4]), "document ends"),
        (PLAIN, ([5, 6, 7, 0], [0, 2], [4]), "document ends"),
        (PLAIN, ([5, 6, 7, 0], [], [4]), "document ends"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], [1, 3]), "mask runs"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], [1, 5]), "mask runs"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], [2, 2, 4]), "mask runs"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], [0]), "mask runs"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], []), "mask runs"),
        (WEIGHT, ([5, 6, 7, 8], [4], [4], [0, 4, HALF, ONE]), "mask runs"),
        (WEIGHT, ([5, 6, 7, 8], [4], [4], [2, 4, NAN, ONE]), "positive"),
        (WEIGHT, ([5, 6, 7, 8], [4], [4], [2, 4, NEGATIVE, ONE]), "positive"),
        (WEIGHT, ([5, 6, 7, 8], [4], [4], [2, 4, INF, ONE]), "positive"),
        (WEIGHT, ([5, 6, 7, 8], [4], [4], [2, 4, 0, ONE]), "positive"),
        (WEIGHT, ([5, 6, 7, 8], [4], [4], [2, 4, (1 << 16) + ONE, ONE]), "positive"),
        (WEIGHT, ([5, 6, 7, 0], [2, 3], [4], [2, 4, ONE, HALF]), "padding is in a mask"),
        (PLAIN, ([5, 6, 7, 1], [2, 3], [4]), "padding holds"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], [3, 4]), "padding is in a mask"),
        (PLAIN, ([5, 6, 7, 0], [2, 3], [2, 3, 4]), "first token"),
        (PLAIN, ([5, 6, 7, 8], [2, 4], [0, 1, 4]), "first token"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(
    masks: tuple[str, ...], row: tuple[list[int], ...], wrong: str, before: int
) -> None:
    found = check_rows(rows_of(masks, *row, before=before), layout_of(masks), max_id=10, pad=0)
    assert (found is None) == (not wrong)
    if found is not None:
        assert found.row == before
        assert wrong in found.reason


def test_padding_on_the_left_is_padding_too() -> None:
    layout = layout_of(PLAIN)
    good = rows_of(PLAIN, [0, 6, 7, 8], [2, 4], [4], left=1)
    assert check_rows(good, layout, max_id=10, pad=0) is None
    assert is_of_document(good).tolist() == [[False, True, True, True]]
    for bad, reason in (
        (rows_of(PLAIN, [1, 6, 7, 8], [2, 4], [4], left=1), "padding holds an id other than 0"),
        (rows_of(PLAIN, [0, 6, 7, 8], [2, 4], [0, 1, 4], left=1), "padding is in a mask"),
        (
            rows_of(PLAIN, [0, 6, 7, 8], [1, 4], [4], left=1),
            ENDS,
        ),
    ):
        assert check_rows(bad, layout, max_id=10, pad=0) == BadRow(row=0, reason=reason)


def test_the_first_token_may_have_loss_where_it_is_allowed() -> None:
    rows = rows_of(PLAIN, [5, 6, 7, 0], [2, 3], [2, 3, 4])
    assert check_rows(rows, layout_of(PLAIN), max_id=10, pad=0, first_has_loss=True) is None


def test_no_rows_break_no_rule() -> None:
    layout = layout_of(WEIGHT)
    assert check_rows(decode_rows([], layout), layout, max_id=10, pad=0) is None


@st.composite
def dense_rows(draw: st.DrawFn) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Padding begins at a place in each row; masks are any there were before it."""
    shape = draw(st.integers(1, 5)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    stops = rng.integers(1, shape[1] + 1, shape[0])
    inside = np.arange(shape[1]) < stops[:, None]
    loss = (rng.random(shape) < 0.5) & inside
    loss[:, 0] = False
    weight = rng.choice(np.array([1, 0.5, 0.1, 3], WEIGHT_DTYPE), shape)
    weight[~inside] = 1
    vision = (rng.random(shape) < 0.3) & inside
    return stops, {"loss": loss, "vision": vision, "weight": weight}


@given(dense_rows())
@settings(deadline=None)
def test_masks_with_weights_survive_their_rows(
    made: tuple[NDArray[Any], dict[str, NDArray[Any]]],
) -> None:
    stops, masks = made
    num_rows, capacity = masks["loss"].shape
    layout = layout_of(tuple(masks), capacity)
    rows = Rows(
        tokens=np.where(np.arange(capacity) < stops[:, None], 7, 0).astype(U16),
        left_padding=np.zeros(num_rows, np.int64),
        ends=ragged([[stop] for stop in stops.tolist()]),
        first_loss=masks["vision"][:, 0],
        masks=tuple(ragged([stored(row, name) for row in mask]) for name, mask in masks.items()),
    )
    back = decode_rows(encode_rows(rows, layout), layout)
    assert check_rows(back, layout, max_id=7, pad=0) is None
    assert np.array_equal(back.first_loss, rows.first_loss)
    for found, mask in zip(dense_masks(back, layout), masks.values(), strict=True):
        assert found.dtype == mask.dtype
        assert np.array_equal(found, mask)


def stored(mask: NDArray[Any], name: str) -> list[int]:
    numbers = stored_numbers(runs_of_parts(mask, np.ones(len(mask), np.int64)), MASKS[name])
    assert name != "weight" or weight_bits(mask[:1])[0] in numbers
    return numbers.tolist()
