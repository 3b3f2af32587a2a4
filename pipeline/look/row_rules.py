"""What must hold in packed rows, many rows at once.

documents   at least one a row, none empty, none outside of it
ids         at most the largest
masks       runs ascend to the end of the row; weights are positive numbers
padding     holds its id, in no mask, of weight 1
loss        not on the first token of a document, which nothing predicts
sides       of a document that has two, one after the other; no loss on the encoder side, nor on its
            first token in the document
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import IntegerLists, numbers_within, owner_of, ranges
from dataprep.pipeline.storage.masks import MASKS, MaskKind, misplaced, sides_among, weights_of
from dataprep.pipeline.storage.rows import RowLayout, Rows
from dataprep.pipeline.types import Mask, Offsets

SIDE_INSIDE = "a side of a document (the mask {}) is in two parts"
ENCODER_LOSS = "a token of the encoder side has loss"


def dense_masks(rows: Rows, layout: RowLayout) -> list[NDArray[Any]]:
    """Return the value of every token of every row, for each mask: bool or f16[rows, C].

    The stored numbers must be sound: `check_rows`.
    """
    return [
        _dense(_runs_of(numbers, MASKS[mask]), len(rows.tokens))
        for numbers, mask in zip(rows.masks, layout.masks, strict=True)
    ]


def is_of_document(rows: Rows) -> NDArray[np.bool_]:
    """Return which tokens are not padding: bool[rows, C]; every row must have a document."""
    stops = rows.ends.values[rows.ends.offsets[1:] - 1]
    return _is_between(rows.left_padding, stops, rows.tokens.shape[1])


def _is_between(start: Offsets, stop: Offsets, capacity: int) -> NDArray[np.bool_]:
    place = np.arange(capacity)
    return (place >= start[:, None]) & (place < stop[:, None])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """The runs of one mask over many rows; those that are stored for it, whatever they are."""

    row: Offsets  # i64[runs]
    start: Offsets  # i64[runs]
    end: Offsets  # i64[runs]
    value: NDArray[Any]  # bool or f16[runs]
    is_last: Mask  # bool[runs], of its row
    may_be_empty: Mask  # bool[runs]


def _runs_of(numbers: IntegerLists, kind: MaskKind) -> _Runs:
    """Return the runs that are stored for a mask: see the drawing in `masks`."""
    counts = np.diff(numbers.offsets) // kind.numbers
    first, number = numbers.offsets[:-1], numbers_within(counts)
    end = numbers.values[ranges(first, counts)]
    start = np.where(number == 0, 0, np.concatenate(([0], end[:-1])))
    value = number % 2 == 1
    if kind.is_weight:
        bits = numbers.values[ranges(first + counts, counts)]
        value = np.where(bits < 1 << 16, weights_of(bits), np.nan).astype(kind.dtype)
    return _Runs(
        row=owner_of(counts),
        start=start,
        end=end,
        value=value,
        is_last=number == np.repeat(counts, counts) - 1,
        may_be_empty=(number == 0) & (not kind.is_weight),
    )


def _dense(runs: _Runs, num_rows: int) -> NDArray[Any]:
    dense = np.repeat(runs.value, runs.end - runs.start)
    return dense.reshape(num_rows, -1) if num_rows else dense.reshape(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    row: int
    reason: str


def check_rows(
    rows: Rows, layout: RowLayout, *, max_id: int, pad: int, first_has_loss: bool = False
) -> BadRow | None:
    """Return the first row that breaks a rule, or None.

    With `first_has_loss` the first token of a document may have loss.
    """
    return _first(_all_wrong(rows, layout, max_id, pad, first_has_loss))


def check_places(rows: Rows, layout: RowLayout) -> BadRow | None:
    """Return the first row in which a document or a run of a mask ends where it cannot, or None."""
    return _first(chain(_wrong_ends(rows, layout), _wrong_masks(rows, layout)))


def _first(wrongs: Iterable[_Wrong]) -> BadRow | None:
    for wrong in wrongs:
        if len(wrong.rows):
            return BadRow(row=int(wrong.rows.min()), reason=wrong.reason)
    return None


class _Wrong(NamedTuple):
    rows: Offsets  # the rows that break a rule, in any order
    reason: str


def _all_wrong(
    rows: Rows, layout: RowLayout, max_id: int, pad: int, first_has_loss: bool
) -> Iterator[_Wrong]:
    """Yield rule after rule; a rule may count on those before it."""
    if not len(rows.tokens):
        return
    yield from _wrong_ends(rows, layout)
    ends, row = rows.ends.values, owner_of(np.diff(rows.ends.offsets))
    starts = _starts(rows)
    high = rows.tokens.max(axis=1)
    yield _Wrong(
        np.flatnonzero(high > max(max_id, pad)),
        f"token id {high.max()} is above the largest allowed, {max_id}",
    )
    yield from _wrong_masks(rows, layout)
    masks = dense_masks(rows, layout)
    stops = ends[rows.ends.offsets[1:] - 1]
    yield from _wrong_padding(rows, stops, pad, masks, layout.masks)
    if not first_has_loss:
        yield _Wrong(row[masks[0][row, starts]], "the first token of a document has loss")
    for name in sides_among(layout.masks):
        begins = np.zeros((len(rows.tokens), layout.capacity + 1), np.bool_)
        begins[:, 0] = begins[row, starts] = begins[row, ends] = True
        side = masks[layout.masks.index(name)]
        places = misplaced(side.reshape(-1), begins[:, :-1].reshape(-1), MASKS[name])
        yield _Wrong(places // layout.capacity, SIDE_INSIDE.format(name))
        if name == "encoder":
            yield _Wrong(np.flatnonzero((side & masks[0]).any(axis=1)), ENCODER_LOSS)
            yield _Wrong(row[side[row, starts] & rows.first_loss], ENCODER_LOSS)


def _wrong_ends(rows: Rows, layout: RowLayout) -> Iterator[_Wrong]:
    counts, descend = np.diff(rows.ends.offsets), "document ends do not ascend within the row"
    yield _Wrong(np.flatnonzero(counts == 0), descend)
    ends = rows.ends.values
    is_bad = (ends <= _starts(rows)) | (ends > layout.capacity)
    yield _Wrong(owner_of(counts)[is_bad], descend)


def _wrong_masks(rows: Rows, layout: RowLayout) -> Iterator[_Wrong]:
    for numbers, mask in zip(rows.masks, layout.masks, strict=True):
        yield from _wrong_runs(numbers, MASKS[mask], layout.capacity)


def _wrong_runs(numbers: IntegerLists, kind: MaskKind, capacity: int) -> Iterator[_Wrong]:
    runs, ascend = _runs_of(numbers, kind), "mask runs do not ascend to the number of tokens"
    yield _Wrong(np.flatnonzero(np.diff(numbers.offsets) == 0), ascend)
    is_short = runs.end <= runs.start - runs.may_be_empty
    yield _Wrong(runs.row[is_short | (runs.is_last & (runs.end != capacity))], ascend)
    if kind.is_weight:
        is_odd = ~(np.isfinite(runs.value) & (runs.value > 0))
        yield _Wrong(runs.row[is_odd], "a loss weight is not a positive number")


def _wrong_padding(
    rows: Rows, stops: Offsets, pad: int, masks: Sequence[NDArray[Any]], names: Sequence[str]
) -> Iterator[_Wrong]:
    """Check rows that have padding: those that do not are most, and need no further look."""
    capacity = rows.tokens.shape[1]
    own = np.flatnonzero((rows.left_padding > 0) | (stops < capacity))
    is_padding = ~_is_between(rows.left_padding[own], stops[own], capacity)
    is_other = is_padding & (rows.tokens[own] != pad)
    yield _Wrong(own[is_other.any(axis=1)], f"padding holds an id other than {pad}")
    for mask, name in zip(masks, names, strict=True):
        is_marked = is_padding & (mask[own] != MASKS[name].default)
        yield _Wrong(own[is_marked.any(axis=1)], "padding is in a mask")


def segment_lengths(rows: Rows) -> Offsets:
    """Return the length of every document in these rows."""
    lengths: Offsets = rows.ends.values - _starts(rows)
    return lengths


def _starts(rows: Rows) -> Offsets:
    """Return where every document starts in its row; every row must have one."""
    starts = np.concatenate(([0], rows.ends.values[:-1]))
    starts[rows.ends.offsets[:-1]] = rows.left_padding
    return starts
