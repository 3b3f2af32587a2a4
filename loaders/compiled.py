"""`expand` in one pass, compiled by numba: each row goes through the cache once.

Gives what `expand.expand` gives, to the bit. Compiled at its first call, for a second or two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dataprep.loaders.blocks import BLOCK, BLOCK_HEADER
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.gather import RowBytes
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.record import U32
from dataprep.pipeline.row import RowLayout

_FITS, _BAD_HEAD, _BAD_ENDS = 0, 1, 2
_CAUSES = {
    _BAD_HEAD: "the header of a row does not fit its size",
    _BAD_ENDS: "the ends of a row do not ascend",
}


def expand(rows: RowBytes, layout: RowLayout, request: Request, out: Arrays) -> None:
    """Fill `out`; a row whose parts do not fit together is a CorruptError."""
    stop = request.start + request.width + max(request.tokens, default=0)
    tokens = np.empty(stop - request.start if request.tokens else 0, layout.tokens)
    largest = int(rows.size.max(initial=layout.tail_start)) - layout.tail_start
    tail = np.empty(max(0, largest) // layout.ends.itemsize, layout.ends)
    head = np.empty(2 + layout.num_masks, U32)
    cause = _expand(
        rows.memory,
        rows.first,
        rows.size,
        rows.in_blocks,
        layout.capacity,
        layout.head_bytes,
        layout.tail_start,
        request.start,
        request.width,
        (head, head.view(np.uint8)),
        (tokens, tokens.view(np.uint8)),
        (tail, tail.view(np.uint8)),
        (out.tokens, np.array(request.tokens, np.int64)),
        (out.segments, np.array(request.segments, np.int64)),
        (out.positions, np.array(request.positions, np.int64)),
        (out.masks, np.array(request.masks, np.int64).reshape(-1, 2)),
    )
    if cause != _FITS:
        raise CorruptError(_CAUSES[cause])


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _move(source: Any, place: int, out: Any, start: int, count: int) -> None:
    # A loop over slices: neither their assignment nor a loop over the whole is vectorised.
    target, values = out[start : start + count], source[place : place + count]
    for i in range(len(target)):
        target[i] = values[i]


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _copy(memory: Any, first: int, offset: int, in_blocks: bool, out: Any) -> None:
    """The bytes from `offset` on of the payload at `first`, without the block headers inside."""
    count = len(out)
    if not in_blocks:
        _move(memory, first + offset, out, 0, count)
        return
    room = BLOCK - BLOCK_HEADER
    inside = first % BLOCK - BLOCK_HEADER + offset
    place = first + offset + inside // room * BLOCK_HEADER
    left = room - inside % room
    done = 0
    while done < count:
        size = min(left, count - done)
        _move(memory, place, out, done, size)
        done += size
        place += size + BLOCK_HEADER
        left = room


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _ascend(ends: Any, start: int, capacity: int) -> bool:
    for i in range(len(ends)):
        if ends[i] < start or ends[i] > capacity:
            return False
        start = ends[i]
    return True


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _clip(place: int, width: int) -> int:
    return min(max(place, 0), width)


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _number(out: Any, left: int, ends: Any, column: int) -> None:
    """Segment ids of one row, from `column` on."""
    width = len(out)
    done = _clip(left - column, width)
    out[:done] = 0
    for i in range(len(ends)):
        stop = _clip(np.int64(ends[i]) - column, width)
        out[done:stop] = i + 1
        done = stop
    out[done:] = 0


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _count(out: Any, left: int, ends: Any, column: int) -> None:
    """Positions of one row, from `column` on."""
    width = len(out)
    done = _clip(left - column, width)
    out[:done] = 0
    begin = left - column
    for i in range(len(ends)):
        end = np.int64(ends[i]) - column
        stop = _clip(end, width)
        piece, position = out[done:stop], np.int32(done - begin)
        for j in range(len(piece)):
            piece[j] = position + np.int32(j)
        done, begin = stop, end
    out[done:] = 0


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _mark(out: Any, runs: Any, column: int) -> None:
    """A mask of one row, from `column` on."""
    width = len(out)
    done = 0
    for i in range(len(runs)):
        stop = _clip(np.int64(runs[i]) - column, width)
        out[done:stop] = i % 2 == 1
        done = stop


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _expand(
    memory: Any,
    firsts: Any,
    sizes: Any,
    in_blocks: bool,
    capacity: int,
    head_bytes: int,
    tail_start: int,
    start: int,
    width: int,
    heads: Any,
    row_tokens: Any,
    row_tail: Any,
    tokens: Any,
    segments: Any,
    positions: Any,
    masks: Any,
) -> int:
    head, head8 = heads
    line, line8 = row_tokens
    tail, tail8 = row_tail
    token_bytes = line.itemsize * start
    for row in range(len(firsts)):
        first = firsts[row]
        if len(line):
            _copy(memory, first, head_bytes + token_bytes, in_blocks, line8)
            for k in range(len(tokens[1])):
                shift = tokens[1][k]
                _move(line, shift, tokens[0][k, row], 0, width)
        if len(segments[1]) + len(positions[1]) + len(masks[1]) == 0:
            continue
        _copy(memory, first, 0, in_blocks, head8)
        count = np.int64(head[0])
        for k in range(2, len(head)):
            count += head[k]
        if tail_start + count * tail.itemsize != sizes[row]:
            return _BAD_HEAD
        _copy(memory, first, tail_start, in_blocks, tail8[: count * tail.itemsize])
        left, place = np.int64(head[1]), np.int64(head[0])
        ends = tail[:place]
        if not _ascend(ends, left, capacity):
            return _BAD_ENDS
        for k in range(len(segments[1])):
            _number(segments[0][k, row], left, ends, start + segments[1][k])
        for k in range(len(positions[1])):
            _count(positions[0][k, row], left, ends, start + positions[1][k])
        for mask in range(len(head) - 2):
            runs = tail[place : place + np.int64(head[2 + mask])]
            place += len(runs)
            if len(runs) == 0 or runs[-1] != capacity or not _ascend(runs, 0, capacity):
                return _BAD_ENDS
            for k in range(len(masks[1])):
                if masks[1][k, 0] == mask:
                    _mark(masks[0][k, row], runs, start + masks[1][k, 1])
    return _FITS
