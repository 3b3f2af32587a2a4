"""Publish what the elements of a task array have made; what to do stands in the work folder.

out/.work/identity.json   of which command it is
out/.work/array.json      how many elements there are, and in which folder they ran
out/.work/plan.json       as workers read it
out/.work/tasks/*.done    every job must have its markers
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, CorruptError, ResourceError, counted
from dataprep.pipeline.jobs.make import make_dataset
from dataprep.pipeline.jobs.ownership import check_work
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, Work
from dataprep.pipeline.jobs.shares import array_of, owners_of
from dataprep.pipeline.jobs.workspace import begun_to_continue, check_out, why_distrusted
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, read_manifest

MOST_NAMED = 8  # elements in a message

# Given the output folder and its work folder, return the recipe of the run that was begun there.
FindRecipe = Callable[[Path, Path], Recipe[Any, Any]]


def publish_begun(name: str, recipes: Mapping[str, FindRecipe]) -> Outcome:
    """Publish the dataset in this folder, or find it complete; `recipes` are by kind of dataset."""
    out = Path(os.path.abspath(check_out(name)))
    work = out / WORK
    if (out / MANIFEST).exists() and not work.exists():
        return Outcome(out=out, manifest=read_manifest(out), was_complete=True)
    if out.is_dir():
        check_work(out)
    begun = begun_to_continue(work)
    if begun is None:
        raise CorruptError(
            f"{out} has no unfinished work that this dataprep could publish; run the elements of "
            "the array first (dataprep tokenize --task I/N)"
        )
    why = why_distrusted(work)
    if why is not None:
        raise CorruptError(
            f"the work in {work} cannot be used ({why}); throw it away (dataprep clean {out} --go) "
            "and run all elements again"
        )
    find = recipes.get(str(begun.get("kind")))
    if find is None:
        raise ConfigError(f"{out} has unfinished work of another command; run that again")
    array = array_of(work)
    folder = array.folder if array and os.path.isdir(array.folder) else ""
    with chdir(folder) if folder else nullcontext():
        recipe = find(out, work)
        return make_dataset(_publishing(recipe, array.count if array else 0))


def _publishing(recipe: Recipe[Any, Any], count: int) -> Recipe[Any, Any]:
    """Return the recipe of a run that only publishes, if nothing is left to be done."""

    def begin(plan: Any, work: Path, report: Report) -> Work[Any]:
        jobs = recipe.begin(plan, work, report)
        left = jobs.markers.left()
        if left:
            raise _missing(left, jobs.sizes, count, jobs.describe)
        return jobs

    return replace(recipe, begin=begin)


def _missing(
    left: Sequence[int], sizes: Sequence[float], count: int, describe: Callable[[int], str]
) -> ResourceError:
    """Return the error that names what is not done, and which elements do it."""
    what = f"{counted(len(left), 'job')} of {len(sizes):,} not done, the first {describe(left[0])}"
    if not count:
        return ResourceError(f"{what}; run the same command again")
    owners = owners_of(sizes, count)
    wanted = sorted({owners[job] for job in left})
    named = " ".join(f"{number}/{count}" for number in wanted[:MOST_NAMED])
    more = f" and {len(wanted) - MOST_NAMED:,} more" if len(wanted) > MOST_NAMED else ""
    return ResourceError(f"{what}; run again with --task {named}{more}, then finalize")
