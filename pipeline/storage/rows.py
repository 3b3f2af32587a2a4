"""Bytes ↔ arrays of one packed row. Shared by the packer and by `loaders`.

A record of a packed dataset is one row of C = seq_len + 1 tokens. All numbers are little-endian; M
is the number of masks that the manifest lists:

    u32           num_documents
    u32           left_padding: tokens of padding before the first document
    u32[M]        num_runs of each mask
    token[C]      tokens; padding holds the pad id            (manifest: token_dtype)
    0 or 2 bytes of zero, so that what follows is aligned     (manifest: ends_dtype)
    end[num_documents]      where each document ends; what follows the last is padding
    end[num_documents / 16, rounded up]    a bit for each document, the lowest first: `first_loss`
    end[num_runs] per mask  where each run of the mask ends; for weights also the values (`masks`)

    C = 8, documents of 3 and 4 tokens, loss on the last two of each, and on the first of the second
    before they were packed:
    ends 3 7   first_loss 2 = 0 1   loss 1 3 5 7 8  =  0 1 1 | 0 0 1 1 | 0

Tokens come first and all rows have equally many, so that they can be gathered from a mapped file
at once. The loss mask is final: no loss on padding, nor on the first token of a document, which
nothing before it predicts. Trainers that predict it anyway, from a token that they put before the
row, need to know whether it had loss: that is `first_loss`. A piece that begins inside a document,
or with a token that another row ends with, has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import IntegerLists, numbers_within, offsets_of, owner_of, ranges
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, U32
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.types import Mask, Offsets

BITS = 16  # of a number of the tail, which has 16 or 32, that hold the bits of documents


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
        """Return how many numbers are stored for a run of each mask."""
        return tuple(MASKS[mask].numbers for mask in self.masks)

    @property
    def tail_start(self) -> int:
        """Return the byte at which the ends start."""
        stop = self.head_bytes + self.capacity * self.tokens.itemsize
        return stop + -stop % self.ends.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Many rows."""

    tokens: NDArray[Any]  # u16|u32[rows, C]
    left_padding: Offsets  # i64[rows]
    ends: IntegerLists
    first_loss: Mask  # bool[documents of all rows]: whether the document's first token has loss
    masks: tuple[IntegerLists, ...]  # the stored numbers of each mask


def encode_rows(rows: Rows, layout: RowLayout) -> list[bytes]:
    """Return the bytes of each row."""
    assert rows.tokens.shape[1:] == (layout.capacity,), rows.tokens.shape
    assert len(rows.masks) == len(layout.masks), len(rows.masks)
    parts = (rows.ends, _bits(rows), *rows.masks)
    counts = np.stack([np.diff(part.offsets) for part in parts], axis=1)
    head = np.empty((len(rows.tokens), 2 + len(layout.masks)), U32)
    head[:, 0], head[:, 1] = counts[:, 0], rows.left_padding
    head[:, 2:] = counts[:, 2:] // np.array(layout.numbers)
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


def bit_numbers(num_documents: Any) -> Any:
    """Return how many numbers hold a bit for each of so many documents."""
    return -(-num_documents // BITS)


def _bits(rows: Rows) -> IntegerLists:
    """Return `first_loss` as it is stored."""
    documents = np.diff(rows.ends.offsets)
    offsets = offsets_of(bit_numbers(documents))
    place = numbers_within(documents)
    values = np.zeros(offsets[-1], np.int64)
    number = offsets[:-1][owner_of(documents)] + place // BITS
    np.add.at(values, number[rows.first_loss], 1 << place[rows.first_loss] % BITS)
    return IntegerLists(values=values, offsets=offsets)


def bits_of(numbers: Offsets, first: Offsets, documents: Offsets) -> Mask:
    """Return the bit of each document of many rows; those of row i are in numbers[first[i]:]."""
    place = numbers_within(documents)
    found: Mask = (numbers[np.repeat(first, documents) + place // BITS] >> place % BITS & 1) > 0
    return found


def _tails(parts: tuple[IntegerLists, ...], counts: NDArray[Any], layout: RowLayout) -> bytes:
    """Return the ends, then the runs of each mask, row by row."""
    # Where part p of row r goes: after all rows before it and its own parts before p.
    places = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
    tails = np.empty(int(counts.sum()), layout.ends)
    for p, part in enumerate(parts):
        tails[ranges(places[:, p], counts[:, p])] = part.values
    return tails.tobytes()


def decode_rows(payloads: Sequence[bytes], layout: RowLayout) -> Rows:
    """Return the arrays of many rows: what `encode_rows` was given."""
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    data = np.frombuffer(b"".join(payloads), np.uint8)
    return decode_rows_in(data, np.cumsum(sizes) - sizes, sizes, layout)


def decode_rows_in(
    data: NDArray[np.uint8], starts: Offsets, sizes: Offsets, layout: RowLayout
) -> Rows:
    """Return the arrays of rows that begin at some places of `data` and have these sizes."""
    short = np.flatnonzero(sizes < layout.tail_start)
    if len(short):
        raise CorruptError(
            f"a row of {sizes[short[0]]} bytes is shorter than {layout.tail_start} bytes"
        )
    head = _taken(data, starts, U32, 2 + len(layout.masks)).astype(np.int64)
    counts = part_sizes(head, layout)
    tail_bytes = counts.sum(axis=1) * layout.ends.itemsize
    odd = np.flatnonzero(sizes != layout.tail_start + tail_bytes)
    if len(odd):
        raise CorruptError(
            f"a row of {sizes[odd[0]]} bytes does not match its header {head[odd[0]].tolist()}"
        )
    tails = data.take(ranges(starts + layout.tail_start, tail_bytes)).view(layout.ends)
    places = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
    ends, bits, *masks = (
        IntegerLists(
            values=tails[ranges(places[:, p], counts[:, p])].astype(np.int64),
            offsets=offsets_of(counts[:, p]),
        )
        for p in range(counts.shape[1])
    )
    rows = Rows(
        tokens=_taken(data, starts + layout.head_bytes, layout.tokens, layout.capacity),
        left_padding=head[:, 1],
        ends=ends,
        first_loss=bits_of(bits.values, bits.offsets[:-1], counts[:, 0]),
        masks=tuple(masks),
    )
    if not np.array_equal(_bits(rows).values, bits.values):
        raise CorruptError("a row has a bit for a document that it does not have")
    return rows


def _taken(
    data: NDArray[np.uint8], places: Offsets, dtype: np.dtype[Any], count: int
) -> NDArray[Any]:
    """Return `count` numbers from each of these places on, which lie within `data`."""
    size = count * dtype.itemsize
    if not len(places):
        return np.zeros((0, count), dtype)
    every = np.ndarray((len(data) - size + 1,), f"V{size}", data.data, 0, (1,))
    return every[places].view(dtype).reshape(-1, count)


def part_sizes(head: NDArray[np.int64], layout: RowLayout) -> NDArray[np.int64]:
    """Return how many numbers each part of the tail of each row has: ends, bits, masks."""
    documents = head[:, 0]
    masks = head[:, 2:] * np.array(layout.numbers, np.int64)
    return np.column_stack((documents, bit_numbers(documents), masks))
