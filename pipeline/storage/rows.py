"""Bytes ↔ arrays of one packed row. Shared by the packer and by `loaders`.

A record of a packed dataset is one row of C = seq_len + 1 tokens. All numbers are little-endian; M
is the number of masks that the manifest lists:

    u32           num_documents
    u32           left_padding: tokens of padding before the first document
    u32[M]        num_runs of each mask
    token[C]      tokens; padding holds the pad id            (manifest: token_dtype)
    0 or 2 bytes of zero, so that what follows is aligned     (manifest: ends_dtype)
    end[num_documents]      where each document ends; what follows the last is padding
    end[num_runs] per mask  where each run of the mask ends; for weights also the values (`masks`)

    C = 8, documents of 3 and 4 tokens, loss on the last two of each:
    ends 3 7   loss 1 3 5 7 8  =  0 1 1 | 0 0 1 1 | 0

Tokens come first and all rows have equally many, so that they can be gathered from a mapped file
at once. The loss mask is final: no loss on padding, nor on the first token of a document, which
nothing before it predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import IntegerLists, ranges
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, U32, TokenDtype
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.masks import (
    MASKS,
    MaskRuns,
    check_runs,
    dense_mask,
    runs_of_numbers,
)
from dataprep.pipeline.types import Offsets


def ends_dtype(seq_len: int) -> TokenDtype:
    """Return the type of ends, the largest of which is C."""
    return "uint16" if seq_len + 1 < 1 << 16 else "uint32"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """What all rows of a dataset have in common."""

    capacity: int  # tokens of a row, C
    masks: tuple[str, ...]
    tokens: np.dtype[Any]  # u16|u32
    ends: np.dtype[Any]  # u16|u32

    @classmethod
    def of_manifest(cls, manifest: PackedManifest) -> RowLayout:
        return cls(
            capacity=manifest.seq_len + 1,
            masks=manifest.masks,
            tokens=TOKEN_DTYPES[manifest.token_dtype],
            ends=TOKEN_DTYPES[manifest.ends_dtype],
        )

    @property
    def head_bytes(self) -> int:
        return 4 * (2 + len(self.masks))

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return how many numbers are stored for a document, and for a run of each mask."""
        return (1, *(MASKS[mask].numbers for mask in self.masks))

    @property
    def tail_start(self) -> int:
        """Return the byte at which the ends start."""
        stop = self.head_bytes + self.capacity * self.tokens.itemsize
        return stop + -stop % self.ends.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Many rows, as the packer has them."""

    tokens: NDArray[Any]  # u16|u32[rows, C]
    left_padding: Offsets  # i64[rows]
    ends: IntegerLists
    masks: tuple[IntegerLists, ...]  # the stored numbers of each mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    tokens: NDArray[Any]  # u16|u32[C]
    left_padding: int
    ends: Offsets  # i64[documents]
    masks: tuple[MaskRuns, ...]


def encode_rows(rows: Rows, layout: RowLayout) -> list[bytes]:
    """Return the bytes of each row."""
    assert rows.tokens.shape[1:] == (layout.capacity,), rows.tokens.shape
    assert len(rows.masks) == len(layout.masks), len(rows.masks)
    parts = (rows.ends, *rows.masks)
    counts = np.stack([np.diff(part.offsets) for part in parts], axis=1)
    runs = counts // np.array(layout.numbers)
    head = np.empty((len(rows.tokens), 2 + len(layout.masks)), U32)
    head[:, 0], head[:, 1], head[:, 2:] = runs[:, 0], rows.left_padding, runs[:, 1:]
    heads = memoryview(head.tobytes())
    tokens = memoryview(np.ascontiguousarray(rows.tokens, layout.tokens).tobytes())
    tails = memoryview(_tails(parts, counts, layout))
    a, b = layout.head_bytes, layout.capacity * layout.tokens.itemsize
    filler = bytes(layout.tail_start - a - b)
    stops = np.cumsum(counts.sum(axis=1) * layout.ends.itemsize).tolist()
    return [
        b"".join((heads[r * a : r * a + a], tokens[r * b : r * b + b], filler, tails[start:stop]))
        for r, (start, stop) in enumerate(pairwise([0, *stops]))
    ]


def _tails(parts: tuple[IntegerLists, ...], counts: NDArray[Any], layout: RowLayout) -> bytes:
    """Return the ends, then the runs of each mask, row by row."""
    # Where part p of row r goes: after all rows before it and its own parts before p.
    places = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
    tails = np.empty(int(counts.sum()), layout.ends)
    for p, part in enumerate(parts):
        tails[ranges(places[:, p], counts[:, p])] = part.values
    return tails.tobytes()


def decode_row(data: bytes, layout: RowLayout) -> Row:
    """Return the arrays of one row; tokens are a view of `data`."""
    if len(data) < layout.tail_start:
        raise CorruptError(f"a row of {len(data)} bytes is shorter than {layout.tail_start} bytes")
    head = np.frombuffer(data, U32, 2 + len(layout.masks)).tolist()
    counts = [n * each for n, each in zip((head[0], *head[2:]), layout.numbers, strict=True)]
    if len(data) != layout.tail_start + sum(counts) * layout.ends.itemsize:
        raise CorruptError(f"a row of {len(data)} bytes does not match its header {head}")
    tail = np.frombuffer(data, layout.ends, sum(counts), layout.tail_start).astype(np.int64)
    ends, *stored = np.split(tail, np.cumsum(counts)[:-1])
    return Row(
        tokens=np.frombuffer(data, layout.tokens, layout.capacity, layout.head_bytes),
        left_padding=head[1],
        ends=ends,
        masks=tuple(
            runs_of_numbers(numbers, MASKS[mask])
            for numbers, mask in zip(stored, layout.masks, strict=True)
        ),
    )


def check_row(row: Row, *, max_id: int, pad: int, first_has_loss: bool = False) -> str:
    """Return what is wrong with a row, or ''.

    With `first_has_loss` the first token of a document may have loss.
    """
    capacity = len(row.tokens)
    if int(row.tokens.max()) > max(max_id, pad):
        return f"token id {int(row.tokens.max())} is above the largest allowed, {max_id}"
    starts = np.concatenate(([row.left_padding], row.ends))
    if not len(row.ends) or starts[-1] > capacity or (np.diff(starts) < 1).any():
        return "document ends do not ascend within the row"
    for runs in row.masks:
        wrong = check_runs(runs, capacity)
        if wrong:
            return wrong
    padding = np.ones(capacity, bool)
    padding[starts[0] : starts[-1]] = False
    if (row.tokens[padding] != pad).any():
        return f"padding holds an id other than {pad}"
    masks = [dense_mask(runs) for runs in row.masks]
    if any(mask[padding].any() for mask in masks if mask.dtype == bool):
        return "padding is in a mask"
    if not first_has_loss and masks[0][starts[:-1]].any():
        return "the first token of a document has loss"
    return ""
