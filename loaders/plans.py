"""Step -> which rows a batch has, and its shape.

    EqualRows      rows of one length, so many a step         packed datasets
    LongestRows    the same, as long as the longest of them   documents, `Longest`
    GroupedRows    one batch that was found by lengths        documents, `ByTokens`, `Buckets`

Everything follows from the step. A row is numbered as its dataset has it, in the generation that
the step reads; PADDING in place of a dataset is a row that is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from dataprep.loaders.batching import AnyBatching, Longest, columns_of
from dataprep.loaders.document_rows import DocumentRows
from dataprep.loaders.generations import MixedDataset
from dataprep.loaders.groups import LengthGroups
from dataprep.loaders.mixture import Mixture
from dataprep.loaders.order import OrderKey
from dataprep.loaders.schedule import BatchSizes
from dataprep.loaders.sources import RowSource
from dataprep.pipeline.types import Offsets

PADDING = -1  # in place of the number of a dataset: there is no row, fill with padding
_BLOCK_ROWS = 4096  # rows whose order is computed at once
_BATCH_ROWS = 4096  # rows of batches by lengths that are found at once
_SHAPES_SHOWN = 1 << 12  # more are not counted one by one

Shape = tuple[int, int]  # rows and columns


class Plan(Protocol):
    """The rows and the shape of every batch."""

    adds_rows: bool  # whether empty rows may be added behind, to split a batch evenly

    def rows(self, step: int) -> tuple[Offsets, Offsets]:
        """Return the dataset (or PADDING) and the row in it, for each row of a batch."""
        ...

    def shape(self, step: int) -> Shape: ...

    def shapes(self) -> list[tuple[int, Shape]]:
        """Return every shape that batches have, each with a step from which on it may be."""
        ...


class EqualRows:
    """Batches of so many rows, all of one width."""

    adds_rows = False

    def __init__(self, mixture: Mixture, sizes: BatchSizes, width: int) -> None:
        self._mixture, self._sizes, self._width = mixture, sizes, width
        self._order = lru_cache(maxsize=8)(mixture.locate)

    def rows(self, step: int) -> tuple[Offsets, Offsets]:
        start, size = self._sizes.first_row(step), self._sizes.size(step)
        limit = self._mixture.num_rows
        stop = start + size if limit is None else min(start + size, limit)
        datasets = np.full(size, PADDING, np.int64)
        rows = np.zeros(size, np.int64)
        while start < stop:
            first = start - start % _BLOCK_ROWS
            last = first + _BLOCK_ROWS if limit is None else min(first + _BLOCK_ROWS, limit)
            until = min(stop, last)
            place = start - self._sizes.first_row(step)
            for target, part in zip((datasets, rows), self._order(first, last), strict=True):
                target[place : place + until - start] = part[start - first : until - first]
            start = until
        return datasets, rows

    def shape(self, step: int) -> Shape:
        return self._sizes.size(step), self._width

    def shapes(self) -> list[tuple[int, Shape]]:
        return [(step, self.shape(step)) for step in self._sizes.steps]


class LongestRows:
    """Batches of so many documents, as wide as the longest of them needs."""

    adds_rows = False

    def __init__(
        self,
        mixture: Mixture,
        sizes: BatchSizes,
        members: Sequence[MixedDataset],
        batching: Longest,
        more_columns: int,
    ) -> None:
        self._equal, self._sizes = EqualRows(mixture, sizes, 0), sizes
        self._members, self._batching, self._more = members, batching, more_columns
        # Not a method: a cycle would keep what is dropped, with its open files.
        longest = partial(_longest, self._equal, members)
        self._tokens = lru_cache(maxsize=64)(longest)

    def rows(self, step: int) -> tuple[Offsets, Offsets]:
        return self._equal.rows(step)

    def shape(self, step: int) -> Shape:
        return self._sizes.size(step), self._width(self._tokens(step))

    def _width(self, tokens: int) -> int:
        return int(self._batching.widths(np.array([columns_of(tokens, self._more)]))[0])

    def shapes(self) -> list[tuple[int, Shape]]:
        sources = [source for member in self._members for source in member.datasets]
        longest = max(one.pieces.longest for one in sources if isinstance(one, DocumentRows))
        most, each = self._width(longest), self._batching.multiple_of
        widths = [*range(each, most + 1, each)] if most <= _SHAPES_SHOWN * each else [each, most]
        return [(s, (self._sizes.size(s), width)) for s in self._sizes.steps for width in widths]


def _longest(equal: EqualRows, members: Sequence[MixedDataset], step: int) -> int:
    """Return the tokens of the longest row of a batch."""
    datasets, rows = equal.rows(step)
    longest = 1
    for number, member in enumerate(members):
        source, own = member.at(step), rows[datasets == number]
        if len(own) and isinstance(source, DocumentRows):
            longest = max(longest, int(source.pieces.lengths_of(own).max()))
    return longest


class GroupedRows:
    """One batch of one dataset a step, as its `groups` have it."""

    adds_rows = True

    def __init__(self, mixture: Mixture, members: Sequence[MixedDataset]) -> None:
        self._mixture, self._members = mixture, members
        self._order = lru_cache(maxsize=8)(mixture.locate_epochs)
        self._at_once = max(1, _BATCH_ROWS // max(rows for _, (rows, _) in self.shapes()))
        self._found: dict[int, list[tuple[int, Offsets]]] = {}  # by the first of so many steps

    def rows(self, step: int) -> tuple[Offsets, Offsets]:
        limit = self._mixture.num_rows
        step = step if limit is None else min(step, limit - 1)  # the next is asked for early
        place = step % self._at_once
        first = step - place
        found = self._found.get(first)
        if found is None:
            stop = first + self._at_once
            found = self._pieces(range(first, stop if limit is None else min(stop, limit)))
            last = [*self._found.items()][-1:]  # a step and the next are asked for in turn
            self._found = dict([*last, (first, found)])
        dataset, pieces = found[place]
        datasets = np.full(self.shape(step)[0], PADDING, np.int64)
        datasets[: len(pieces)] = dataset
        rows = np.zeros(len(datasets), np.int64)
        rows[: len(pieces)] = pieces
        return datasets, rows

    def _pieces(self, steps: range) -> list[tuple[int, Offsets]]:
        """Return the dataset and the pieces of some batches; one alone takes nearly as long."""
        every = [self._find(step) for step in steps]
        lots: dict[tuple[int, LengthGroups, OrderKey | None], list[int]] = {}
        for place, (step, (dataset, groups, _, _)) in enumerate(zip(steps, every, strict=True)):
            lots.setdefault((dataset, groups, self._key(dataset, step)), []).append(place)
        found: dict[int, tuple[int, Offsets]] = {}
        for (dataset, groups, key), places in lots.items():
            batches = groups.batches([every[place][2:] for place in places], key=key)
            found |= {i: (dataset, own) for i, own in zip(places, batches, strict=True)}
        return [found[place] for place in range(len(steps))]

    def shape(self, step: int) -> Shape:
        _, groups, _, batch = self._find(step)
        return groups.shape(batch)

    def shapes(self) -> list[tuple[int, Shape]]:
        found = {
            shape: step
            for member in self._members
            for step, source in zip(member.steps, member.datasets, strict=True)
            for shape in _groups_of(source).shapes
        }
        return [(step, shape) for shape, step in found.items()]

    def counts(self, dataset: int) -> dict[str, int]:
        """Return what the first epoch of a dataset has, in its newest generation."""
        member = self._members[dataset]
        return _groups_of(member.datasets[-1]).counts(self._key(dataset, member.steps[-1]))

    def _find(self, step: int) -> tuple[int, LengthGroups, int, int]:
        """Return the dataset, its groups, the epoch, and the batch of that epoch."""
        limit = self._mixture.num_rows
        place = step if limit is None else min(step, limit - 1)  # the next is asked for early
        first = place - place % _BLOCK_ROWS
        last = first + _BLOCK_ROWS if limit is None else min(first + _BLOCK_ROWS, limit)
        found = (int(array[place - first]) for array in self._order(first, last))
        dataset, epoch, batch = found
        return dataset, _groups_of(self._members[dataset].at(step)), epoch, batch

    def _key(self, dataset: int, step: int) -> OrderKey | None:
        one = self._mixture.components[dataset]
        generation = one.stage_at(self._mixture.phase_at(step).first_row).generation
        if not self._mixture.shuffled:
            return None
        return OrderKey(seed=self._mixture.seed, name=one.name, generation=generation)


def _groups_of(source: object) -> LengthGroups:
    assert isinstance(source, DocumentRows)
    assert source.groups is not None
    return source.groups


def named_rows(
    plan: Plan, step: int, names: Sequence[str], sources: Sequence[RowSource]
) -> list[tuple[str, int]]:
    """Return (dataset, row or document in it) for each row of a batch, without padding."""
    datasets, rows = plan.rows(step)
    for number, source in enumerate(sources):
        own = datasets == number
        if isinstance(source, DocumentRows) and own.any():
            rows[own] = source.pieces.locate(rows[own]).document
    pairs = zip(datasets.tolist(), rows.tolist(), strict=True)
    return [(names[dataset], row) for dataset, row in pairs if dataset != PADDING]


def counts_of(plan: Plan, members: Mapping[str, MixedDataset]) -> dict[str, dict[str, int]]:
    """Return what became of the documents of tokenized datasets, in their newest generations."""
    found = {}
    for number, (name, member) in enumerate(members.items()):
        source = member.datasets[-1]
        if isinstance(source, DocumentRows):
            batches = plan.counts(number) if isinstance(plan, GroupedRows) else {}
            found[name] = {**source.pieces.counts, **batches}
    return found


def make_plan(
    batching: AnyBatching | None,
    mixture: Mixture,
    sizes: BatchSizes,
    members: Sequence[MixedDataset],
    more_columns: int,
) -> Plan:
    """Return the plan of batches; `more_columns`: how many a view has more than most."""
    seq_len = members[0].datasets[0].about.seq_len
    if batching is None:
        assert seq_len is not None
        return EqualRows(mixture, sizes, seq_len + more_columns)
    if isinstance(batching, Longest):
        return LongestRows(mixture, sizes, members, batching, more_columns)
    return GroupedRows(mixture, members)
