"""A corpus that grows night after night, and what plain Python says its datasets must hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.loaders import PackedDataset, TokenizedDataset, open_dataset

BOS, EOS, PAD = 256, 257, 258  # of the tokenizer `bytes`


def write_lines(path: Path, texts: Iterable[str], *, mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, mode, encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def write_config(path: Path, **values: Any) -> Path:
    path.write_text(json.dumps({"tokenizer": "bytes", "seq_lens": [64], "out": "out", **values}))
    return path


def texts_of(folder: Path, generation: int | str | None = None) -> list[str]:
    """Return the text of each document of a tokenized dataset, in order."""
    dataset = open_dataset(folder, generation=generation)
    assert isinstance(dataset, TokenizedDataset)
    return [text_of(dataset[i]["tokens"]) for i in range(len(dataset))]


def text_of(tokens: Any) -> str:
    ids = [int(id) for id in tokens]
    assert (ids[0], ids[-1]) == (BOS, EOS), ids
    return bytes(ids[1:-1]).decode()


def documents_in_rows(folder: Path, generation: int | str | None = None) -> Iterator[list[int]]:
    """Yield the tokens of each segment of a packed dataset, row by row; checks loss and padding."""
    dataset = open_dataset(folder, generation=generation)
    assert isinstance(dataset, PackedDataset)
    for number in range(len(dataset)):
        row = dataset[number]
        yield from segments_of(row)


def segments_of(row: Mapping[str, Any]) -> Iterator[list[int]]:
    segment = row["segment_ids"]
    assert not row["loss_mask"][segment == 0].any()
    for own in range(1, int(segment.max(initial=0)) + 1):
        place = np.flatnonzero(segment == own)
        assert row["positions"][place].tolist() == list(range(len(place)))
        yield row["tokens"][place].tolist()


def whole_texts(folder: Path, generation: int | str | None = None) -> list[str]:
    """Return the texts of all documents of rows, each of which is in one row, sorted; what was
    forgotten is padding."""
    segments = documents_in_rows(folder, generation)
    return sorted(text_of(tokens) for tokens in segments if set(tokens) != {PAD})
