"""`do_share`: what one element of a task array does; `finalize` publishes when all are done.

    element 0    plans │ jobs 0 3 8 …                   all write to out/.work, under a shared lock
    element 1    waits, finds the plan │ jobs 1 2 5 …
    finalize     the exclusive lock: every marker is there, so the dataset is published

An element that is killed goes on where it was when it is started again. It removes nothing that may
be another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs.commits import Marker
from dataprep.pipeline.jobs.limits import ErrorLimit, TooManyErrors
from dataprep.pipeline.jobs.make import check_unchanged, execute, silent
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.places_of_elements import ElementPlace, place_of
from dataprep.pipeline.jobs.publish import find_publication
from dataprep.pipeline.jobs.recipes import Recipe, Report, UntrustedWorkError
from dataprep.pipeline.jobs.shares import JobShare
from dataprep.pipeline.jobs.workspace import complete_manifest
from dataprep.pipeline.threads.exits import stopped_at_exit

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDone:
    """The jobs of an element are done."""

    out: Path | str  # a str: the address of a folder in a bucket
    share: JobShare
    num_jobs: int  # of this element
    num_before: int  # that were done when it began
    was_complete: bool = False  # the dataset is published, or is about to be


@stopped_at_exit
def do_share(
    recipe: Recipe[P, M], *, report: Report = silent, reads: Sequence[str] = ()
) -> ShareDone:
    """Do the jobs of one element; publish nothing. `reads` are files that `out` may not hold."""
    share = recipe.share
    assert share is not None
    place = place_of(recipe.out, share)
    plan = recipe.plan()
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(place.out, (*recipe.reads(plan), *reads), recipe.folders(plan))
    nothing = ShareDone(out=place.out, share=share, num_jobs=0, num_before=0, was_complete=True)
    with disk_errors_named(place.folder), place.held():
        place.look(identity, recipe.may_change)
        complete = complete_manifest(
            place.folder, identity, names, name=str(place.out), prints=recipe.prints(plan)
        )
        if complete is not None:
            place.check_sizes(complete)
            return nothing
        work = place.join(identity, names, recipe.may_change)
        if find_publication(work) is not None:
            return nothing
        try:
            with place.at_work(work):
                done = _done(recipe, plan, place, work, report)
        except UntrustedWorkError as error:
            # Others may be at work with the same engine, or have read the same input.
            place.distrust(work, str(error.cause))
            raise error.cause from None
        place.leave(identity)
    return done


def _done(
    recipe: Recipe[P, M], plan: P, place: ElementPlace, work: Path, report: Report
) -> ShareDone:
    """Do what is left of the share."""
    assert recipe.share is not None
    jobs = recipe.begin(plan, work, report)
    place.share(work)
    limit = ErrorLimit(recipe.limits.max_errors, jobs.known_bad)
    num_jobs, num_left = len(jobs.markers.own), len(jobs.markers.left())
    try:
        execute(jobs, recipe, work, limit, report)
    except TooManyErrors as error:
        raise limit.named(error, jobs.name_record) from None
    check_unchanged(recipe.changed(plan))
    before = num_jobs - num_left
    return ShareDone(out=place.out, share=recipe.share, num_jobs=num_jobs, num_before=before)


def refuse_streams(inputs: Sequence[str]) -> None:
    """Raise a ConfigError for what only one process can read."""
    if "-" in inputs:
        raise ConfigError("--task: each element would have its own stdin; name files instead of -")
