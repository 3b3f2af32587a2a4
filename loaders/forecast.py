"""Which shards the next batches need, and when those of later ones are needed again.

    steps from now    0        1        2    …         20        …     next epoch
    known by rows     a b c    a c      b d            d
    known by windows                                              e f g h        a b c d

Near batches are looked at row by row, as far as asked for: so only the shards that this host needs
are fetched, in the order in which it needs them. For what is behind that, it is enough to know the
furthest: the order of windows tells, without a look at rows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.generations import MixedDataset
from dataprep.loaders.mixture import Mixture, Stage
from dataprep.loaders.order import OrderKey
from dataprep.loaders.schedule import BatchSizes
from dataprep.pipeline.ragged import offsets_of

Shard = tuple[int, int]  # source, and number in it


class Forecast:
    """The shards of batches from a step on. `wanted` says which of which source a batch needs."""

    def __init__(self, wanted: Callable[[int], set[Shard]], has: Callable[[int], bool]) -> None:
        self._wanted, self._has = wanted, has
        self.step = self.known = 0  # batches from step to known were looked at
        self.first: dict[Shard, int] = {}  # of those that are needed from step on, in that order
        self._last: dict[Shard, int] = {}

    def move(self, step: int) -> None:
        """Forget what comes before a step."""
        if not self.step <= step <= self.known:
            self.first, self._last, self.known = {}, {}, step
        elif step > self.step:
            over = [shard for shard, last in self._last.items() if last < step]
            for shard in over:
                del self.first[shard], self._last[shard]
        self.step = step

    def look(self) -> bool:
        """Look at one more batch; return whether there is one."""
        if not self._has(self.known):
            return False
        for shard in sorted(self._wanted(self.known)):
            self.first.setdefault(shard, self.known)
            self._last[shard] = self.known
        self.known += 1
        return True

    def distance(self, shard: Shard) -> float:
        """Return after how many batches a shard that is known is needed."""
        return max(0, self.first[shard] - self.step)


def next_windows(
    mixture: Mixture, sizes: BatchSizes, number: int, member: MixedDataset, which: int, step: int
) -> NDArray[np.float64]:
    """Return for each shard of a dataset, in one of its generations, after about how many batches
    from a step on the window begins that it is in next; 0: it is in this one, inf: in none."""
    place = sizes.first_row(step)
    one = mixture.components[number]
    stages = [Stage(first_row=0, num_rows=one.num_rows, blocks=one.blocks), *one.later]
    stage, own = stages[which], one.stage_at(place)
    shards = member.datasets[which].about.shards
    rows = offsets_of([shard.num_records for shard in shards])
    phase = mixture.phase_at(place)
    share = phase.shares.weights[number] / sum(phase.shares.weights)
    if stage.first_row != own.first_row:
        is_over = stage.first_row < own.first_row
        return np.full(
            len(shards), inf if is_over else (stage.first_row - place) / sizes.size(step)
        )
    if mixture.shuffled and stage.blocks is None:
        return np.zeros(len(shards))  # each is always needed
    length = min(stage.num_rows, mixture.epoch_rows or stage.num_rows)
    epoch, before = divmod(mixture.taken(place)[number], length)
    key = OrderKey(seed=mixture.seed, name=one.name, generation=stage.generation)
    found = np.full(len(shards), inf)
    for later in range(3):
        if mixture.epochs is not None and epoch + later >= mixture.epochs:
            break
        first, stop = rows[:-1], rows[1:]
        if stage.blocks is not None:
            first, stop = stage.blocks.window_of_shards(epoch + later, key)
        ahead = (first < length) & (later * length + stop > before) & (first < stop)
        rest = np.maximum(later * length + first - before, 0)
        found = np.minimum(found, np.where(ahead, rest, inf))
    return found / (share * sizes.size(step)) if share else np.full(len(shards), inf)
