"""Stored rows -> the dense arrays of a batch, with numpy alone.

    ends 3 7, left padding 0, C = 8      segments  1 1 1 2 2 2 2 0
                                         positions 0 1 2 0 1 2 3 0
    loss runs 1 3 5 7 8                  mask      0 1 1 0 0 1 1 0
    first_loss 0 1, if asked for         mask      0 1 1 1 0 1 1 0

A request names the columns and how far each array is shifted: inputs are tokens shifted by 0,
targets by 1. `expand_numba` does the same in one pass where numba is installed.

The pieces of the rows (documents, runs of a mask) are computed for the whole batch first. Then
they are repeated into dense arrays a few rows at a time: so the arrays between two steps stay in
the cache, and are too small for the allocator to hand them back to the system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.gather import RowBytes, gather_head, gather_tails, gather_tokens
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import numbers_within, offsets_of, ranges
from dataprep.pipeline.storage.masks import MASKS, weights_of
from dataprep.pipeline.storage.rows import RowLayout, bits_of, part_sizes
from dataprep.pipeline.types import Mask, Offsets

Int32s = NDArray[np.int32]

LOSS = 0  # the number of the loss mask, which is the first of every dataset
ABSENT = -1  # the number of a mask that the dataset does not have: all False, all 1

# Loss weights are positive and finite; these are the bits of the first and the last such float16.
LEAST_WEIGHT, LARGEST_WEIGHT = 0x0001, 0x7BFF

BAD_HEAD = "the header of a row does not fit its size"
BAD_ENDS = "the ends of the documents of a row do not ascend"
BAD_RUNS = "the runs of a mask of a row do not ascend to its end"
BAD_WEIGHT = "a loss weight of a row is not a positive number"

_CHUNK_TOKENS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which arrays to make: columns [start, start + width), each taken `shift` further right."""

    start: int
    width: int
    tokens: tuple[int, ...] = ()  # shifts
    segments: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    masks: tuple[tuple[int, int], ...] = ()  # (number of the mask or ABSENT, shift)
    weights: tuple[tuple[int, int], ...] = ()  # the same, of masks that are weights
    first_loss: bool = False  # whether the first token of a document has loss as the document says


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """The arrays that a request asks for, in its order."""

    tokens: Int32s  # i32[shifts, rows, width]
    segments: Int32s
    positions: Int32s
    masks: NDArray[np.bool_]
    weights: NDArray[np.float32]


def expand(
    rows: RowBytes, layout: RowLayout, request: Request, out: Arrays, places: Offsets
) -> None:
    """Write row i into row places[i] of `out`; raise a CorruptError if a row contradicts itself."""
    if not len(rows):
        return
    if request.tokens:
        _expand_tokens(rows, layout, request, out.tokens, places)
    if not (request.segments or request.positions or request.masks or request.weights):
        return
    head = gather_head(rows, layout.head_bytes).astype(np.int64)
    sizes = part_sizes(head, layout)
    totals = sizes.sum(axis=1)
    if (layout.tail_start + layout.ends.itemsize * totals != rows.size).any():
        raise CorruptError(BAD_HEAD)
    tails = gather_tails(rows, layout, totals).astype(np.int64)
    starts = np.cumsum(sizes).reshape(sizes.shape) - sizes  # of each part among the tails
    documents = head[:, 0]
    ends = tails[ranges(starts[:, 0], documents)]
    _expand_documents(head[:, 1], ends, documents, layout.capacity, request, out, places)
    # All masks are checked, wanted or not: damage is an error whatever the view.
    for mask, name in enumerate(layout.masks):
        pieces, first = head[:, mask + 2], starts[:, mask + 2]
        edges = tails[ranges(first, pieces)]
        _check(edges, pieces, layout.capacity, BAD_RUNS)
        if MASKS[name].is_weight:
            values = _weights(tails[ranges(first + pieces, pieces)])
        else:
            values = (numbers_within(pieces) & 1).astype(bool)
        for wanted, shift, target, _ in _wanted(request, out):
            if wanted == mask:
                lengths = _lengths(edges, pieces, request.start + shift, request.width)
                for part, marks in _repeat(values, lengths, pieces, request.width):
                    target[at_places(places, part)] = marks
    for wanted, _, target, absent in _wanted(request, out):
        if wanted == ABSENT:
            target[places] = absent
    if request.first_loss:
        bits = bits_of(tails, starts[:, 1], documents)
        _set_firsts(head[:, 1], ends, documents, bits, request, out, places)


def _weights(bits: Offsets) -> NDArray[np.float32]:
    if ((bits < LEAST_WEIGHT) | (bits > LARGEST_WEIGHT)).any():
        raise CorruptError(BAD_WEIGHT)
    return weights_of(bits).astype(np.float32)


def _wanted(request: Request, out: Arrays) -> Iterator[tuple[int, int, NDArray[Any], float]]:
    """Yield each mask and weight that is asked for: its number, shift, array, and its default."""
    for (mask, shift), marks in zip(request.masks, out.masks, strict=True):
        yield mask, shift, marks, False
    for (mask, shift), weights in zip(request.weights, out.weights, strict=True):
        yield mask, shift, weights, 1.0


