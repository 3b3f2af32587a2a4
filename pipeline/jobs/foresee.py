"""Tell what `make_dataset` would find in the output folder; nothing is written or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dataprep.pipeline.jobs.commits import Marker
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.recipes import Outcome, Recipe
from dataprep.pipeline.jobs.sites import site_of
from dataprep.pipeline.jobs.workspace import complete_manifest, locked, refuse_other_run

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


def foresee(
    recipe: Recipe[P, M], plan: P, *, overwrite: bool = False, reads: Sequence[str] = ()
) -> Outcome | None:
    """Return the outcome if the dataset is complete; raise as the run would before it starts."""
    if not recipe.out:  # a plan can be looked at before its output has a name
        return None
    site = site_of(recipe.out)
    out, name = site.folder, str(site.out)
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(site.out, (*recipe.reads(plan), *reads), recipe.folders(plan))
    if not site.is_there():
        return None
    with locked(out, name=name):
        site.look(identity, recipe.may_change)
        complete = None
        if not overwrite:
            prints = recipe.prints(plan)
            complete = complete_manifest(out, identity, names, name=name, prints=prints)
        if complete is not None:
            site.check_sizes(complete)
            return Outcome(out=site.out, manifest=complete, was_complete=True)
        site.check_ours()
        if not overwrite:
            may_change = recipe.may_change
            refuse_other_run(out, identity, names, may_change=may_change, name=name)
    return None
