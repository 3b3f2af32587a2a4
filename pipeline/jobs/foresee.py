"""Tell what `make_dataset` would find in the output folder; nothing is written or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dataprep.pipeline.jobs.commits import Marker
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.ownership import check_ours, check_work
from dataprep.pipeline.jobs.recipes import Outcome, Recipe
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    locked,
    refuse_other_run,
)

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


def foresee(
    recipe: Recipe[P, M], plan: P, *, overwrite: bool = False, reads: Sequence[str] = ()
) -> Outcome | None:
    """Return the outcome if the dataset is complete; raise as the run would before it starts."""
    if not recipe.out:  # a plan can be looked at before its output has a name
        return None
    out = check_out(recipe.out)
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(out, (*recipe.reads(plan), *reads), recipe.folders(plan))
    if not out.is_dir():
        return None
    with locked(out):
        check_work(out)
        complete = None if overwrite else complete_manifest(out, identity, names)
        if complete is not None:
            return Outcome(out=out, manifest=complete, was_complete=True)
        check_ours(out)
        if not overwrite:
            refuse_other_run(out, identity, names, may_change=recipe.may_change)
    return None
