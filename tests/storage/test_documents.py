"""Records and masks come back as they went in, however they are cut and joined."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.documents import (
    Documents,
    check_documents,
    concatenate,
    cut,
    decode_documents,
    encode_documents,
    index_documents,
    join_runs,
    mask_of_runs,
    runs_of_parts,
    slice_runs,
    take_tokens,
)

masks = st.lists(st.booleans(), max_size=40)


def runs_of(mask: list[bool]) -> np.ndarray:
    return runs_of_parts(np.array(mask, bool), np.ones(len(mask), np.int64))


@st.composite
def batches(draw: st.DrawFn) -> Documents:
    lengths = draw(st.lists(st.integers(1, 6), max_size=8))
    total = sum(lengths)
    mask = st.lists(st.booleans(), min_size=total, max_size=total)
    tokens = draw(st.lists(st.integers(0, 65535), min_size=total, max_size=total))
    return Documents(
        tokens=np.array(tokens, "<u2"),
        ends=np.cumsum(lengths, dtype=np.int64),
        runs=(runs_of(draw(mask)), runs_of(draw(mask))),
    )


def as_lists(documents: Documents) -> list[list[list[int]]]:
    return [
        [tokens.tolist(), *(mask.tolist() for mask in masks)]
        for tokens, masks in (
            take_tokens(documents, start, stop)
            for start, stop in pairwise([0, *documents.ends.tolist()])
        )
    ]


@given(masks)
def test_a_mask_survives_its_runs(mask: list[bool]) -> None:
    assert mask_of_runs(runs_of(mask), len(mask)).tolist() == mask


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4))))
def test_parts_give_the_same_runs_as_their_tokens(parts: list[tuple[bool, int]]) -> None:
    flags = np.array([flag for flag, _ in parts], bool)
    lengths = np.array([length for _, length in parts], np.int64)
    dense = np.repeat(flags, lengths).tolist()
    assert runs_of_parts(flags, lengths).tolist() == runs_of(dense).tolist()


@given(masks, st.data())
def test_a_slice_of_runs_is_the_slice_of_the_mask(mask: list[bool], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(mask)))
    stop = data.draw(st.integers(start, len(mask)))
    runs = slice_runs(runs_of(mask), start, stop)
    assert mask_of_runs(runs, stop - start).tolist() == mask[start:stop]
    assert runs.tolist() == runs_of(mask[start:stop]).tolist()


@given(masks, masks)
def test_joined_runs_are_the_joined_masks(left: list[bool], right: list[bool]) -> None:
    joined = join_runs(runs_of(left), len(left), runs_of(right))
    assert joined.tolist() == runs_of(left + right).tolist()


@given(batches())
def test_a_record_comes_back_as_it_went_in(documents: Documents) -> None:
    back = decode_documents(encode_documents(documents), "uint16", 2)
    assert as_lists(back) == as_lists(documents)
    assert check_documents(back, 65535) == ""


@given(st.lists(batches(), min_size=1, max_size=4), st.data())
def test_cutting_and_joining_change_no_document(
    parts: list[Documents], data: st.DataObject
) -> None:
    whole = concatenate(parts)
    expected = [document for part in parts for document in as_lists(part)]
    assert as_lists(whole) == expected
    count = data.draw(st.integers(0, len(whole.ends)))
    left, right = cut(whole, count)
    assert as_lists(left) + as_lists(right) == expected
    assert encode_documents(concatenate([left, right])) == encode_documents(whole)


@given(batches(), st.data())
def test_a_record_of_another_length_is_refused(documents: Documents, data: st.DataObject) -> None:
    encoded = encode_documents(documents)
    place = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptError):
        decode_documents(encoded[:place], "uint16", 2)
    with pytest.raises(CorruptError):
        decode_documents(encoded + b"\0", "uint16", 2)


def test_an_id_above_the_largest_is_found() -> None:
    documents = Documents(tokens=np.array([1, 9], "<u2"), ends=np.array([2]), runs=(np.array([2]),))
    assert check_documents(documents, 9) == ""
    assert "token id 9" in check_documents(documents, 8)


@given(batches())
def test_the_index_finds_every_document_and_its_runs(documents: Documents) -> None:
    index = index_documents(documents, ("loss", "vision"), record=3)
    for entry, (tokens, *masks) in zip(index, as_lists(documents), strict=True):
        start, length = int(entry["start"]), int(entry["length"])
        assert documents.tokens[start : start + length].tolist() == tokens
        for name, runs, mask in zip(("loss", "vision"), documents.runs, masks, strict=True):
            first, count = int(entry[f"{name}_first"]), int(entry[f"{name}_runs"])
            touching = np.clip(runs[first : first + count], start, start + length) - start
            flags = (np.arange(first, first + count) % 2).astype(bool)
            assert np.repeat(flags, np.diff(touching, prepend=0)).tolist() == mask
