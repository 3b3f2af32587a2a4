"""The settings of a loader -> what its steps are: datasets, their sequence, the plan of batches.

    data, batch_size, weights, epochs …   ─►   members    datasets in the generations that are read
                                               mixture    which row of which comes when
                                               sizes      how many rows a step takes of that
                                               plan       the rows and the shape of each batch

Everything that does not depend on a mesh, on where a loader is, or on what was read ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dataprep.loaders.batching import AnyBatching, BatchSize, Grouped, identity_of, sizes_of
from dataprep.loaders.ends import (
    check_choice,
    check_end,
    check_flags,
    count_steps,
    rows_of_epochs,
)
from dataprep.loaders.generations import GenerationsOf, MixedDataset
from dataprep.loaders.mixture import Exhausted, Mixture, plan_mixture
from dataprep.loaders.open import Data, Mix, make_rows_of, open_mix
from dataprep.loaders.plans import Plan, make_plan
from dataprep.loaders.schedule import BatchSizes, Remainder, whole_number
from dataprep.loaders.views import UserView, ViewName, more_columns_of
from dataprep.loaders.whole import Verify, check_verify


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


def plan_steps(
    data: Data | Mix,
    *,
    batch_size: BatchSize,
    shuffle: bool,
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
    check_flags(shuffle=shuffle)
    # Made plain ints, whatever kind they are: the state must be JSON.
    seed = whole_number("seed", seed)
    epochs = None if epochs is None else whole_number("epochs", epochs, least=1)
    max_steps = None if max_steps is None else whole_number("max_steps", max_steps, least=0)
    batching = batch_size if isinstance(batch_size, AnyBatching) else None
    sizes, more_columns = sizes_of(batch_size), more_columns_of(view)
    rows_of = make_rows_of(batching, more_columns, remainder)
    members, components = open_mix(data, generation, sizes, verify, rows_of)
    ends_once = None if isinstance(batching, Grouped) else remainder
    check_end(epochs, ends_once, exhausted, len(components))
    mixture = plan_mixture(
        components,
        epochs=epochs,
        exhausted=exhausted,
        shuffled=bool(shuffle),
        seed=seed,
        epoch_rows=rows_of_epochs(max_steps_per_epoch, sizes),
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
    )
