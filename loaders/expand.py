"""Rows as they are stored -> the dense arrays of a batch, with numpy alone.

    ends 3 7, left padding 0, C = 8      segments  1 1 1 2 2 2 2 0
                                         positions 0 1 2 0 1 2 3 0
    loss runs 1 3 5 7 8                  mask      0 1 1 0 0 1 1 0

A request names the columns and how far each array is shifted: inputs are tokens shifted by 0,
targets by 1. `compiled` does the same in one pass where numba is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.gather import RowBytes, gather_head, gather_tails, gather_tokens
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.row import RowLayout
from dataprep.pipeline.types import Offsets

Ints = NDArray[np.int32]

CHUNK_TOKENS = 1 << 17  # expanded at once, so that what is between two steps stays in the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Columns [start, start + width) of each array, moved right by its shift."""

    start: int
    width: int
    tokens: tuple[int, ...] = ()  # shifts
    segments: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    masks: tuple[tuple[int, int], ...] = ()  # (number of the mask, shift)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """What a request asks for, in its order."""

    tokens: Ints  # i32[shifts, rows, width]
    segments: Ints
    positions: Ints
    masks: NDArray[np.bool_]


def expand(rows: RowBytes, layout: RowLayout, request: Request, out: Arrays) -> None:
    """Fill `out`; a row whose parts do not fit together is a CorruptError."""
    chunk = max(1, CHUNK_TOKENS // max(1, request.width))
    for start in range(0, len(rows), chunk):
        stop = min(start + chunk, len(rows))
        part = Arrays(
            tokens=out.tokens[:, start:stop],
            segments=out.segments[:, start:stop],
            positions=out.positions[:, start:stop],
            masks=out.masks[:, start:stop],
        )
        _expand(rows.part(start, stop), layout, request, part)


def _expand(rows: RowBytes, layout: RowLayout, request: Request, out: Arrays) -> None:
    start, stop = request.start, request.start + request.width + max(request.tokens, default=0)
    if request.tokens:
        tokens = gather_tokens(rows, layout, start, stop)
        for i, shift in enumerate(request.tokens):
            out.tokens[i] = tokens[:, shift : shift + request.width]
    if not (request.segments or request.positions or request.masks):
        return
    head = gather_head(rows, layout).astype(np.int64)
    counts = np.delete(head, 1, axis=1)
    totals = counts.sum(axis=1)
    if ((layout.tail_start + layout.ends.itemsize * totals) != rows.size).any():
        raise CorruptError("a row's header does not fit its size")
    tails = gather_tails(rows, layout, totals)
    first = np.cumsum(totals) - totals
    if request.segments or request.positions:
        ends = tails[_ranges(first, counts[:, 0])]
        _expand_segments(head[:, 1], ends, counts[:, 0], layout.capacity, request, out)
    for i, (mask, shift) in enumerate(request.masks):
        before = counts[:, : mask + 1].sum(axis=1)
        runs = tails[_ranges(first + before, counts[:, mask + 1])]
        _expand_mask(runs, counts[:, mask + 1], request.start + shift, out.masks[i])


def _expand_segments(
    left: Offsets, ends: NDArray[Any], counts: Offsets, capacity: int, request: Request, out: Arrays
) -> None:
    # Padding before and after make two more pieces of each row.
    pieces = counts + 2
    stops = np.cumsum(pieces)
    row = np.repeat(np.arange(len(counts)), pieces)
    values = np.arange(len(row)) - (stops - pieces)[row]
    edges = np.empty(len(row), np.int64)
    edges[stops - pieces], edges[stops - 1] = left, capacity
    inner = np.ones(len(row), bool)
    inner[stops - pieces] = inner[stops - 1] = False
    edges[inner] = ends
    begins = np.empty_like(edges)
    begins[1:] = edges[:-1]
    # Padding begins beyond the row, so that its positions are negative until they are raised to 0.
    begins[stops - pieces] = begins[stops - 1] = 2 * capacity
    values[stops - 1] = 0
    width, offset = request.width, row * request.width
    for shift in sorted({*request.segments, *request.positions}):
        lengths = _lengths(edges, request.start + shift, width, offset)
        if shift in request.segments:
            flat = np.repeat(values.astype(np.int32), lengths)
            out.segments[request.segments.index(shift)] = flat.reshape(-1, width)
        if shift in request.positions:
            place = out.positions[request.positions.index(shift)]
            first = request.start + shift
            columns = np.arange(first, first + width, dtype=np.int32)
            flat = np.repeat(begins.astype(np.int32), lengths)
            np.subtract(columns, flat.reshape(-1, width), out=place)
            np.maximum(place, 0, out=place)


def _expand_mask(
    runs: NDArray[Any], counts: Offsets, start: int, out: NDArray[np.bool_]
) -> None:
    width = out.shape[1]
    row = np.repeat(np.arange(len(counts)), counts)
    flags = (np.arange(len(row)) - (np.cumsum(counts) - counts)[row]) % 2 == 1
    lengths = _lengths(runs.astype(np.int64), start, width, row * width)
    out[...] = np.repeat(flags, lengths).reshape(-1, width)


def _lengths(edges: Offsets, start: int, width: int, offset: Offsets) -> Offsets:
    """How much of each piece lies in the columns; a row's last edge is at or behind their end."""
    lengths = np.diff(np.clip(edges - start, 0, width) + offset, prepend=0)
    if len(lengths) and int(lengths.min()) < 0:
        raise CorruptError("the ends of a row do not ascend")
    return lengths


def _ranges(first: Offsets, size: Offsets) -> Offsets:
    """[7, 0], [2, 3] -> [7, 8, 0, 1, 2]"""
    stops = np.cumsum(size)
    places = np.repeat(first - stops + size, size)
    places += np.arange(len(places))
    return places
