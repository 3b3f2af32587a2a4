"""The loops of `expand_numba`: rows -> dense arrays, one after another.

Numba checks no bounds: what a row says of itself is compared with its size before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataprep.loaders.expand import ABSENT, LARGEST_WEIGHT, LEAST_WEIGHT, LOSS
from dataprep.pipeline.storage.compiled import compiled
from dataprep.pipeline.storage.riegeli import BLOCK_BYTES, BLOCK_HEADER_BYTES, PAYLOAD_BYTES
from dataprep.pipeline.storage.rows import BITS

FITS, BAD_HEAD, BAD_ENDS, BAD_RUNS, BAD_WEIGHT = range(5)  # what is wrong with the first bad row


@compiled
def move(source: Any, place: Any, out: Any, start: Any, count: Any) -> None:
    # A loop over slices: neither their assignment nor a loop over the whole is vectorised.
    target, values = out[start : start + count], source[place : place + count]
    for i in range(len(target)):
        target[i] = values[i]


@compiled
def copy(memory: Any, first: Any, offset: Any, in_blocks: bool, out: Any) -> None:
    """Fill `out` from byte `offset` of the payload at `first`, leaving out block headers.

    For one row what `riegeli.locate` and `riegeli.stretches_after` do.
    """
    count = len(out)
    if not in_blocks:
        move(memory, first + offset, out, 0, count)
        return
    inside = first % BLOCK_BYTES - BLOCK_HEADER_BYTES + offset
    place = first + offset + inside // PAYLOAD_BYTES * BLOCK_HEADER_BYTES
    left = PAYLOAD_BYTES - inside % PAYLOAD_BYTES
    done = 0
    while done < count:
        size = min(left, count - done)
        move(memory, place, out, done, size)
        done += size
        place += size + BLOCK_HEADER_BYTES
        left = PAYLOAD_BYTES


@compiled
def _ascend(ends: Any, start: Any, capacity: Any) -> bool:
    for i in range(len(ends)):
        if ends[i] < start or ends[i] > capacity:
            return False
        start = ends[i]
    return True


@compiled
def clip(place: Any, width: Any) -> Any:
    return min(max(place, 0), width)


@compiled
def _number(out: Any, left: Any, ends: Any, column: Any) -> None:
    """Write the segment ids of one row, from `column` on."""
    width = len(out)
    done = clip(left - column, width)
    out[:done] = 0
    for i in range(len(ends)):
        stop = clip(np.int64(ends[i]) - column, width)
        out[done:stop] = i + 1
        done = stop
    out[done:] = 0


@compiled
def _count(out: Any, left: Any, ends: Any, column: Any) -> None:
    """Write the positions of one row, from `column` on."""
    width = len(out)
    done = clip(left - column, width)
    out[:done] = 0
    begin = left - column
    for i in range(len(ends)):
        end = np.int64(ends[i]) - column
        stop = clip(end, width)
        piece, position = out[done:stop], np.int32(done - begin)
        for j in range(len(piece)):
            piece[j] = position + np.int32(j)
        done, begin = stop, end
    out[done:] = 0


@compiled
def _count_all(segments: Any, positions: Any, row: Any, left: Any, ends: Any, start: Any) -> None:
    """Write the segment ids and positions of one row."""
    for k in range(len(segments[1])):
        _number(segments[0][k, row], left, ends, start + segments[1][k])
    for k in range(len(positions[1])):
        _count(positions[0][k, row], left, ends, start + positions[1][k])


@compiled
def _mark(out: Any, runs: Any, column: Any) -> None:
    """Write a mask of one row, from `column` on."""
    width = len(out)
    done = 0
    for i in range(len(runs)):
        stop = clip(np.int64(runs[i]) - column, width)
        out[done:stop] = i % 2 == 1
        done = stop


@compiled
def _weigh(out: Any, runs: Any, bits: Any, table: Any, column: Any) -> None:
    """Write the weights of one row, from `column` on."""
    width = len(out)
    done = 0
    for i in range(len(runs)):
        stop = clip(np.int64(runs[i]) - column, width)
        out[done:stop] = table[bits[i]]
        done = stop


@compiled
def _set_firsts(masks: Any, row: Any, left: Any, ends: Any, bits: Any, start: Any) -> None:
    """Write the loss of the first token of each document of one row."""
    begin = left
    for i in range(len(ends)):
        for k in range(len(masks[1])):
            column = begin - start - masks[1][k, 1]
            if masks[1][k, 0] == LOSS and 0 <= column < masks[0].shape[2]:
                masks[0][k, row, column] = (bits[i // BITS] >> (i % BITS)) & 1 == 1
        begin = np.int64(ends[i])


@compiled
def set_absent(masks: Any, row: Any, value: Any) -> None:
    out, wanted = masks
    for k in range(len(wanted)):
        if wanted[k, 0] == ABSENT:
            out[k, row, :] = value


@compiled
def _mark_all(
    masks: Any,
    weights: Any,
    row: Any,
    counts: Any,
    tail: Any,
    start: Any,
    capacity: Any,
    kinds: Any,
) -> int:
    """Write the masks of one row; return FITS, or what is wrong with the first bad mask."""
    set_absent(masks, row, False)
    set_absent(weights, row, 1)
    numbers, table, _ = kinds
    place = 0
    for mask in range(len(counts)):
        count = np.int64(counts[mask])
        runs = tail[place : place + count]
        bits = tail[place + count : place + count * numbers[mask]]
        place += count * numbers[mask]
        if len(runs) == 0 or runs[-1] != capacity or not _ascend(runs, 0, capacity):
            return BAD_RUNS
        for i in range(len(bits)):
            if bits[i] < LEAST_WEIGHT or bits[i] > LARGEST_WEIGHT:
                return BAD_WEIGHT
        for k in range(len(masks[1])):
            if masks[1][k, 0] == mask:
                _mark(masks[0][k, row], runs, start + masks[1][k, 1])
        for k in range(len(weights[1])):
            if weights[1][k, 0] == mask:
                _weigh(weights[0][k, row], runs, bits, table, start + weights[1][k, 1])
    return FITS


@compiled
def expand_rows(
    rows: Any, places: Any, layout: Any, columns: Any, room: Any, out: Any, kinds: Any
) -> int:
    """Write all rows; return FITS, or what is wrong with the first bad row.

    `room` is memory for the head, the tokens and the tail of one row, each with its bytes; `out` is
    the tokens, segments, positions, masks and weights of the batch, each with its shifts; `kinds`
    is how many numbers a run of each mask has, the table of weights, and whether the first token of
    a document has loss as the document says.
    """
    memory, firsts, sizes, in_blocks = rows
    capacity, head_bytes, tail_start = layout
    start, width = columns
    (head, head8), (line, line8), (tail, tail8) = room
    tokens, segments, positions, masks, weights = out
    token_bytes = line.itemsize * start
    for i in range(len(firsts)):
        first, row = firsts[i], places[i]
        if len(line):
            copy(memory, first, head_bytes + token_bytes, in_blocks, line8)
            for k in range(len(tokens[1])):
                move(line, tokens[1][k], tokens[0][k, row], 0, width)
        if len(segments[1]) + len(positions[1]) + len(masks[1]) + len(weights[1]) == 0:
            continue
        copy(memory, first, 0, in_blocks, head8)
        num_ends = np.int64(head[0])
        num_bits = (num_ends + BITS - 1) // BITS
        count = num_ends + num_bits
        for k in range(2, len(head)):
            count += np.int64(head[k]) * kinds[0][k - 2]
        if tail_start + count * tail.itemsize != sizes[i]:
            return BAD_HEAD
        copy(memory, first, tail_start, in_blocks, tail8[: count * tail.itemsize])
        left, ends = np.int64(head[1]), tail[:num_ends]
        if left > capacity or not _ascend(ends, left, capacity):
            return BAD_ENDS
        _count_all(segments, positions, row, left, ends, start)
        bits, runs = tail[num_ends : num_ends + num_bits], tail[num_ends + num_bits :]
        cause = _mark_all(masks, weights, row, head[2:], runs, start, capacity, kinds)
        if cause != FITS:
            return cause
        if kinds[2]:
            _set_firsts(masks, row, left, ends, bits, start)
    return FITS
