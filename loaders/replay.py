"""Which rows a loader took at a step, by a state that it saved later: no other setting is needed.

    {"step": 1200, "seed": 0, "shuffle": true, "batch_size": {"0": 256},
     "datasets": {"code": {"0": [0, "sha256:…"]}, "web": {"0": [3, "sha256:…"]}},
     "phases": [[0, [3, 7]]], "rows": null, …}

    step 17 of web  ─►  rows 5103, 88, … of web; 77 rows are of code

The dealing needs the shares alone, so that the other datasets of a mixture need not be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import msgspec

from dataprep.loaders.blocks import ShardBlocks
from dataprep.loaders.mixture import Component, Mixture, Phase, Stage, epochs_before
from dataprep.loaders.schedule import MAX_ROWS, BatchSizes, shown
from dataprep.loaders.shares import Shares
from dataprep.loaders.state import BATCH, parse_state
from dataprep.pipeline.errors import ConfigError, ConflictError, short
from dataprep.pipeline.typed import convert_as

_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Size = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
_Rows = Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)]
_Weight = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Read = tuple[_Number, str]  # generation and fingerprint of a dataset
ShardRows = Sequence[int]  # of a dataset


class _Known(msgspec.Struct):
    """What a state says about the batches before its step."""

    step: _Number
    seed: int
    shuffle: bool | Literal["blocks"]
    batch_size: dict[str, _Size]
    datasets: dict[str, dict[str, tuple[_Number, str]]]
    phases: list[tuple[_Number, list[_Weight]]]
    rows: _Rows | None
    epoch_rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] | None = None
    window_shards: _Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The batches before the step of a state; those after it, if nothing changes at that step."""

    step: int  # of the state
    read: Mapping[str, Mapping[int, Read]]  # by the names of datasets, by the step from which on
    seed: int
    shuffled: bool
    window_shards: int | None  # None: not in blocks
    sizes: BatchSizes
    phases: tuple[Phase, ...]
    epoch_rows: int | None
    num_rows: int | None  # None: they never end

    @property
    def num_steps(self) -> int:
        """Return how many steps there are; of an endless loader, how many can be counted."""
        if self.num_rows is None:
            return self.sizes.num_steps(MAX_ROWS, "drop")
        return self.sizes.num_steps(self.num_rows, "pad")

    def read_at(self, step: int) -> dict[str, Read]:
        """Return which generation of each dataset a step reads."""
        return {name: own[max(s for s in own if s <= step)] for name, own in self.read.items()}

    def rows_of(self, step: int, rows: Mapping[str, ShardRows]) -> list[tuple[str, int | None]]:
        """Return (dataset, row in it) for each row of a batch; None where `rows`, which has the
        number of rows of each shard by dataset, in the generation of the step, does not have it.
        Padding is left out."""
        first, names = self.sizes.first_row(step), list(self.read)
        stop = first + self.sizes.size(step)
        stop = stop if self.num_rows is None else min(stop, self.num_rows)
        dealt = self._mixture(rows).locate(first, stop)
        found = zip(*(array.tolist() for array in dealt), strict=True)
        return [(names[i], row if names[i] in rows else None) for i, row in found]

    def epochs_at(self, step: int, rows: Mapping[str, ShardRows]) -> dict[str, float]:
        """Return how often the datasets that `rows` has were read by the batches before a step."""
        epochs = epochs_before(self._mixture(rows), self.sizes.first_row(step))
        return {name: epochs[name] for name in rows}

    def _mixture(self, rows: Mapping[str, ShardRows]) -> Mixture:
        """Return the mixture, as it is where datasets have so many rows; one whose rows are not
        known counts as one row."""
        return Mixture(
            components=tuple(
                Component(
                    name=name,
                    num_rows=sum(rows.get(name, (1,))),
                    weights={0: Fraction(1)},
                    blocks=self._blocks(rows.get(name, (1,))),
                    later=tuple(
                        Stage(
                            first_row=self.sizes.first_row(step),
                            num_rows=sum(rows.get(name, (1,))),
                            generation=generation,
                            blocks=self._blocks(rows.get(name, (1,))),
                        )
                        for step, (generation, _) in own.items()
                        if step
                    ),
                )
                for name, own in self.read.items()
            ),
            phases=self.phases,
            num_rows=self.num_rows,
            shuffled=self.shuffled,
            seed=self.seed,
            epoch_rows=self.epoch_rows,
        )

    def _blocks(self, rows: ShardRows) -> ShardBlocks | None:
        return None if self.window_shards is None else ShardBlocks(rows, self.window_shards)


def replay_of(state: Mapping[str, Any] | bytes | str) -> Replay:
    """Return what a state says about the batches before it; a ConflictError if it is none."""
    parsed = parse_state(state)
    if BATCH in parsed:
        raise ConflictError(
            f"the batches of this state follow from the lengths of documents "
            f"({shown(parsed[BATCH])}): ask a loader of the same settings which documents a step "
            "had, by loader.rows_of(step)"
        )
    try:
        known = convert_as(dict(parsed), _Known)
        sizes = BatchSizes.of({int(step): size for step, size in known.batch_size.items()})
        read = {name: _by_step(own) for name, own in sorted(known.datasets.items())}
    except (msgspec.ValidationError, ValueError, ConfigError) as error:
        raise ConflictError(
            f"this state knows no batch: {short(str(error), 200)}; a state knows the batches that "
            "the loader had handed out"
        ) from None
    firsts = [first for first, _ in known.phases]
    counts = {len(weights) if any(weights) else 0 for _, weights in known.phases}
    if firsts[:1] != [0] or firsts != sorted(set(firsts)) or counts != {len(known.datasets)}:
        raise ConflictError(f"the phases of this state, {shown(known.phases)}, are not of a loader")
    return Replay(
        step=known.step,
        read=read,
        seed=known.seed,
        shuffled=known.shuffle is not False,
        window_shards=known.window_shards,
        sizes=sizes,
        phases=_phases(known.phases, [{sizes.first_row(s) for s in own} for own in read.values()]),
        epoch_rows=known.epoch_rows,
        num_rows=known.rows,
    )


def _by_step(told: Mapping[str, Read]) -> dict[int, Read]:
    found = {int(step): read for step, read in told.items()}
    if min(found, default=-1) != 0:
        raise ValueError("its generations do not begin at step 0")
    return dict(sorted(found.items()))


def _phases(
    found: Sequence[tuple[int, Sequence[int]]], begins: Sequence[set[int]]
) -> tuple[Phase, ...]:
    """Return the phases, with what those before each have taken of the same generation; `begins`
    are the rows at which generations of each dataset begin."""
    phases: list[Phase] = []
    for first, weights in found:
        taken = [0] * len(weights)
        if phases:
            last = phases[-1]
            length = first - last.first_row
            taken = [
                0 if first in begins[i] else n + last.shares.count(i, length)
                for i, n in enumerate(last.taken)
            ]
        shares = Shares(weights=tuple(weights))
        phases.append(Phase(first_row=first, shares=shares, taken=tuple(taken)))
    return tuple(phases)
