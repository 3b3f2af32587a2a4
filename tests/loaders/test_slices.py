"""Slices of datasets give what lists of the same numbers give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dataprep.loaders import PackedDataset, TokenizedDataset, open_dataset
from support.inprocess import tokenize_here, write_lines
from support.packed import write_packed

SLICES = [slice(3, 9), slice(None, None, -4), slice(-3, None), slice(5, 5), slice(8, 1000)]


@pytest.mark.parametrize("part", SLICES)
def test_a_slice_of_a_packed_dataset_is_stacked(tmp_path: Path, part: slice) -> None:
    packed = write_packed(tmp_path / "d", num_rows=20, seq_len=8, seed=0)
    dataset = open_dataset(packed.folder)
    assert isinstance(dataset, PackedDataset)
    rows = dataset[part]
    assert rows["tokens"].shape == (len(range(20)[part]), 9)
    assert np.array_equal(rows["tokens"], packed.tokens[part])
    assert np.array_equal(rows["positions"], packed.positions[part])


@pytest.mark.parametrize("part", SLICES)
def test_a_slice_of_a_tokenized_dataset_is_a_list_of_documents(tmp_path: Path, part: slice) -> None:
    file = write_lines(tmp_path / "a.jsonl", [{"text": f"{i:03d}"} for i in range(20)])
    tokenize_here(tmp_path / "d", inputs=[str(file)], tokenizer="bytes")
    dataset = open_dataset(tmp_path / "d")
    assert isinstance(dataset, TokenizedDataset)
    texts = [bytes(document["tokens"][1:4].astype(np.uint8)) for document in dataset[part]]
    assert texts == [f"{i:03d}".encode() for i in range(20)[part]]
