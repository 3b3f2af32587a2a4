"""Pieces of documents into rows with masks, as arrays.

row      piece 0: a b c | piece 1: d e | padding
loss     its document's, but never on the first token of a piece: a and d
runs     of the whole row, so that a mask is known without knowing the pieces
"""

from __future__ import annotations

import numpy as np

from dataprep.pipeline.pack.corpus import Corpus, Parts, Pieces
from dataprep.pipeline.ragged import offsets_of, owner_of
from dataprep.pipeline.storage.documents import TOKEN_DTYPES
from dataprep.pipeline.storage.rows import Ragged, Rows
from dataprep.pipeline.types import Mask, Offsets


def build_rows(
    corpus: Corpus,
    pieces: Pieces,
    row_offsets: Offsets,
    *,
    capacity: int,
    pad: int,
    pad_left: bool = False,
    keep_first_loss: bool = False,
    shift_full_rows: bool = False,
) -> tuple[Rows, Offsets]:
    """Rows, and the targets in each: loss tokens that are not the row's first.

    `row_offsets` cut the pieces into rows. LWM's quirks: `keep_first_loss` in its stream, and
    `shift_full_rows`, which moves the loss of a document that fills its row one token too far.
    """
    num_rows = len(row_offsets) - 1
    row = owner_of(np.diff(row_offsets))
    offsets = offsets_of(pieces.length)
    used = np.diff(offsets[row_offsets])
    left_padding = capacity - used if pad_left else np.zeros(num_rows, np.int64)
    # Where each piece begins in its row.
    places = offsets[:-1] - offsets[row_offsets[:-1]][row] + left_padding[row]
    tokens = np.full((num_rows, capacity), pad, TOKEN_DTYPES[corpus.token_dtype])
    itemsize = tokens.itemsize
    corpus.copy_tokens(pieces, tokens, (row * capacity + places) * itemsize)
    runs = []
    num_targets = np.zeros(num_rows, np.int64)
    for name in corpus.masks:
        parts = corpus.mask_parts(name, pieces)
        if name == "loss":
            if not keep_first_loss:
                parts = _without_first(parts, len(pieces.length))
            if shift_full_rows:
                parts = _shifted(parts, pieces.length == capacity)
            num_targets = _count_targets(parts, row, places, num_rows)
        runs.append(_row_runs(parts, row, left_padding, used, capacity))
    rows = Rows(
        tokens=tokens,
        left_padding=left_padding,
        ends=Ragged(values=places + pieces.length, offsets=row_offsets),
        runs=tuple(runs),
    )
    return rows, num_targets


def _without_first(parts: Parts, num_pieces: int) -> Parts:
    """The first token of every piece becomes a part of its own, without loss."""
    lengths = parts.length.copy()
    full = np.flatnonzero(lengths > 0)
    _, firsts = np.unique(parts.piece[full], return_index=True)
    lengths[full[firsts]] -= 1
    piece = np.concatenate((np.arange(num_pieces), parts.piece))
    order = np.argsort(piece, kind="stable")
    return Parts(
        piece=piece[order],
        flag=np.concatenate((np.zeros(num_pieces, bool), parts.flag))[order],
        length=np.concatenate((np.ones(num_pieces, np.int64), lengths))[order],
    )


def _shifted(parts: Parts, which: Mask) -> Parts:
    """Loss of some pieces moved one token ahead: 0 a b c -> 0 b c 0."""
    dense_piece = np.repeat(parts.piece, parts.length)
    dense = np.repeat(parts.flag, parts.length)
    moved = np.append(dense[1:], False)
    stops = np.append(dense_piece[1:] != dense_piece[:-1], True)
    starts = np.insert(stops[:-1], 0, True)
    moved[stops | starts] = False
    flag = np.where(which[dense_piece], moved, dense)
    return Parts(piece=dense_piece, flag=flag, length=np.ones(len(flag), np.int64))


def _count_targets(parts: Parts, row: Offsets, places: Offsets, num_rows: int) -> Offsets:
    counts = np.zeros(num_rows, np.int64)
    lost = parts.flag & (parts.length > 0)
    np.add.at(counts, row[parts.piece[lost]], parts.length[lost])
    # A row's first token is no target, so loss kept there (LWM's stream) does not count.
    full = np.flatnonzero(parts.length > 0)
    _, firsts = np.unique(parts.piece[full], return_index=True)
    first = full[firsts]
    at_start = parts.flag[first] & (places[parts.piece[first]] == 0)
    np.subtract.at(counts, row[parts.piece[first[at_start]]], 1)
    return counts


def _row_runs(
    parts: Parts, row: Offsets, left_padding: Offsets, used: Offsets, capacity: int
) -> Ragged:
    """Run ends of each row: parts of its pieces with padding around them, alike ones merged."""
    num_rows = len(used)
    rows = np.arange(num_rows)
    of_row = np.concatenate((rows, row[parts.piece], rows))
    order = np.argsort(of_row, kind="stable")
    no = np.zeros(num_rows, bool)
    length = np.concatenate((left_padding, parts.length, capacity - left_padding - used))[order]
    flag = np.concatenate((no, parts.flag, no))[order]
    of_row = of_row[order]
    keep = length > 0
    length, flag, of_row = length[keep], flag[keep], of_row[keep]
    ends = np.cumsum(length) - of_row * capacity
    starts_row = np.concatenate(([True], of_row[1:] != of_row[:-1]))
    ends_run = np.append((flag[1:] != flag[:-1]) | (of_row[1:] != of_row[:-1]), True)
    # A row that starts True begins with a run of length 0.
    empty_first = of_row[starts_row & flag]
    values = np.concatenate((np.zeros(len(empty_first), np.int64), ends[ends_run]))
    owner = np.concatenate((empty_first, of_row[ends_run]))
    order = np.argsort(owner, kind="stable")
    offsets = offsets_of(np.bincount(owner, minlength=num_rows))
    return Ragged(values=values[order], offsets=offsets)
