"""A plan of rows: which tokens of which documents are in which row.

    lengths  [5, 3, 9]   capacity 8
    rows     [0:0+5 | 1:0+3]  [2:0+8]  [2:7+2]          document:start+length

    document     [0, 1, 2, 2]
    start        [0, 0, 0, 7]
    length       [5, 3, 8, 2]
    row_offsets  [0, 2, 3, 4]     pieces of row r are row_offsets[r] ≤ p < row_offsets[r + 1]

A piece may begin with the head of its document, and go on from `start` with what is left of its
length: so a conversation without its oldest turns is one segment.

Arrays only: a plan of ten million documents holds no Python object for any of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataprep.configs.base import Side
from dataprep.pipeline.errors import ConfigError

Ints = NDArray[np.int64]
Lengths = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of the documents; counts of windows are added.

    A document is either empty, dropped, truncated, split or whole.

    tokens in rows = tokens - tokens_truncated - tokens_dropped + tokens_shared
    rows * capacity = tokens in rows + padding
    """

    documents: int = 0
    tokens: int = 0
    documents_empty: int = 0  # of length 0; they have no piece
    documents_split: int = 0  # all tokens are in rows, but in more than one
    documents_truncated: int = 0
    documents_dropped: int = 0
    tokens_truncated: int = 0  # lost from documents that were kept
    tokens_dropped: int = 0  # lost with documents that were dropped
    tokens_shared: int = 0  # in two rows: a target in one, the first of its piece in the other
    blocks_cut: int = 0  # too long for a row, so cut anyway
    pieces: int = 0
    rows: int = 0
    padding: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlan:
    capacity: int  # tokens a row can hold: seq_len + 1
    document: Ints  # i64[pieces]
    start: Ints  # i64[pieces], first token taken of the document, after the head
    length: Ints  # i64[pieces], tokens taken, the head included; never 0
    row_offsets: Ints  # i64[rows + 1], into those above
    counts: Counts
    head: Ints | None = None  # i64[pieces], tokens of a piece that begin its document; None: 0
    pad_side: Side = "right"  # where a row that is not full has its padding

    @property
    def num_rows(self) -> int:
        return len(self.row_offsets) - 1


def checked(lengths: ArrayLike, capacity: int) -> Lengths:
    if capacity < 2:
        raise ConfigError(
            f"a row of {capacity} tokens has no target (seq_len {capacity - 1}); "
            "set seq_len to at least 1"
        )
    array = np.asarray(lengths, dtype=np.int64)
    assert array.ndim == 1, f"lengths must be one-dimensional, got shape {array.shape}"
    assert not len(array) or array.min() >= 0, f"negative document length {array.min()}"
    return array


def checked_max_segments(max_segments: int | None) -> int | None:
    if max_segments is not None and max_segments < 1:
        raise ConfigError(f"max_segments must be at least 1, got {max_segments}")
    return max_segments
