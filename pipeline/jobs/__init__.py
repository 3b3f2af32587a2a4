"""Plan, execute, publish: how every dataset is made, written once.

    recipes     Recipe: what a command must define so that its dataset can be made
    workspace   the output folder: its lock, its content, whether a run can be continued
    plans       plans as files, by which workers know what to do
    tasks       tasks, named by the content that they read
    executors   EXECUTORS: run jobs on workers; processes: on this machine; worker: their side
    progress    how a worker reports its progress
    commits     files of a task and their markers
    limits      too many bad records, or nothing left
    accounts    what became of the records of each source
    publish     name the shards, move them, write the manifest last

`make_dataset` is how tokenize, pack and encode all run. Running the same command again continues
after the last marker; on a finished dataset it does nothing.
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
    """Make the dataset, or continue an interrupted run, or find it complete."""
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
            # The workers have ended by now, so nothing is written any more.
            remove_dataset(out)
            raise error.cause from None
        draft = recipe.draft(plan, work, jobs.markers)
        recipe.check(draft.manifest.counts, recipe.limits)
        manifest = publish(draft, out, work)
    return Outcome(out=out, manifest=manifest, was_complete=False)


def _execute(jobs: Work[M], work: Path, limits: Limits, report: Report) -> None:
    """Run the jobs that have not been done."""
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
