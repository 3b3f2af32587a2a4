"""Packed rows come back as they went in, and what does not fit together is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.storage.documents import U32, ends_dtype
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.rows import RowLayout, Rows, decode_rows, encode_rows

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
    ends = data.draw(st.lists(st.lists(st.integers(0, 9), max_size=40), **same))
    documents = sum(map(len, ends))
    first_loss = data.draw(st.lists(st.booleans(), min_size=documents, max_size=documents))
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
            first_loss=np.array(first_loss, np.bool_),
            masks=tuple(ragged(stored[mask]) for mask in masks),
        ),
        layout,
    )
    assert len(payloads) == count
    back = decode_rows(payloads, layout)
    assert back.tokens.tolist() == tokens.tolist()
    assert back.left_padding.tolist() == left.tolist()
    assert [part.tolist() for part in back.ends] == ends
    assert back.first_loss.tolist() == first_loss
    for mask, found in zip(masks, back.masks, strict=True):
        assert [part.tolist() for part in found] == stored[mask]
    assert encode_rows(back, layout) == payloads


def test_the_bytes_of_a_row_are_as_documented() -> None:
    layout = layout_of(5)
    rows = Rows(
        tokens=np.array([[10, 11, 12, 13, 0]], "<u2"),
        left_padding=np.array([0]),
        ends=ragged([[2, 4]]),
        first_loss=np.array([False, True]),
        masks=(ragged([[1, 2, 3, 4, 5]]),),
    )
    head = np.array([2, 0, 5], "<u4").tobytes()
    numbers = np.array([10, 11, 12, 13, 0, 2, 4, 0b10, 1, 2, 3, 4, 5], "<u2").tobytes()
    assert encode_rows(rows, layout) == [head + numbers]


def test_wide_ends_behind_narrow_tokens_are_aligned() -> None:
    layout = RowLayout(capacity=5, masks=("loss",), tokens=TOKENS["uint16"], ends=U32)
    assert layout.tail_start == 24  # 12 + 10, and 2 of zero
    rows = Rows(
        tokens=np.full((1, 5), 65535, "<u2"),
        left_padding=np.array([0]),
        ends=ragged([[5]]),
        first_loss=np.zeros(1, np.bool_),
        masks=(ragged([[5]]),),
    )
    (payload,) = encode_rows(rows, layout)
    assert payload[22:24] == b"\0\0"
    assert decode_rows([payload], layout).ends.values.tolist() == [5]


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
        first_loss=np.zeros(1, np.bool_),
        masks=(ragged([[4]]),),
    )
    (payload,) = encode_rows(rows, layout)
    for wrong in (payload[:-1], payload[:5], b"", payload + b"\0"):
        with pytest.raises(CorruptError, match="row of"):
            decode_rows([payload, wrong, payload], layout)


def test_a_bit_of_a_document_that_is_not_there_is_damage() -> None:
    layout = layout_of(4)
    rows = Rows(
        tokens=np.zeros((1, 4), "<u2"),
        left_padding=np.array([0]),
        ends=ragged([[2, 4]]),
        first_loss=np.array([True, False]),
        masks=(ragged([[4]]),),
    )
    (payload,) = encode_rows(rows, layout)
    bits = layout.tail_start + 2 * layout.ends.itemsize
    wrong = payload[:bits] + bytes([0b101]) + payload[bits + 1 :]
    with pytest.raises(CorruptError, match="a document that it does not have"):
        decode_rows([wrong], layout)
