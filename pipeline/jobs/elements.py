"""`do_share`: what one element of a task array does; `finalize` publishes when all are done.

    element 0    plans │ jobs 0 3 8 …                   all write to out/.work, under a shared lock
    element 1    waits, finds the plan │ jobs 1 2 5 …
    finalize     the exclusive lock: every marker is there, so the dataset is published

An element that is killed goes on where it was when it is started again. It removes nothing that may
be another's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeVar

from dataprep.pipeline.errors import ConfigError, LockedError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs.commits import Marker
from dataprep.pipeline.jobs.limits import ErrorLimit, TooManyErrors
from dataprep.pipeline.jobs.make import check_unchanged, execute, silent
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.publish import find_publication
from dataprep.pipeline.jobs.recipes import Recipe, Report, UntrustedWorkError
from dataprep.pipeline.jobs.shares import JobShare, array_of, note_array
from dataprep.pipeline.jobs.sites import LocalSite
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    distrust,
    join,
    locked,
    turn,
)
from dataprep.pipeline.threads.exits import stopped_at_exit

ELEMENT = "element"  # what the names of the files begin with that elements lock while they work

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDone:
    """The jobs of an element are done."""

    out: Path
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
    out = check_out(recipe.out, shared=True)
    plan = recipe.plan()
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(out, (*recipe.reads(plan), *reads), recipe.folders(plan))
    nothing = ShareDone(out=out, share=share, num_jobs=0, num_before=0, was_complete=True)
    with disk_errors_named(out), locked(out, shared=True):
        complete = complete_manifest(out, identity, names)
        if complete is not None:
            LocalSite(out).check_sizes(complete)
            return nothing
        work = join(out, identity, names, may_change=recipe.may_change)
        if find_publication(work) is not None:
            return nothing
        try:
            with _at_work(work, share):
                return _done(recipe, plan, out, work, report)
        except UntrustedWorkError as error:
            # Others may be at work with the same engine, or have read the same input.
            distrust(work, str(error.cause))
            raise error.cause from None


@contextmanager
def _at_work(work: Path, share: JobShare) -> Iterator[None]:
    """Let no other process do the same jobs meanwhile: both would write the same files. That is
    this element, started once more, or one of an array of another number of elements."""
    with open(work / _lock_of(share.number), "a", encoding="ascii") as own:
        with turn(work):
            array = array_of(work)
            if array is not None and array.count != share.count:
                for path in work.glob(f"{ELEMENT}-*.json"):
                    with open(path, "a", encoding="ascii") as other:
                        _lock(other, f"an element of {array.count} is still at work in {work}")
            _lock(own, f"element {share} is still at work in {work}")
            note_array(work, share, os.getcwd())
        yield


def _lock_of(number: int) -> str:
    return f"{ELEMENT}-{number}.json"


def _lock(file: TextIO, why_not: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(f"{why_not}; wait for its end or stop it") from None


def _done(recipe: Recipe[P, M], plan: P, out: Path, work: Path, report: Report) -> ShareDone:
    """Do what is left of the share."""
    assert recipe.share is not None
    jobs = recipe.begin(plan, work, report)
    limit = ErrorLimit(recipe.limits.max_errors, jobs.known_bad)
    num_jobs, num_left = len(jobs.markers.own), len(jobs.markers.left())
    try:
        execute(jobs, recipe, work, limit, report)
    except TooManyErrors as error:
        raise limit.named(error, jobs.name_record) from None
    check_unchanged(recipe.changed(plan))
    before = num_jobs - num_left
    return ShareDone(out=out, share=recipe.share, num_jobs=num_jobs, num_before=before)


def refuse_streams(inputs: Sequence[str]) -> None:
    """Raise a ConfigError for what only one process can read."""
    if "-" in inputs:
        raise ConfigError("--task: each element would have its own stdin; name files instead of -")
