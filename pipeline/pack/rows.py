"""Build rows with masks from pieces of documents, as arrays.

row      piece 0: a b c | piece 1: d e | padding
loss     as in the document, but never on the first token of a piece: a and d
first    whether a and d had loss, where they are the first tokens of documents
runs     over the whole row, so that a mask can be read without the pieces
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataprep.pipeline.pack.corpus import Corpus, MaskParts
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.strategies import RowQuirks
from dataprep.pipeline.ragged import IntegerLists, offsets_of, owner_of
from dataprep.pipeline.storage.documents import TOKEN_DTYPES
from dataprep.pipeline.storage.masks import MASKS, MaskKind, numbers_of
from dataprep.pipeline.storage.rows import Rows
from dataprep.pipeline.types import Mask, Offsets


def build_rows(
    corpus: Corpus,
    pieces: DocumentPieces,
    row_offsets: Offsets,
    *,
    capacity: int,
    pad: int,
    quirks: RowQuirks,
    is_first: bool = True,
) -> tuple[Rows, Offsets]:
    """Return the rows, and the targets in each: loss tokens that are not the row's first.

    `row_offsets` cut the pieces into rows; `is_first`: these are the first rows of the dataset.
    """
    num_rows = len(row_offsets) - 1
    row = owner_of(np.diff(row_offsets))
    offsets = offsets_of(pieces.length)
    used = np.diff(offsets[row_offsets])
    left_padding = capacity - used if quirks.pad_left else np.zeros(num_rows, np.int64)
    # Where each piece begins in its row.
    places = offsets[:-1] - offsets[row_offsets[:-1]][row] + left_padding[row]
    tokens = np.full((num_rows, capacity), pad, TOKEN_DTYPES[corpus.token_dtype])
    itemsize = tokens.itemsize
    corpus.copy_tokens(pieces, tokens, (row * capacity + places) * itemsize)
    masks = []
    num_targets = np.zeros(num_rows, np.int64)
    first_loss = np.zeros(len(row), np.bool_)
    for name in corpus.masks:
        parts = corpus.mask_parts(name, pieces)
        if name == "loss":
            begins = pieces.begins_document
            if quirks.rows_share:  # what begins a row has ended the row before
                begins &= (places > 0) | (is_first & (row == 0))
            first_loss = parts.value[_first_parts(parts)] & begins
            parts = _final_loss(parts, pieces, capacity, quirks)
            num_targets = _count_targets(parts, row, places, num_rows)
        masks.append(_row_numbers(parts, row, left_padding, used, capacity, MASKS[name]))
    rows = Rows(
        tokens=tokens,
        left_padding=left_padding,
        ends=IntegerLists(values=places + pieces.length, offsets=row_offsets),
        first_loss=first_loss,
        masks=tuple(masks),
    )
    return rows, num_targets


def _final_loss(
    parts: MaskParts, pieces: DocumentPieces, capacity: int, quirks: RowQuirks
) -> MaskParts:
    """Return the loss as rows store it: none on the first token of a piece, unless LWM has it."""
    if not quirks.keep_first_loss:
        parts = _without_first(parts, len(pieces.length))
    if quirks.shift_full_rows:
        parts = _shifted(parts, pieces.length == capacity)
    return parts


def _without_first(parts: MaskParts, num_pieces: int) -> MaskParts:
    """Make the first token of every piece a part of its own, without loss."""
    lengths = parts.length.copy()
    lengths[_first_parts(parts)] -= 1
    piece = np.concatenate((np.arange(num_pieces), parts.piece))
    order = np.argsort(piece, kind="stable")
    return MaskParts(
        piece=piece[order],
        value=np.concatenate((np.zeros(num_pieces, bool), parts.value))[order],
        length=np.concatenate((np.ones(num_pieces, np.int64), lengths))[order],
    )


def _first_parts(parts: MaskParts) -> Offsets:
    """Return which part has the first token of each piece."""
    full = np.flatnonzero(parts.length > 0)
    piece = parts.piece[full]
    return full[np.append(True, piece[1:] != piece[:-1])] if len(full) else full


def _shifted(parts: MaskParts, which: Mask) -> MaskParts:
    """Move the loss of some pieces one token ahead: 0 a b c -> 0 b c 0."""
    dense_piece = np.repeat(parts.piece, parts.length)
    dense = np.repeat(parts.value, parts.length)
    moved = np.append(dense[1:], False)
    stops = np.append(dense_piece[1:] != dense_piece[:-1], True)
    starts = np.insert(stops[:-1], 0, True)
    moved[stops | starts] = False
    value = np.where(which[dense_piece], moved, dense)
    return MaskParts(piece=dense_piece, value=value, length=np.ones(len(value), np.int64))


def _count_targets(parts: MaskParts, row: Offsets, places: Offsets, num_rows: int) -> Offsets:
    counts = np.zeros(num_rows, np.int64)
    lost = parts.value & (parts.length > 0)
    np.add.at(counts, row[parts.piece[lost]], parts.length[lost])
    # The first token of a row is not a target, so loss there (LWM's stream) does not count.
    first = _first_parts(parts)
    at_start = parts.value[first] & (places[parts.piece[first]] == 0)
    np.subtract.at(counts, row[parts.piece[first[at_start]]], 1)
    return counts


def _row_numbers(
    parts: MaskParts,
    row: Offsets,
    left_padding: Offsets,
    used: Offsets,
    capacity: int,
    kind: MaskKind,
) -> IntegerLists:
    """Return the stored numbers of a mask for each row: parts of pieces and padding, merged."""
    num_rows = len(used)
    rows = np.arange(num_rows)
    of_row = np.concatenate((rows, row[parts.piece], rows))
    order = np.argsort(of_row, kind="stable")
    around = np.full(num_rows, kind.default)
    length = np.concatenate((left_padding, parts.length, capacity - left_padding - used))[order]
    value = np.concatenate((around, parts.value, around))[order]
    of_row = of_row[order]
    keep = length > 0
    length, value, of_row = length[keep], value[keep], of_row[keep]
    ends = np.cumsum(length) - of_row * capacity
    ends_run = np.append((value[1:] != value[:-1]) | (of_row[1:] != of_row[:-1]), True)
    owner, ends, value = of_row[ends_run], ends[ends_run], value[ends_run]
    if kind.has_values:
        return _by_row([(owner, ends), (owner, numbers_of(value, kind))], num_rows)
    # A row that starts True begins with a run of length 0.
    starts_row = np.concatenate(([True], owner[1:] != owner[:-1]))
    empty = owner[starts_row & value]
    return _by_row([(empty, np.zeros(len(empty), np.int64)), (owner, ends)], num_rows)


def _by_row(parts: Sequence[tuple[Offsets, Offsets]], num_rows: int) -> IntegerLists:
    """Join parts, each numbers with their rows, row by row; within a row the first part first."""
    owner = np.concatenate([owner for owner, _ in parts])
    numbers = np.concatenate([numbers for _, numbers in parts])
    order = np.argsort(owner, kind="stable")
    return IntegerLists(
        values=numbers[order], offsets=offsets_of(np.bincount(owner, minlength=num_rows))
    )
