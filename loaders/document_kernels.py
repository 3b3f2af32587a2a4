"""The loops of `expand_numba`: documents -> dense arrays, one after another.

Numba checks no bounds: what an index says of a document is compared with the head of its record,
and that with the size of the record, before anything is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataprep.loaders.expand import LARGEST_WEIGHT, LEAST_WEIGHT, LOSS
from dataprep.loaders.kernels import clip, copy, move, set_absent
from dataprep.pipeline.storage.compiled import compiled

ENTRY_START = 1  # where an entry of the index has the first token of its document


@compiled
def _pad(out: Any, done: Any, value: Any) -> None:
    for i in range(done, len(out)):
        out[i] = value


@compiled
def _one_document(segments: Any, positions: Any, row: Any, length: Any, start: Any) -> None:
    """Write the segment ids and positions of one document, which begins its row."""
    for k in range(len(segments[1])):
        out = segments[0][k, row]
        stop = clip(length - start - segments[1][k], len(out))
        out[:stop] = 1
        out[stop:] = 0
    for k in range(len(positions[1])):
        out = positions[0][k, row]
        first = start + positions[1][k]
        stop = clip(length - first, len(out))
        for j in range(stop):
            out[j] = np.int32(first) + np.int32(j)
        out[stop:] = 0


@compiled
def _place(runs: Any, begin: Any, length: Any) -> bool:
    """Count the ends of runs from the first token of a document on; False if they do not cover it
    in ascending order."""
    before = np.int64(0)
    for i in range(len(runs)):
        end = clip(np.int64(runs[i]) - begin, length)
        if end < before:
            return False
        runs[i] = before = end
    return bool(before == length and len(runs) > 0)


@compiled
def _mark_document(masks: Any, mask: Any, row: Any, runs: Any, odd: Any, keeps: Any) -> None:
    """Write a mask of one document; `odd`: which of its runs are True, `keeps`: whether its first
    token may be."""
    out, wanted, start = masks
    for k in range(len(wanted)):
        if wanted[k, 0] != mask:
            continue
        target = out[k, row]
        column = start + wanted[k, 1]
        width, done = len(target), 0
        for i in range(len(runs)):
            stop = clip(np.int64(runs[i]) - column, width)
            target[done:stop] = i % 2 == odd
            done = stop
        target[done:] = False
        if not keeps and column <= 0 < width + column:
            target[-column] = False


@compiled
def _weigh_document(weights: Any, mask: Any, row: Any, runs: Any, bits: Any, table: Any) -> None:
    out, wanted, start = weights
    for k in range(len(wanted)):
        if wanted[k, 0] != mask:
            continue
        target = out[k, row]
        column = start + wanted[k, 1]
        width, done = len(target), 0
        for i in range(len(runs)):
            stop = clip(np.int64(runs[i]) - column, width)
            target[done:stop] = table[bits[i]]
            done = stop
        target[done:] = 1


@compiled
def _sizes(head: Any, numbers: Any, item: Any) -> Any:
    """Return where the ends of the documents of a record are, and how many bytes it has."""
    tokens = item * np.int64(head[1])
    place = 4 * len(head) + tokens + -tokens % 4
    total = place + 4 * np.int64(head[0])
    for k in range(2, len(head)):
        total += 4 * np.int64(head[k]) * numbers[k - 2]
    return place, total


@compiled
def expand_documents(
    records: Any, documents: Any, places: Any, columns: Any, room: Any, out: Any, kinds: Any
) -> bool:
    """Write all documents, each into a row of its own; return whether all fit their records.

    `documents` are their entries of the index, and of the piece of each that is wanted the first
    token and how many; `kinds` is where each mask is among those of a record, and in an entry, how
    many numbers a run has of each that a record has, the table of weights, the padding, and whether
    the first token of a document has loss as the document says.
    """
    memory, firsts, sizes, in_blocks = records
    entries, starts, lengths = documents
    start, width = columns
    (head, head8), (line, line8), (tail, tail8) = room
    tokens, segments, positions, masks, weights = out
    stored, entry_columns, numbers, table, pad, first_loss = kinds
    item = line.itemsize
    for i in range(len(firsts)):
        first, row, length = firsts[i], places[i], lengths[i]
        begin = np.int64(entries[i, ENTRY_START]) + starts[i]
        copy(memory, first, 0, in_blocks, head8)
        place, total = _sizes(head, numbers, item)
        if total != sizes[i] or begin + length > np.int64(head[1]):
            return False
        if len(line):
            count = clip(length - start, len(line))
            offset = 4 * len(head) + item * (begin + start)
            copy(memory, first, offset, in_blocks, line8[: item * count])
            _pad(line, count, pad)
            for k in range(len(tokens[1])):
                move(line, tokens[1][k], tokens[0][k, row], 0, width)
        _one_document(segments, positions, row, length, start)
        set_absent(masks, row, False)
        set_absent(weights, row, 1)
        for mask in range(len(stored)):
            at, column = stored[mask], entry_columns[mask]
            first_run, count = np.int64(entries[i, column]), np.int64(entries[i, column + 1])
            each, of_mask = numbers[at], np.int64(head[2 + at])
            if first_run + count > of_mask:
                return False
            offset = place + 4 * (np.int64(head[0]) + first_run)
            for k in range(at):
                offset += 4 * np.int64(head[2 + k]) * numbers[k]
            runs = tail[:count]
            copy(memory, first, offset, in_blocks, tail8[: 4 * count])
            if not _place(runs, begin, length):
                return False
            if each == 1:
                kept = mask != LOSS or (first_loss and starts[i] == 0)
                _mark_document(
                    (masks[0], masks[1], start), mask, row, runs, 1 - first_run % 2, kept
                )
                continue
            bits = tail[count : 2 * count]
            offset += 4 * of_mask
            copy(memory, first, offset, in_blocks, tail8[4 * count : 8 * count])
            for j in range(count):
                if bits[j] < LEAST_WEIGHT or bits[j] > LARGEST_WEIGHT:
                    return False
            _weigh_document((weights[0], weights[1], start), mask, row, runs, bits, table)
    return True
