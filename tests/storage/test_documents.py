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
    take_tokens,
)
from dataprep.pipeline.storage.masks import (
    MASKS,
    WEIGHT_DTYPE,
    MaskRuns,
    runs_of_parts,
    stored_numbers,
)

NAMES = ("loss", "vision", "weight")


def runs_of(mask: np.ndarray) -> MaskRuns:
    return runs_of_parts(mask, np.ones(len(mask), np.int64))


@st.composite
def batches(draw: st.DrawFn) -> Documents:
    lengths = draw(st.lists(st.integers(1, 6), max_size=8))
    total = sum(lengths)
    same = {"min_size": total, "max_size": total}
    mask = st.lists(st.booleans(), **same).map(lambda m: np.array(m, bool))
    weight = st.lists(st.sampled_from([1.0, 0.5, 0.1]), **same)
    tokens = draw(st.lists(st.integers(0, 65535), min_size=total, max_size=total))
    return Documents(
        tokens=np.array(tokens, "<u2"),
        ends=np.cumsum(lengths, dtype=np.int64),
        masks=(
            runs_of(draw(mask)),
            runs_of(draw(mask)),
            runs_of(np.array(draw(weight), WEIGHT_DTYPE)),
        ),
    )


def as_lists(documents: Documents) -> list[list[list[int]]]:
    return [
        [tokens.tolist(), *(mask.tolist() for mask in masks)]
        for tokens, masks in (
            take_tokens(documents, start, stop)
            for start, stop in pairwise([0, *documents.ends.tolist()])
        )
    ]


@given(batches())
def test_a_record_comes_back_as_it_went_in(documents: Documents) -> None:
    back = decode_documents(encode_documents(documents, NAMES), "uint16", NAMES)
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
    assert encode_documents(concatenate([left, right]), NAMES) == encode_documents(whole, NAMES)


@given(batches(), st.data())
def test_a_record_of_another_length_is_refused(documents: Documents, data: st.DataObject) -> None:
    encoded = encode_documents(documents, NAMES)
    place = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptError):
        decode_documents(encoded[:place], "uint16", NAMES)
    with pytest.raises(CorruptError):
        decode_documents(encoded + b"\0", "uint16", NAMES)


def test_an_id_above_the_largest_is_found() -> None:
    loss = runs_of(np.array([False, True]))
    documents = Documents(tokens=np.array([1, 9], "<u2"), ends=np.array([2]), masks=(loss,))
    assert check_documents(documents, 9) == ""
    assert "token id 9" in check_documents(documents, 8)


@given(batches())
def test_the_index_finds_every_document_and_its_runs(documents: Documents) -> None:
    index = index_documents(documents, NAMES, record=3)
    for entry, (tokens, *masks) in zip(index, as_lists(documents), strict=True):
        start, length = int(entry["start"]), int(entry["length"])
        assert documents.tokens[start : start + length].tolist() == tokens
        for name, runs, mask in zip(NAMES, documents.masks, masks, strict=True):
            stored = stored_numbers(runs, MASKS[name])
            ends, *bits = np.split(stored, MASKS[name].numbers)
            first, count = int(entry[f"{name}_first"]), int(entry[f"{name}_runs"])
            touching = np.clip(ends[first : first + count], start, start + length) - start
            values = np.arange(len(ends)) % 2 == 1
            if bits:
                values = bits[0].astype("<u2").view(WEIGHT_DTYPE)
            own = values[first : first + count]
            assert np.repeat(own, np.diff(touching, prepend=0)).tolist() == mask
