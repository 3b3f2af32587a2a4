"""Tokenized datasets with documents of given lengths, and what batches of them must be: plain
Python, a document and a token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.loaders import Buckets, ByTokens, open_dataset
from dataprep.loaders.order import shuffle, shuffle_lists
from support.inprocess import tokenize_here, write_lines

Piece = tuple[int, int, int]  # document, its first token, tokens


def write_documents(folder: Path, lengths: Sequence[int], **config: Any) -> Path:
    """A dataset whose document i has lengths[i] tokens, of which some have loss, and weights."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(lengths))
    records = [
        {
            "q": "".join(map(chr, rng.integers(97, 123, n // 3))),
            "a": "".join(map(chr, rng.integers(65, 91, n - n // 3))),
        }
        for n in lengths
    ]
    path = write_lines(folder / "in.jsonl", records)
    settings = {"fields": "[q],a*0.5", "add_bos": False, "add_eos": False, **config}
    tokenize_here(folder / "tokenized", inputs=[str(path)], tokenizer="bytes", **settings)
    return folder / "tokenized"


def pieces_of(lengths: Sequence[int], most: int, overflow: str) -> list[Piece]:
    """The pieces of documents, in the order in which they are numbered."""
    first: list[Piece] = []
    rest: list[Piece] = []
    for document, length in enumerate(lengths):
        if length <= most:
            first.append((document, 0, length))
        elif overflow == "truncate":
            first.append((document, 0, most))
        elif overflow == "split":
            first.append((document, 0, most))
            start = most - 1
            while start + 1 < length:
                rest.append((document, start, min(most, length - start)))
                start += most - 1
        else:
            assert overflow == "drop"
    return first + rest


def batches_of(
    lengths: Sequence[int], batching: ByTokens | Buckets, epoch: int, seed: int | None
) -> list[tuple[int, int, list[Piece]]]:
    """(rows, columns, pieces) of the batches of an epoch, the last of which may not be full."""
    widths: dict[int, list[Piece]] = {}
    pieces = pieces_of(lengths, batching.longest + 1, batching.overflow)
    for piece in pieces:
        width = min(width for width in _widths(batching) if width >= max(1, piece[2] - 1))
        widths.setdefault(width, []).append(piece)
    found = sorted(widths)
    ranked: list[tuple[int, Piece]] = []
    for number, width in enumerate(found):
        own = widths[width]
        order = np.arange(len(own))
        if seed is not None:
            lists = np.full(len(own), epoch * len(found) + number)
            sizes = np.full(len(own), len(own))
            order = shuffle_lists(order, lists, sizes, seed=seed, name="")
        ranked += [(width, own[i]) for i in order.tolist()]
    batches = []
    while ranked:
        width = ranked[-1][0]
        rows = batching.rows(width)
        batches.append((rows, width, [piece for _, piece in ranked[-rows:]]))
        del ranked[-rows:]
    if seed is not None:
        order = shuffle(len(batches) * epoch + np.arange(len(batches)), len(batches), seed=seed)
        batches = [batches[i] for i in order.tolist()]
    return batches


def _widths(batching: ByTokens | Buckets) -> list[int]:
    if isinstance(batching, Buckets):
        return list(batching.lengths)
    most = -(-batching.longest // batching.multiple_of) * batching.multiple_of
    return list(range(batching.multiple_of, most + 1, batching.multiple_of))


def default_view(folder: Path, rows: int, width: int, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The default view of a batch, token by token."""
    dataset: Any = open_dataset(folder)
    pad = dataset.about.tokenizer.pad or 0
    batch = {
        "inputs": np.full((rows, width), pad, np.int32),
        "targets": np.full((rows, width), pad, np.int32),
        "loss_mask": np.zeros((rows, width), np.bool_),
        "segment_ids": np.zeros((rows, width), np.int32),
        "positions": np.zeros((rows, width), np.int32),
        "loss_weights": np.zeros((rows, width), np.float32),
    }
    for row, (number, start, length) in enumerate(pieces):
        document = dataset[number]
        for column in range(min(width, length)):
            batch["inputs"][row, column] = document["tokens"][start + column]
            batch["segment_ids"][row, column] = 1
            batch["positions"][row, column] = column
        for column in range(min(width, length - 1)):
            at = start + column + 1
            batch["targets"][row, column] = document["tokens"][at]
            batch["loss_mask"][row, column] = document["loss_mask"][at]
            batch["loss_weights"][row, column] = document["loss_weights"][at]
    return batch
