"""The settings of a loader -> what its steps are: datasets, their sequence, the plan of batches.

    data, batch_size, weights, epochs …   ─►   members    datasets in the generations that are read
                                               mixture    which row of which comes when
                                               sizes      how many rows a step takes of that
                                               plan       the rows and the shape of each batch

Everything that does not depend on a mesh, on where a loader is, or on what was read ahead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from dataprep.loaders.batching import AnyBatching, BatchSize, Grouped, identity_of, sizes_of
from dataprep.loaders.blocks import ShardBlocks, Shuffle, checked_shuffle
from dataprep.loaders.ends import (
    check_choice,
    check_end,
    count_steps,
    rows_of_epochs,
)
from dataprep.loaders.generations import GenerationsOf, MixedDataset, shown_numbers
from dataprep.loaders.mixture import Component, Exhausted, Mixture, plan_mixture
from dataprep.loaders.open import Data, Mix, make_rows_of, open_mix
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.plans import Plan, make_plan
from dataprep.loaders.remote import Remotes
from dataprep.loaders.schedule import BatchSizes, Remainder, whole_number
from dataprep.loaders.sources import RowSource
from dataprep.loaders.views import UserView, ViewName, more_columns_of
from dataprep.loaders.whole import Verify, check_verify
from dataprep.pipeline.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSteps:
    """What the steps of a loader are."""

    members: dict[str, MixedDataset]
    mixture: Mixture
    sizes: BatchSizes
    plan: Plan
    num_steps: int | None  # None: they never end
    batching: AnyBatching | None  # None: rows of one length
    more_columns: int  # that the view has beyond those of most
    identity: dict[str, Any] | None  # of `batching`, as a state has it
    remotes: Remotes

    def told(self, step: int, seq_len: int) -> str:
        """Return what a loader at a step shows of itself."""
        opened = {name: member.at(step) for name, member in self.members.items()}
        newest = {name: member.datasets[-1].folder for name, member in self.members.items()}
        data = " + ".join(
            f"{name}={place}" if name else str(place) for name, place in newest.items()
        )
        numbers = {name: one.about.generation for name, one in opened.items() if one.about.parts}
        grown = f", generation={shown_numbers(numbers)}" if numbers else ""
        steps = "" if self.num_steps is None else f"/{self.num_steps}"
        size = self.batching or self.sizes.size(step)
        sizes = f"batch_size={size}, seq_len={seq_len}"
        return f"{data}: step={step}{steps}, {sizes}, {self._order()}{grown}"

    def _order(self) -> str:
        if not self.mixture.shuffled:
            return "shuffle=False"
        window = self.mixture.window_shards
        blocks = "" if window is None else f", shuffle='blocks', window_shards={window}"
        return f"seed={self.mixture.seed}{blocks}"


def plan_steps(
    data: Data | Mix,
    *,
    batch_size: BatchSize,
    shuffle: Shuffle,
    window_shards: int | None,
    cache: str | os.PathLike[str] | None,
    cache_bytes: int | None,
    seed: int,
    epochs: int | None,
    generation: GenerationsOf | None,
    view: ViewName | UserView,
    remainder: Remainder,
    max_steps: int | None,
    max_steps_per_epoch: int | None,
    exhausted: Exhausted,
    verify: Verify,
) -> PlannedSteps:
    """Check the settings, open the datasets, and plan all steps; see `DataLoader`."""
    check_choice("remainder", remainder, ("drop", "pad"))
    check_choice("exhausted", exhausted, ("stop", "repeat", "drop"))
    check_verify(verify)
    shuffle, window = checked_shuffle(shuffle, window_shards)
    # Made plain ints, whatever kind they are: the state must be JSON.
    seed = whole_number("seed", seed)
    epochs = None if epochs is None else whole_number("epochs", epochs, least=1)
    max_steps = None if max_steps is None else whole_number("max_steps", max_steps, least=0)
    batching = batch_size if isinstance(batch_size, AnyBatching) else None
    sizes, more_columns = sizes_of(batch_size), more_columns_of(view)
    rows_of = make_rows_of(batching, more_columns, remainder)
    remotes = Remotes(cache, cache_bytes)
    members, components = open_mix(data, generation, sizes, verify, rows_of, remotes)
    window = remotes.choose(shuffle, window, members, max(sizes.sizes))
    if window is not None:
        components = [in_blocks(one, members[one.name], window) for one in components]
    ends_once = None if isinstance(batching, Grouped) else remainder
    check_end(epochs, ends_once, exhausted, len(components))
    mixture = plan_mixture(
        components,
        epochs=epochs,
        exhausted=exhausted,
        shuffled=shuffle is not False,
        seed=seed,
        epoch_rows=rows_of_epochs(max_steps_per_epoch, sizes),
        window_shards=window,
    )
    return PlannedSteps(
        members=members,
        mixture=mixture,
        sizes=sizes,
        plan=make_plan(batching, mixture, sizes, list(members.values()), more_columns),
        num_steps=count_steps(mixture.num_rows, sizes, remainder, max_steps),
        batching=batching,
        more_columns=more_columns,
        identity=identity_of(batching, more_columns, remainder),
        remotes=remotes,
    )


def in_blocks(one: Component, member: MixedDataset, window: int) -> Component:
    """Return a dataset of a mixture, shuffled in blocks."""
    first, *rest = [_blocks_of(dataset, window) for dataset in member.datasets]
    later = [replace(stage, blocks=own) for stage, own in zip(one.later, rest, strict=True)]
    return replace(one, blocks=first, later=tuple(later))


def _blocks_of(source: RowSource, window: int) -> ShardBlocks:
    if not isinstance(source, PackedDataset):
        raise ConfigError(
            f"shuffle='blocks' needs packed rows, {source.folder} has documents, whose batches "
            "follow from the lengths of all of them; run dataprep pack on it, or shuffle globally"
        )
    if source.chosen is not None:
        raise ConfigError(
            f"shuffle='blocks' needs whole shards, and this is a selection of {source.folder}; "
            "shuffle globally, or leave out the selection"
        )
    return ShardBlocks([shard.num_records for shard in source.about.shards], window)
