"""One endless or finite sequence of rows out of one or several datasets.

    phase  0 ≤ row < 64,000        web 7, code 3
           64,000 ≤ row            web 1, code 1        from step 1000 on

A phase begins where weights change, or where a dataset is used up and drops out. Within it rows
are dealt by `share`; each dataset goes on where the phase before left it, in its own order. So the
dataset and the row at any place follow from the place alone.

Weights are shares of rows. All rows have the same number of tokens, padding included, so they are
shares of tokens too as far as the datasets are equally well packed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Literal

import numpy as np

from dataprep.loaders.order import in_order, shuffle
from dataprep.loaders.share import MAX_SUM, Shares, lowest_terms
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Offsets

Exhausted = Literal["stop", "repeat", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A dataset of a mixture."""

    name: str
    num_rows: int
    weights: dict[int, Fraction]  # by the row from which on they hold; 0 is the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    first_row: int
    shares: Shares
    taken: tuple[int, ...]  # rows of each dataset before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    parts: tuple[Part, ...]
    phases: tuple[Phase, ...]
    num_rows: int | None  # None: it never ends
    shuffled: bool
    seed: int

    def locate(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        """The dataset and the row in it, for the places start ≤ place < stop."""
        datasets, ranks = self._deal(start, stop)
        rows = np.empty_like(ranks)
        for number, part in enumerate(self.parts):
            mine = datasets == number
            if self.shuffled:
                rows[mine] = shuffle(ranks[mine], part.num_rows, seed=self.seed, name=part.name)
            else:
                rows[mine] = in_order(ranks[mine], part.num_rows)
        return datasets, rows

    def _deal(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        firsts = [phase.first_row for phase in self.phases]
        found = []
        while start < stop:
            number = bisect_right(firsts, start) - 1
            phase = self.phases[number]
            end = min([stop, *firsts[number + 1 : number + 2]])
            datasets, ranks = phase.shares.deal(np.arange(start, end) - phase.first_row)
            found.append((datasets, ranks + np.array(phase.taken)[datasets]))
            start = end
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([d for d, _ in found]), np.concatenate([r for _, r in found])


def plan_mixture(
    parts: Sequence[Part],
    *,
    epochs: int | None,
    exhausted: Exhausted,
    shuffled: bool,
    seed: int,
) -> Mixture:
    """Lay the phases out, and find where the sequence ends."""
    limits = [None if epochs is None else epochs * part.num_rows for part in parts]
    changes = sorted({row for part in parts for row in part.weights})
    phases: list[Phase] = []
    taken = [0] * len(parts)
    used_up = set[int]()
    row, end = 0, None
    while end is None:
        weights = _weights_at(parts, row, used_up)
        if not any(weights):
            if not used_up:
                raise ConfigError(f"no dataset of the mixture has a weight from row {row} on")
            end = row
            break
        phase = Phase(first_row=row, shares=Shares(weights=weights), taken=tuple(taken))
        phases.append(phase)
        length, spent = _end_of(phase, limits, exhausted)
        change = next((c for c in changes if c > row), None)
        if change is not None and (length is None or row + length > change):
            length, spent = change - row, None
        if length is None:
            break
        taken = [count + phase.shares.count(i, length) for i, count in enumerate(taken)]
        row += length
        if spent is not None and exhausted == "drop":
            used_up.add(spent)
        elif spent is not None:
            end = row
    return Mixture(
        parts=tuple(parts), phases=tuple(phases), num_rows=end, shuffled=shuffled, seed=seed
    )


def _end_of(
    phase: Phase, limits: Sequence[int | None], exhausted: Exhausted
) -> tuple[int | None, int | None]:
    """After how many rows the phase ends by itself, and the dataset that ends it."""
    ends: list[tuple[int, int]] = []
    for i, limit in enumerate(limits):
        if limit is None or not phase.shares.weights[i]:
            continue
        left = max(0, limit - phase.taken[i])
        if exhausted == "repeat":  # after the last row that is there
            ends.append((phase.shares.reach(i, left), i))
        else:  # before the first that is not
            ends.append((phase.shares.reach(i, left + 1) - 1, i))
    if not ends:
        return None, None
    return max(ends) if exhausted == "repeat" else min(ends)


def _weights_at(parts: Sequence[Part], row: int, used_up: set[int]) -> tuple[int, ...]:
    current = [
        Fraction(0) if i in used_up else part.weights[max(r for r in part.weights if r <= row)]
        for i, part in enumerate(parts)
    ]
    scale = lcm(*(weight.denominator for weight in current))
    weights = lowest_terms([int(weight * scale) for weight in current])
    if sum(weights) >= MAX_SUM:
        raise ConfigError(
            f"the weights of the mixture are too fine to be exact (their common measure is "
            f"1/{sum(weights)}); give them with fewer digits"
        )
    return weights
