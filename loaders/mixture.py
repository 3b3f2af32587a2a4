"""One sequence of rows out of one or several datasets, endless or finite.

    phase  0 ≤ place < 64,000       web 5, code 3
           64,000 ≤ place           web 1, code 1       from step 1000 on

    place  0 1 2 3 4 5 6 7 | 8 …
    of     w c w w c w c w | w …                        5 and 3 of every 8

A phase begins where weights change, where a dataset is used up and drops out, or where a newer
generation of it takes over. Within a phase, `shares` says which dataset each place is dealt to, by
arithmetic on its number alone. Each dataset goes on where the phase before left it, in its own
order; a newer generation begins anew, in an order over all of its rows. So the dataset and the row
at any place follow from the place alone.

An epoch may be cut short (`epoch_rows`): it has the first so many rows of its order.

    5 rows, 3 an epoch   3 1 4 | 2 4 1 | …       of 3 1 4 0 2 | 2 4 1 0 3 | …

Weights are shares of rows. All rows have the same number of tokens, padding included, so they are
shares of tokens too as far as the datasets are equally well packed.

The order of a dataset is that of `order`, or, where it has `blocks`, theirs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Literal

import numpy as np

from dataprep.loaders.blocks import ShardBlocks
from dataprep.loaders.order import OrderKey, in_order, shuffle
from dataprep.loaders.shares import Shares, lowest_terms
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Offsets

Exhausted = Literal["stop", "repeat", "drop"]

_MAX_SUM = 1 << 31  # of weights, so that no product exceeds 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A generation of a dataset, from a row of the sequence on."""

    first_row: int
    num_rows: int
    generation: int | None = None  # what its order is keyed by; None: the one that it began with
    blocks: ShardBlocks | None = None  # None: shuffled globally


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One dataset of a mixture."""

    name: str
    num_rows: int
    weights: dict[int, Fraction]  # by the row from which on they hold; 0 is the first
    later: tuple[Stage, ...] = ()  # newer generations that take over, in order
    blocks: ShardBlocks | None = None  # of the first generation

    def stage_at(self, row: int) -> Stage:
        """Return the generation that holds from a row of the sequence on."""
        begun = [stage for stage in self.later if stage.first_row <= row]
        if begun:
            return begun[-1]
        return Stage(first_row=0, num_rows=self.num_rows, blocks=self.blocks)

    def renewed_after(self, row: int) -> int | None:
        """Return the first row after this one at which a newer generation takes over."""
        return next((stage.first_row for stage in self.later if stage.first_row > row), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the sequence with the same shares."""

    first_row: int
    shares: Shares
    taken: tuple[int, ...]  # rows of each dataset that earlier phases used


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """A sequence of rows of several datasets."""

    components: tuple[Component, ...]
    phases: tuple[Phase, ...]
    num_rows: int | None  # None: it never ends
    shuffled: bool
    seed: int
    epoch_rows: int | None = None  # of each dataset, at most; None: all of them
    epochs: int | None = None  # this and the next decided phases and num_rows
    exhausted: Exhausted = "stop"
    window_shards: int | None = None  # of `blocks`; None: shuffled globally

    def locate(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        """Return the dataset and the row in it, for the places [start, stop)."""
        return self.locate_epochs(start, stop)[::2]

    def locate_epochs(self, start: int, stop: int) -> tuple[Offsets, Offsets, Offsets]:
        """Return the dataset, its epoch and the row in it, for the places [start, stop)."""
        found = [(np.zeros(0, np.int64),) * 3]
        while start < stop:
            phase = self.phase_at(start)
            later = (one.first_row for one in self.phases if one.first_row > start)
            end = min(stop, next(later, stop))
            datasets, ranks = phase.shares.deal(np.arange(start, end) - phase.first_row)
            ranks += np.array(phase.taken)[datasets]
            found.append((datasets, *self._rows(phase, datasets, ranks)))
            start = end
        datasets, epochs, rows = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return datasets, epochs, rows

    def phase_at(self, place: int) -> Phase:
        return self.phases[bisect_right(self.phases, place, key=lambda one: one.first_row) - 1]

    def taken(self, place: int) -> list[int]:
        """Return how many rows of each dataset, in the generation that it is in, come before a
        place."""
        phase = self.phase_at(place)
        length = place - phase.first_row
        return [before + phase.shares.count(i, length) for i, before in enumerate(phase.taken)]

    def _rows(self, phase: Phase, datasets: Offsets, ranks: Offsets) -> tuple[Offsets, Offsets]:
        """Return epoch and row at each place of a phase; it is of this dataset, after so many."""
        epochs, rows = np.empty_like(ranks), np.empty_like(ranks)
        for number, one in enumerate(self.components):
            mine, stage = datasets == number, one.stage_at(phase.first_row)
            places = _within_epochs(ranks[mine], stage, self.epoch_rows)
            epochs[mine] = places // stage.num_rows
            seed, name, moved = self.seed, one.name, stage.generation
            if not self.shuffled:
                rows[mine] = in_order(places, stage.num_rows)
            elif stage.blocks is None:
                rows[mine] = shuffle(places, stage.num_rows, seed=seed, name=name, generation=moved)
            else:
                key = OrderKey(seed=seed, name=name, generation=moved)
                rows[mine] = stage.blocks.rows(places, key)
        return epochs, rows


def epochs_before(mixture: Mixture, place: int) -> dict[str, float]:
    """Return how often each dataset was read before a place; the end is the last there is.

    A newer generation counts from the place on at which it took over.
    """
    end = place if mixture.num_rows is None else min(place, mixture.num_rows)
    first = mixture.phase_at(end).first_row
    taken = zip(mixture.components, mixture.taken(end), strict=True)
    most = mixture.epoch_rows
    return {one.name: rows / _epoch_of(one.stage_at(first), most) for one, rows in taken}


def _epoch_of(stage: Stage, epoch_rows: int | None) -> int:
    """Return how many rows an epoch has."""
    return stage.num_rows if epoch_rows is None else min(stage.num_rows, epoch_rows)


def _within_epochs(ranks: Offsets, stage: Stage, epoch_rows: int | None) -> Offsets:
    """Return the places in an order of whole epochs, of which each may be cut short.

    >>> _within_epochs(np.arange(7), Stage(first_row=0, num_rows=5), 3)
    array([ 0,  1,  2,  5,  6,  7, 10])
    """
    rest = stage.num_rows - _epoch_of(stage, epoch_rows)
    return ranks + ranks // (stage.num_rows - rest) * rest


def plan_mixture(
    components: Sequence[Component],
    *,
    epochs: int | None,
    exhausted: Exhausted,
    shuffled: bool,
    seed: int,
    epoch_rows: int | None = None,
    window_shards: int | None = None,
) -> Mixture:
    """Find all phases, and where the sequence ends."""
    changes = sorted(
        {row for one in components for row in (*one.weights, *(s.first_row for s in one.later))}
    )
    phases: list[Phase] = []
    taken = [0] * len(components)
    used_up = set[int]()
    row, end = 0, None
    while end is None:
        for i, one in enumerate(components):
            if row and one.stage_at(row).first_row == row:
                taken[i] = 0
                used_up.discard(i)
        weights = _weights_at(components, row, used_up)
        if not any(weights):
            if not used_up:
                raise ConfigError(f"no dataset of the mixture has a weight from row {row} on")
            end = row
            break
        phase = Phase(first_row=row, shares=Shares(weights=weights), taken=tuple(taken))
        phases.append(phase)
        length, spent = _end_of(phase, components, epochs, epoch_rows, changes, exhausted)
        if length is None:
            break
        taken = [count + phase.shares.count(i, length) for i, count in enumerate(taken)]
        row += length
        if spent is not None and exhausted == "drop":
            used_up.add(spent)
        elif spent is not None:
            end = row
    return Mixture(
        components=tuple(components),
        phases=tuple(phases),
        num_rows=end,
        shuffled=shuffled,
        seed=seed,
        epoch_rows=epoch_rows,
        epochs=epochs,
        exhausted=exhausted,
        window_shards=window_shards,
    )


def _end_of(
    phase: Phase,
    components: Sequence[Component],
    epochs: int | None,
    epoch_rows: int | None,
    changes: Sequence[int],
    exhausted: Exhausted,
) -> tuple[int | None, int | None]:
    """Return after how many rows a phase ends, and the dataset that is used up there, if any.

    `changes` are the rows at which weights or generations change. A phase that never ends has None
    rows.
    """
    length, spent = _used_up(phase, components, epochs, epoch_rows, exhausted)
    change = next((row for row in changes if row > phase.first_row), None)
    if change is not None and (length is None or phase.first_row + length > change):
        return change - phase.first_row, None
    return length, spent


def _used_up(
    phase: Phase,
    components: Sequence[Component],
    epochs: int | None,
    epoch_rows: int | None,
    exhausted: Exhausted,
) -> tuple[int | None, int | None]:
    """Return after how many rows a dataset is used up that ends the phase, and which one."""
    if epochs is None:
        return None, None
    ends: list[tuple[int, int]] = []
    is_renewed = False  # any of them, before it is used up
    for i, one in enumerate(components):
        if not phase.shares.weights[i]:
            continue
        length = _epoch_of(one.stage_at(phase.first_row), epoch_rows)
        left = max(0, epochs * length - phase.taken[i])
        if exhausted == "repeat":  # after the last row that is there
            end = phase.shares.reach(i, left)
        else:  # before the first that is not
            end = phase.shares.reach(i, left + 1) - 1
        renewal = one.renewed_after(phase.first_row)
        if renewal is not None and renewal <= phase.first_row + end:
            is_renewed = True
        else:
            ends.append((end, i))
    if exhausted == "repeat":
        return (None, None) if is_renewed or not ends else max(ends)
    return min(ends, default=(None, None))


def _weights_at(components: Sequence[Component], row: int, used_up: set[int]) -> tuple[int, ...]:
    """Return the weights that hold from a row on, as whole numbers in lowest terms."""
    current = [
        Fraction(0) if i in used_up else one.weights[max(r for r in one.weights if r <= row)]
        for i, one in enumerate(components)
    ]
    scale = lcm(*(weight.denominator for weight in current))
    weights = lowest_terms([int(weight * scale) for weight in current])
    if sum(weights) >= _MAX_SUM:
        raise ConfigError(
            f"the weights of the mixture are too fine to be exact (their common measure is "
            f"1/{sum(weights)}); give them with fewer digits"
        )
    return weights
