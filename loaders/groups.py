"""The batches of an epoch, of pieces of similar length: found once, from lengths alone.

    pieces by the width of their rows     width 64          128            512
                                          ranks 0 … 699     700 … 959      960 … 990
    batches of 4,096 tokens, from the     8 × 512           990 … 983, 982 … 975, …, 966 … 959
    longest on                            32 × 128          958 … 927, …
                                          64 × 64           …

A batch is a stretch of ranks: as many of the longest that are left as fit rows of that width. So
only the last batch, of the shortest, may have too few. Which piece has which rank within a width is
shuffled, by the epoch, and computed when it is asked for; how many batches there are and how large
they are is the same in every epoch. All that is stored is the number of each piece, sorted by
width: four bytes each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.batching import Grouped, columns_of
from dataprep.loaders.order import OrderKey, shuffle_lists
from dataprep.loaders.pieces import Pieces
from dataprep.loaders.schedule import Remainder
from dataprep.pipeline.ragged import offsets_of, ranges
from dataprep.pipeline.types import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRun:
    """Batches of one shape, one after another."""

    first_batch: int
    stop: int  # the rank after the last piece of the first of them
    rows: int
    width: int


class LengthGroups:
    """The batches of a dataset."""

    def __init__(
        self, pieces: Pieces, batching: Grouped, more_columns: int, remainder: Remainder
    ) -> None:
        self._pieces, self._more = pieces, more_columns
        self._widths, counts = _count_widths(pieces, batching, more_columns)
        self._firsts = offsets_of(counts)
        self._order = _sort(pieces, batching, more_columns, self._widths, self._firsts)
        self.runs, self.num_batches, rest = _find_runs(self._widths, self._firsts, batching)
        self.left_out = rest if remainder == "drop" else 0  # pieces of every epoch
        self.num_batches -= self.left_out > 0

    def shape(self, batch: int) -> tuple[int, int]:
        """Return the rows and columns of a batch."""
        run = self._run_of(batch)
        return run.rows, run.width

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Return the shapes that there are, the longest rows first."""
        return [(r.rows, r.width) for r in self.runs if r.first_batch < self.num_batches]

    def batches(self, which: Sequence[tuple[int, int]], *, key: OrderKey | None) -> list[Offsets]:
        """Return the pieces of batches, given by (epoch, number in it), of which the last of an
        epoch may have fewer than rows.

        `key`: what the order follows from; None: it is that of the dataset.
        """
        ranks = [self._ranks(number) for _, number in which]
        counts = [len(own) for own in ranks]
        epochs = np.repeat([epoch for epoch, _ in which], counts)
        return np.split(self._at(np.concatenate(ranks), epochs, key), np.cumsum(counts)[:-1])

    def _ranks(self, number: int) -> Offsets:
        run = self._run_of(number)
        stop = run.stop - (number - run.first_batch) * run.rows
        return np.arange(max(0, stop - run.rows), stop)

    def _run_of(self, batch: int) -> ShapeRun:
        return self.runs[bisect_right(self.runs, batch, key=lambda run: run.first_batch) - 1]

    def _at(self, ranks: Offsets, epochs: Offsets, key: OrderKey | None) -> Offsets:
        """Return the pieces of these ranks, each in its epoch."""
        group = np.searchsorted(self._firsts, ranks, side="right") - 1
        place = ranks - self._firsts[group]
        if key is not None:
            number = epochs % (1 << 40) * len(self._widths) + group  # of the group in its epoch
            place = shuffle_lists(
                place,
                number,
                self._firsts[group + 1] - self._firsts[group],
                seed=key.seed,
                name=key.name,
                generation=key.generation,
            )
        return self._order[self._firsts[group] + place].astype(np.int64)

    def counts(self, key: OrderKey | None) -> dict[str, int]:
        """Return what the first epoch has; padding as a packed dataset counts it."""
        sizes = np.diff([*(run.first_batch for run in self.runs), self.num_batches])
        numbers = np.maximum(sizes, 0).tolist()
        rows = sum(n * run.rows for n, run in zip(numbers, self.runs, strict=True))
        capacity = 1 - self._more
        places = sum(
            n * run.rows * (run.width + capacity) for n, run in zip(numbers, self.runs, strict=True)
        )
        left = self._pieces.lengths_of(
            self._at(np.arange(self.left_out), np.zeros(1, np.int64), key)
        )
        tokens = sum(int(lengths.sum()) for _, lengths in self._pieces.lengths()) - int(left.sum())
        return {
            "batches": self.num_batches,
            "rows": rows,
            "rows_empty": rows - (len(self._order) - self.left_out),
            "padding": places - tokens,
            "pieces_left_out": self.left_out,
        }


def _count_widths(pieces: Pieces, batching: Grouped, more: int) -> tuple[Offsets, Offsets]:
    """Return the widths that rows of these pieces have, ascending, and how many have each."""
    totals: dict[int, int] = {}
    for _, lengths in pieces.lengths():
        widths, counts = np.unique(batching.widths(columns_of(lengths, more)), return_counts=True)
        for width, count in zip(widths.tolist(), counts.tolist(), strict=True):
            totals[width] = totals.get(width, 0) + count
    found = sorted(totals)
    return np.array(found, np.int64), np.array([totals[width] for width in found], np.int64)


def _sort(
    pieces: Pieces, batching: Grouped, more: int, widths: Offsets, firsts: Offsets
) -> NDArray[Any]:
    """Return the numbers of all pieces, sorted by width; those of one width ascend."""
    order = np.empty(len(pieces), np.uint32 if len(pieces) < 1 << 32 else np.uint64)
    free = firsts[:-1].copy()  # the next place of each width
    small = np.uint16 if len(widths) < 1 << 16 else np.uint32  # which are sorted faster
    for first, lengths in pieces.lengths():
        group = np.searchsorted(widths, batching.widths(columns_of(lengths, more)))
        own = np.argsort(group.astype(small), kind="stable")
        counts = np.bincount(group, minlength=len(widths))
        order[ranges(free, counts)] = own + first
        free += counts
    return order


def _find_runs(
    widths: Offsets, firsts: Offsets, batching: Grouped
) -> tuple[list[ShapeRun], int, int]:
    """Return all batches, how many they are, and how many pieces the last has if it is not full."""
    runs: list[ShapeRun] = []
    batches, left = 0, int(firsts[-1])
    for width, first in zip(widths[::-1].tolist(), firsts[-2::-1].tolist(), strict=True):
        if left <= first:
            continue
        rows = batching.rows(width)
        runs.append(ShapeRun(first_batch=batches, stop=left, rows=rows, width=width))
        number = -(-(left - first) // rows)
        batches, left = batches + number, left - number * rows
    return runs, batches, left + runs[-1].rows if left < 0 else 0