def _expand_tokens(
    rows: RowBytes, layout: RowLayout, request: Request, out: Int32s, places: Offsets
) -> None:
    start, width, chunk = request.start, request.width, _chunk(request.width)
    columns = slice(start, start + width + max(request.tokens))
    for i, tokens in enumerate(gather_tokens(rows, layout, columns, chunk)):
        at = at_places(places, slice(i * chunk, i * chunk + chunk))
        for target, shift in zip(out, request.tokens, strict=True):
            target[at] = tokens[:, shift : shift + width]


def _expand_documents(
    left: Offsets,
    ends: Offsets,
    counts: Offsets,
    capacity: int,
    request: Request,
    out: Arrays,
    places: Offsets,
) -> None:
    # The padding before and after makes two more pieces of each row.
    pieces = counts + 2
    after = np.cumsum(pieces) - 1
    before = after - counts - 1
    edges = np.empty(len(ends) + 2 * len(counts), np.int64)
    edges[before], edges[after] = left, capacity
    edges[ranges(before + 1, counts)] = ends
    _check(edges, pieces, capacity, BAD_ENDS)
    # Two bytes a number where that is enough: the speed of these steps is that of the cache.
    small = np.int16 if capacity < 1 << 15 else np.int32
    numbers = numbers_within(pieces).astype(small)
    numbers[after] = 0
    begins = np.empty(len(edges), small)
    begins[1:] = edges[:-1]
    # Padding begins beyond the row: its positions come out negative, and are raised to 0.
    begins[before] = begins[after] = capacity
    shifts = {*request.segments, *request.positions}
    width = request.width
    lengths = {shift: _lengths(edges, pieces, request.start + shift, width) for shift in shifts}
    for target, shift in zip(out.segments, request.segments, strict=True):
        for part, segments in _repeat(numbers, lengths[shift], pieces, width):
            target[at_places(places, part)] = segments
    zeros = _columns(0, width, small, step=0)
    for target, shift in zip(out.positions, request.positions, strict=True):
        columns = _columns(request.start + shift, width, small)
        for part, positions in _repeat(begins, lengths[shift], pieces, width):
            np.subtract(columns[: len(positions)], positions, out=positions)
            np.maximum(positions, zeros[: len(positions)], out=positions)
            target[at_places(places, part)] = positions


def _set_firsts(
    left: Offsets,
    ends: Offsets,
    counts: Offsets,
    values: Mask,
    request: Request,
    out: Arrays,
    places: Offsets,
) -> None:
    """Write the loss of the first token of each document."""
    begins = np.empty(len(ends), np.int64)
    begins[1:] = ends[:-1]
    firsts = offsets_of(counts)[:-1]
    begins[firsts[counts > 0]] = left[counts > 0]
    row = np.repeat(places, counts)
    for (mask, shift), target in zip(request.masks, out.masks, strict=True):
        column = begins - request.start - shift
        own = (column >= 0) & (column < request.width) & (mask == LOSS)
        target[row[own], column[own]] = values[own]


def _repeat(
    values: NDArray[Any], lengths: Offsets, pieces: Offsets, width: int
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield a few rows at a time: their numbers, and each value as often as its length says."""
    chunk = _chunk(width)
    firsts = range(0, len(pieces), chunk)
    stop = 0
    for row, size in zip(firsts, np.add.reduceat(pieces, firsts).tolist(), strict=True):
        own, stop = slice(stop, stop + size), stop + size
        yield slice(row, row + chunk), values[own].repeat(lengths[own]).reshape(-1, width)


def at_places(places: Offsets, part: slice) -> slice | Offsets:
    """Return some of the places, as a slice if they are consecutive, which is twice as fast."""
    own = places[part]
    start, stop = int(own[0]), int(own[-1]) + 1
    return slice(start, stop) if stop - start == len(own) else own


def _check(edges: Offsets, pieces: Offsets, capacity: int, cause: str) -> None:
    """Raise a CorruptError with this cause unless the edges of every row ascend to its end."""
    absolute = edges + np.repeat(np.arange(0, capacity * len(pieces), capacity), pieces)
    fits = (
        pieces.all()
        and (absolute[1:] >= absolute[:-1]).all()
        and (edges[np.cumsum(pieces) - 1] == capacity).all()
    )
    if not fits:
        raise CorruptError(cause)


def _lengths(edges: Offsets, pieces: Offsets, start: int, width: int) -> Offsets:
    """Return how much of each piece is in columns [start, start + width)."""
    inside = np.minimum(np.maximum(edges - start, 0), width)
    inside += np.repeat(np.arange(0, width * len(pieces), width), pieces)
    lengths = inside.copy()
    lengths[1:] -= inside[:-1]
    return lengths


def _chunk(width: int) -> int:
    """Return how many rows to work on at once."""
    return max(1, _CHUNK_TOKENS // max(1, width))


@lru_cache(maxsize=8)
def _columns(start: int, width: int, dtype: type, step: int = 1) -> NDArray[Any]:
    """Return the number of each column, for as many rows as are worked on at once."""
    columns: NDArray[Any] = start + step * np.arange(width, dtype=dtype)
    return np.ascontiguousarray(np.broadcast_to(columns, (_chunk(width), width)))
