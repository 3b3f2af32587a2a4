"""Which records of a stream a worker of a rank gets.

    batches of 2, two ranks, two workers each        records  0 1 2 3 │ 4 5 6 7 │ 8 9
                                                     worker       0   │    1    │  0
    rank 0 takes 0 2 │ 4 6 │ 8,  rank 1 takes 1 3 │ 5 7 │ 9

A group is a batch of every rank; the workers of a rank take groups in turn, as torch takes batches
of workers in turn, so that batches do not depend on the number of workers. Every rank gets as many
batches as any other: of an incomplete last group, records are taken again where they do not suffice
for all, or none is taken (drop_last).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The place of a process among those that read one stream."""

    rank: int = 0
    world_size: int = 1
    batch_size: int = 1  # of a rank
    drop_last: bool = False

    def of(self, records: Iterable[T], worker: int, num_workers: int) -> Iterator[T]:
        """Yield the records of a worker of this rank."""
        size = self.batch_size * self.world_size
        for number, group in enumerate(_groups(records, size)):
            if self.drop_last and len(group) < size:
                return
            if number % num_workers == worker:
                yield from self._own(group)

    def _own(self, group: Sequence[T]) -> list[T]:
        each = -(-len(group) // self.world_size)
        places = range(self.rank, each * self.world_size, self.world_size)
        return [group[place % len(group)] for place in places]


def in_buffer(records: Iterable[T], size: int, seed: Sequence[int]) -> Iterator[T]:
    """Yield all records, each drawn from a buffer of so many, as the seed decides."""
    random = np.random.default_rng(seed)
    rest = iter(records)
    buffer = list(islice(rest, size))
    for record in rest:
        place = int(random.integers(len(buffer)))
        yield buffer[place]
        buffer[place] = record
    order: Any = random.permutation(len(buffer))
    yield from (buffer[place] for place in order.tolist())


def _groups(records: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(records)
    while group := list(islice(rest, size)):
        yield group
