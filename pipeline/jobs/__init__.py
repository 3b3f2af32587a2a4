"""Plan, execute, publish: how every dataset is made, written once.

    recipes     what a command must say of itself
    workspace   the output folder: who holds it, what is in it, what may be gone on with
    plans       what workers are told, as files
    tasks       the work of one worker, known by the content of what it reads
    executors   EXECUTORS: jobs onto workers; processes: of this machine; worker: their side
    progress    what a worker tells of its progress
    commits     files of a task and their markers
    limits      too many bad records, or nothing left
    accounts    what became of the records of each source
    publish     names, moves, the manifest last

`make_dataset` is the story of tokenize, pack and encode. Running the same command again goes on
from the markers; on a finished dataset it does nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.jobs.commits import Marker
from dataprep.pipeline.jobs.executors import EXECUTORS, Message
from dataprep.pipeline.jobs.limits import ErrorLimit, Limits
from dataprep.pipeline.jobs.publish import publish
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, UntrustedWorkError, Work
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    locked,
    prepare,
    refuse_overlap,
    remove_dataset,
)

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


def silent(kind: str, values: object) -> None:
    """Report nothing."""


def make_dataset(
    recipe: Recipe[P, M], *, overwrite: bool = False, report: Report = silent
) -> Outcome:
    """Make the dataset, or go on with it, or find that it is there."""
    out = check_out(recipe.out)
    plan = recipe.plan()
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(out, recipe.reads(plan), recipe.folders(plan))
    with disk_errors_named(out), locked(out):
        if overwrite:
            remove_dataset(out)
        complete = complete_manifest(out, identity, names)
        if complete is not None:
            return Outcome(out=out, manifest=complete, was_complete=True)
        work = prepare(out, identity, names, may_change=recipe.may_change)
        try:
            jobs = recipe.begin(plan, work, report)
            _execute(jobs, work, recipe.limits, report)
            _check_unchanged(recipe.changed(plan))
        except UntrustedWorkError as error:
            # The workers are gone by now, so that nothing is written any more.
            remove_dataset(out)
            raise error.cause from None
        draft = recipe.draft(plan, work, jobs.markers)
        recipe.check(draft.manifest.counts, recipe.limits)
        manifest = publish(draft, out, work)
    return Outcome(out=out, manifest=manifest, was_complete=False)


def _execute(jobs: Work[M], work: Path, limits: Limits, report: Report) -> None:
    """Run the jobs that are left to their end."""
    report("start", jobs.begun)
    limit = ErrorLimit(limits.max_errors)

    def on_message(message: Message) -> None:
        if message["type"] != "progress":
            jobs.on_message(message)
            return
        report("progress", message)
        limit.count(message["task"], message["task_errors"])

    EXECUTORS["local"](
        jobs.markers.left(),
        worker=jobs.worker,
        work=work.absolute(),
        environment=jobs.environment,
        num_workers=jobs.num_workers,
        describe=jobs.describe,
        on_message=on_message,
    )


def _check_unchanged(changed: str) -> None:
    if changed:
        raise UntrustedWorkError(
            InputError(
                f"{changed} changed while it was read, so the work was thrown away; "
                "run again when nothing writes to it"
            )
        )
