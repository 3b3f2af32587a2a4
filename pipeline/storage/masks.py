"""Masks: a value for each token besides its id, as runs of equal value.

    loss      0 0 1 1 1 0          ends 2 5 6   values 0 1 0       bool
    weight    1 1 .5 .5 .5 1       ends 2 5 6   values 1 .5 1      float16
    turns     0 0 5 5 5 10         ends 2 5 6   values 0 5 10      uint32: see `turns`

    stored    loss    2 5 6                       values alternate and the first is False, so one
                      0 2 3  =  1 1 0             that starts True has a first run of length 0
              weight  2 5 6, then 1 .5 1          the bits of float16, as whole numbers
              turns   2 5 6, then 0 5 10

MASKS is the table: a new mask is one line here, and the code that sets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import MODALITIES, Offsets

MARK_DTYPE = np.dtype(np.bool_)
WEIGHT_DTYPE = np.dtype("<f2")
WEIGHT_BITS = np.dtype("<u2")
TURN_DTYPE = np.dtype("<u4")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskKind:
    name: str
    count: str  # name in the manifest of the number of tokens that it marks
    is_block: bool = False  # its runs are blocks of codes, which packing does not cut
    is_packed: bool = True  # rows have it; else only documents, and packing makes use of it
    dtype: np.dtype[Any] = MARK_DTYPE
    # It marks one of two sides of a document, the one that stands there; packing cuts neither.
    side: Literal["", "first", "last"] = ""
    other: str = ""  # what the other side is called

    @property
    def is_weight(self) -> bool:
        return self.dtype == WEIGHT_DTYPE

    @property
    def has_values(self) -> bool:
        """Return whether it is a number for each token instead of yes or no."""
        return self.dtype != MARK_DTYPE

    @property
    def default(self) -> Any:
        """Return the value of tokens that are not marked."""
        return self.dtype.type(1 if self.is_weight else 0)

    @property
    def numbers(self) -> int:
        """Return how many numbers are stored for a run."""
        return 2 if self.has_values else 1

    @property
    def array(self) -> str:
        """Return the name of the dense array in batches."""
        if not self.has_values:
            return f"{self.name}_mask"
        return "loss_weights" if self.is_weight else self.name


MASKS: Mapping[str, MaskKind] = {
    kind.name: kind
    for kind in (
        MaskKind(name="loss", count="target_tokens"),
        *(MaskKind(name=m, count=f"{m}_tokens", is_block=True) for m in MODALITIES),
        MaskKind(name="encoder", count="encoder_tokens", side="first", other="decoder"),
        MaskKind(name="rejected", count="rejected_tokens", side="last", other="chosen"),
        MaskKind(name="weight", count="weighted_tokens", dtype=WEIGHT_DTYPE),
        MaskKind(name="turns", count="turn_tokens", dtype=TURN_DTYPE, is_packed=False),
    )
}


# A mask as a small number; 0 is `loss`, which every token has a word on, or none at all.
NUMBERS: Mapping[str, int] = {"": 0, **{name: number for number, name in enumerate(MASKS)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRuns:
    """A mask as runs: values[i] holds up to, but not at, token ends[i]."""

    ends: Offsets  # i64[runs], ascending from above 0
    values: NDArray[Any]  # bool[runs], f16[runs] or u32[runs]


def blocks_among(masks: Sequence[str]) -> list[str]:
    """Return the masks whose runs are blocks of codes."""
    return [mask for mask in masks if MASKS[mask].is_block]


def sides_among(masks: Sequence[str]) -> list[str]:
    """Return the masks that mark one side of documents that have two."""
    return [mask for mask in masks if MASKS[mask].side]


def misplaced(dense: NDArray[np.bool_], starts: NDArray[np.bool_], kind: MaskKind) -> Offsets:
    """Return the tokens at which a side begins or ends where it must not.

    `starts`: where documents, or the padding after them, start.

    >>> first, starts = np.array([1, 1, 0, 0, 1, 0], bool), np.array([1, 0, 0, 0, 0, 0], bool)
    >>> misplaced(first, starts, MASKS["encoder"])
    array([4])
    """
    side = dense if kind.side == "first" else ~dense
    return np.flatnonzero(side[1:] & ~side[:-1] & ~starts[1:]) + 1


def runs_of_parts(values: NDArray[Any], lengths: Offsets) -> MaskRuns:
    """Return the runs of a mask that is given as values and lengths of parts.

    >>> runs = runs_of_parts(np.array([False, True, True, False]), np.array([1, 2, 1, 3]))
    >>> runs.ends.tolist(), runs.values.tolist()
    ([1, 4, 7], [False, True, False])
    """
    kept = lengths > 0
    values, ends = values[kept], np.cumsum(lengths[kept])
    last = np.append(values[1:] != values[:-1], True) if len(values) else np.zeros(0, bool)
    return MaskRuns(ends=ends[last], values=values[last])


def runs_of_dense(dense: NDArray[Any]) -> MaskRuns:
    """Return the runs of a mask that has a value for each token.

    >>> runs = runs_of_dense(np.array([False, True, True]))
    >>> runs.ends.tolist(), runs.values.tolist()
    ([1, 3], [False, True])
    """
    last = np.flatnonzero(dense[1:] != dense[:-1])
    if len(dense):
        last = np.append(last, len(dense) - 1)
    return MaskRuns(ends=last + 1, values=dense[last])


def dense_mask(runs: MaskRuns) -> NDArray[Any]:
    """Return the value of every token.

    >>> dense_mask(MaskRuns(ends=np.array([2, 3]), values=np.array([True, False])))
    array([ True,  True, False])
    """
    return np.repeat(runs.values, np.diff(runs.ends, prepend=0))


def count_marked(runs: MaskRuns, kind: MaskKind) -> int:
    """Count the tokens that have another value than the default."""
    return int(np.diff(runs.ends, prepend=0)[runs.values != kind.default].sum())


def marked_before(runs: MaskRuns, kind: MaskKind, places: Offsets) -> Offsets:
    """Tokens before each of some places that have another value than the default.

    >>> runs = MaskRuns(ends=np.array([2, 5, 6]), values=np.array([False, True, False]))
    >>> marked_before(runs, MASKS["loss"], np.array([0, 3, 6])).tolist()
    [0, 1, 3]
    """
    starts = np.concatenate(([0], runs.ends))  # of each run, and the end
    is_marked = np.append(runs.values != kind.default, False)
    passed = np.searchsorted(runs.ends, places, side="right")  # runs that end there or before
    whole = np.concatenate(([0], np.cumsum(np.diff(starts) * is_marked[:-1])))
    before: Offsets = whole[passed] + (places - starts[passed]) * is_marked[passed]
    return before


def slice_runs(runs: MaskRuns, start: int, stop: int) -> MaskRuns:
    """Return the runs of the mask between two tokens; their ends count from `start`."""
    if start == stop:
        return MaskRuns(ends=runs.ends[:0], values=runs.values[:0])
    first = int(np.searchsorted(runs.ends, start, side="right"))
    last = int(np.searchsorted(runs.ends, stop, side="left"))
    ends = np.minimum(runs.ends[first : last + 1], stop) - start
    return MaskRuns(ends=ends, values=runs.values[first : last + 1])


def join_runs(left: MaskRuns, num_tokens: int, right: MaskRuns) -> MaskRuns:
    """Return the runs of two masks, one after the other; `left` covers `num_tokens`."""
    is_one = bool(len(left.ends) and len(right.ends) and left.values[-1] == right.values[0])
    kept = len(left.ends) - is_one  # if the runs that touch have the same value, they become one
    return MaskRuns(
        ends=np.concatenate((left.ends[:kept], right.ends + num_tokens)),
        values=np.concatenate((left.values[:kept], right.values)),
    )


def stored_numbers(runs: MaskRuns, kind: MaskKind) -> Offsets:
    """Return the numbers that are stored for a mask: see the drawing above."""
    if kind.has_values:
        return np.concatenate((runs.ends, numbers_of(runs.values, kind)))
    starts_true = len(runs.values) > 0 and bool(runs.values[0])
    return np.concatenate((np.zeros(int(starts_true), np.int64), runs.ends))


def runs_of_numbers(numbers: Offsets, kind: MaskKind) -> MaskRuns:
    """Return the runs of a mask by its stored numbers."""
    if kind.has_values:
        ends, stored = np.split(numbers, 2)
        return MaskRuns(ends=ends, values=values_of(stored, kind))
    values = np.arange(len(numbers)) % 2 == 1
    starts_true = len(numbers) > 0 and int(numbers[0]) == 0
    return MaskRuns(ends=numbers[int(starts_true) :], values=values[int(starts_true) :])


def numbers_of(values: NDArray[Any], kind: MaskKind) -> Offsets:
    """Return what is stored for values that are not yes or no."""
    return weight_bits(values) if kind.is_weight else values.astype(np.int64)


def values_of(numbers: NDArray[Any], kind: MaskKind) -> NDArray[Any]:
    """Return the values that these numbers are stored for."""
    return weights_of(numbers) if kind.is_weight else numbers.astype(kind.dtype)


def weight_bits(values: NDArray[Any]) -> Offsets:
    return values.astype(WEIGHT_DTYPE).view(WEIGHT_BITS).astype(np.int64)


def weights_of(bits: NDArray[Any]) -> NDArray[Any]:
    return bits.astype(WEIGHT_BITS).view(WEIGHT_DTYPE)


def check_runs(runs: MaskRuns, length: int) -> str:
    """Return what is wrong with the runs of a mask over `length` tokens, or ''."""
    steps = np.diff(runs.ends, prepend=0)
    if (steps < 1).any() or (int(runs.ends[-1]) if len(runs.ends) else 0) != length:
        return "mask runs do not ascend to the number of tokens"
    if (
        runs.values.dtype == WEIGHT_DTYPE
        and not (np.isfinite(runs.values) & (runs.values > 0)).all()
    ):
        return "a loss weight is not a positive number"
    return ""
