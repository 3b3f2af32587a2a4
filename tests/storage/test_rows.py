"""Packed rows come back as they went in, and what does not fit together is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.masks import MASKS, runs_of_numbers
from dataprep.pipeline.storage.rows import (
    Row,
    RowLayout,
    Rows,
    check_row,
    decode_row,
    encode_rows,
    ends_dtype,
)

TOKENS = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


def layout_of(
    capacity: int, *, masks: tuple[str, ...] = ("loss",), tokens: str = "uint16"
) -> RowLayout:
    ends = TOKENS[ends_dtype(capacity - 1)]
    return RowLayout(capacity=capacity, masks=masks, tokens=TOKENS[tokens], ends=ends)


def ragged(lists: list[list[int]]) -> IntegerLists:
    return IntegerLists(
        values=np.array([x for part in lists for x in part], np.int64),
        offsets=np.cumsum([0, *map(len, lists)]),
    )


numbers = st.lists(st.integers(0, 9), max_size=5)


@given(st.data())
def test_rows_come_back_as_they_went_in(data: st.DataObject) -> None:
    count, capacity = data.draw(st.integers(0, 4)), data.draw(st.integers(2, 9))
    masks = ("loss", "vision", "weight")[: data.draw(st.integers(1, 3))]
    layout = layout_of(
        capacity, masks=masks, tokens=data.draw(st.sampled_from(["uint16", "uint32"]))
    )
    same = {"min_size": count, "max_size": count}
    tokens = np.array(
        data.draw(
            st.lists(st.lists(st.integers(0, 65535), min_size=capacity, max_size=capacity), **same)
        ),
        layout.tokens,
    ).reshape(count, capacity)
    ends = data.draw(st.lists(numbers, **same))
    stored = {
        mask: [part * MASKS[mask].numbers for part in data.draw(st.lists(numbers, **same))]
        for mask in masks
    }
    left = np.array(data.draw(st.lists(st.integers(0, 3), **same)), np.int64)
    payloads = encode_rows(
        Rows(
            tokens=tokens,
            left_padding=left,
            ends=ragged(ends),
            masks=tuple(ragged(stored[mask]) for mask in masks),
        ),
        layout,
    )
    assert len(payloads) == count
    for r, payload in enumerate(payloads):
        row = decode_row(payload, layout)
        assert row.tokens.tolist() == tokens[r].tolist()
        assert row.left_padding == left[r]
        assert row.ends.tolist() == ends[r]
        for mask, runs in zip(masks, row.masks, strict=True):
            expected = runs_of_numbers(np.array(stored[mask][r], np.int64), MASKS[mask])
            assert runs.ends.tolist() == expected.ends.tolist()
            assert np.array_equal(runs.values, expected.values, equal_nan=mask == "weight")


def test_the_bytes_of_a_row_are_as_documented() -> None:
    layout = layout_of(5)
    rows = Rows(
        tokens=np.array([[10, 11, 12, 13, 0]], "<u2"),
        left_padding=np.array([0]),
        ends=ragged([[2, 4]]),
        masks=(ragged([[1, 2, 3, 4, 5]]),),
    )
    head = np.array([2, 0, 5], "<u4").tobytes()
    numbers = np.array([10, 11, 12, 13, 0, 2, 4, 1, 2, 3, 4, 5], "<u2").tobytes()
    assert encode_rows(rows, layout) == [head + numbers]


def test_wide_ends_behind_narrow_tokens_are_aligned() -> None:
    layout = RowLayout(capacity=5, masks=("loss",), tokens=TOKENS["uint16"], ends=U32)
    assert layout.tail_start == 24  # 12 + 10, and 2 of zero
    rows = Rows(
        tokens=np.full((1, 5), 65535, "<u2"),
        left_padding=np.array([0]),
        ends=ragged([[5]]),
        masks=(ragged([[5]]),),
    )
    (payload,) = encode_rows(rows, layout)
    assert payload[22:24] == b"\0\0"
    assert decode_row(payload, layout).ends.tolist() == [5]


@pytest.mark.parametrize(
    ("seq_len", "dtype"), [(65533, "uint16"), (65534, "uint16"), (65535, "uint32")]
)
def test_ends_have_room_for_the_capacity_itself(seq_len: int, dtype: str) -> None:
    assert ends_dtype(seq_len) == dtype


def test_a_payload_of_another_length_is_refused() -> None:
    layout = layout_of(4)
    rows = Rows(
        tokens=np.zeros((1, 4), "<u2"),
        left_padding=np.array([0]),
        ends=ragged([[4]]),
        masks=(ragged([[4]]),),
    )
    (payload,) = encode_rows(rows, layout)
    for wrong in (payload[:-1], payload[:5], b"", payload + b"\0"):
        with pytest.raises(CorruptError, match="row of"):
            decode_row(wrong, layout)


def row_of(
    tokens: list[int],
    ends: list[int],
    loss: list[int],
    *,
    left: int = 0,
    vision: list[int] | None = None,
) -> Row:
    masks = {"loss": loss} if vision is None else {"loss": loss, "vision": vision}
    return Row(
        tokens=np.array(tokens, "<u2"),
        left_padding=left,
        ends=np.array(ends, np.int64),
        masks=tuple(
            runs_of_numbers(np.array(numbers, np.int64), MASKS[mask])
            for mask, numbers in masks.items()
        ),
    )


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (row_of([5, 6, 7, 0], [2, 3], [1, 2, 4]), ""),
        (row_of([0, 6, 7, 8], [2, 4], [4], left=1), ""),
        (row_of([5, 6, 7, 0], [2, 3], [1, 2, 4], vision=[0, 1, 4]), ""),
        (row_of([5, 99, 7, 0], [2, 3], [4]), "token id 99"),
        (row_of([5, 6, 7, 0], [2, 2], [4]), "document ends"),
        (row_of([5, 6, 7, 0], [2, 5], [4]), "document ends"),
        (row_of([5, 6, 7, 0], [], [4]), "document ends"),
        (row_of([5, 6, 7, 0], [2, 3], [1, 3]), "mask runs"),
        (row_of([5, 6, 7, 0], [2, 3], [2, 2, 4]), "mask runs"),
        (row_of([5, 6, 7, 1], [2, 3], [4]), "padding holds"),
        (row_of([5, 6, 7, 0], [2, 3], [3, 4]), "padding is in a mask"),
        (row_of([5, 6, 7, 0], [2, 3], [2, 3, 4]), "first token"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(row: Row, wrong: str) -> None:
    found = check_row(row, max_id=10, pad=0)
    assert wrong in found
    assert bool(wrong) == bool(found)


def test_the_first_token_may_have_loss_where_it_is_allowed() -> None:
    row = row_of([5, 6, 7, 0], [2, 3], [2, 3, 4])
    assert check_row(row, max_id=10, pad=0, first_has_loss=True) == ""
