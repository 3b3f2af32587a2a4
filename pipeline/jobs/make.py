"""`make_dataset`: plan, execute, publish, on one page.

Running the same command again continues after the last marker; on a finished dataset it does
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.commits import Marker
from dataprep.pipeline.jobs.executors import EXECUTORS, Message
from dataprep.pipeline.jobs.limits import ErrorLimit, NothingLeftError, TooManyErrors
from dataprep.pipeline.jobs.overlap import refuse_overlap
from dataprep.pipeline.jobs.ownership import check_ours, check_work, remove_dataset, remove_work
from dataprep.pipeline.jobs.poison import POISON
from dataprep.pipeline.jobs.publish import (
    Publication,
    carry_out,
    find_publication,
    is_possible,
    prepare_publication,
    withdraw,
)
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, UntrustedWorkError, Work
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    locked,
    moved_inputs,
    prepare,
)
from dataprep.pipeline.storage.manifest import WORK, read_manifest
from dataprep.pipeline.threads.exits import stopped_at_exit

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


def silent(kind: str, values: object) -> None:
    """Report nothing."""


@stopped_at_exit
def make_dataset(
    recipe: Recipe[P, M],
    *,
    overwrite: bool = False,
    report: Report = silent,
    reads: Sequence[str] = (),
) -> Outcome:
    """Make the dataset, or continue an interrupted run, or find it complete.

    `reads` are files besides the inputs that `out` may not hold: the config.
    """
    out = check_out(recipe.out)
    plan = recipe.plan()
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(out, (*recipe.reads(plan), *reads), recipe.folders(plan))
    with disk_errors_named(out), locked(out):
        check_work(out)
        complete = None if overwrite else complete_manifest(out, identity, names)
        if complete is not None:
            if (out / WORK).exists():  # left by a run that was killed at the very end
                remove_work(out / WORK)
            moved = moved_inputs(complete, names)
            return Outcome(out=out, manifest=complete, was_complete=True, moved=moved)
        check_ours(out)
        if overwrite:
            remove_dataset(out)
        work = prepare(out, identity, names, may_change=recipe.may_change)
        ready = find_publication(work)
        if ready is not None and not is_possible(ready, fingerprint(identity), out, work):
            withdraw(ready, out, work)
            ready = None
        publication = ready or _publication(recipe, plan, out, work, report)
        carry_out(publication, out, work)
        remove_work(work)
    manifest = read_manifest(out)
    return Outcome(out=out, manifest=manifest, was_complete=False, found=publication.found)


def _publication(
    recipe: Recipe[P, M], plan: P, out: Path, work: Path, report: Report
) -> Publication:
    """Do what is left of the work; return how the dataset is published."""
    jobs = recipe.begin(plan, work, report)
    limit = ErrorLimit(recipe.limits.max_errors, jobs.known_bad)
    try:
        _execute(jobs, work, limit, report)
        _check_unchanged(recipe.changed(plan))
        draft = recipe.draft(plan, work, jobs.markers)
        recipe.check(draft.manifest.counts, recipe.limits)
    except TooManyErrors as error:
        # So that another try need not throw it away; what killed workers is worth knowing.
        if jobs.markers.hold_nothing() and not (work / POISON).exists():
            remove_work(work)
        raise limit.named(error, jobs.name_record) from None
    except NothingLeftError as error:
        remove_work(work)
        raise InputError("; ".join([str(error), *draft.found.notes])) from None
    except UntrustedWorkError as error:
        # The workers have ended by now, so nothing is written any more.
        remove_dataset(out)
        raise error.cause from None
    return prepare_publication(draft, work)


def _execute(jobs: Work[M], work: Path, limit: ErrorLimit, report: Report) -> None:
    """Run the jobs that have not been done."""
    report("start", jobs.begun)

    def on_message(message: Message) -> None:
        if message["type"] != "progress":
            jobs.on_message(message)
            return
        report("progress", message)
        limit.count(message["task"], message["task_errors"], message["examples"])

    EXECUTORS["local"](
        jobs.markers.left(),
        worker=jobs.worker,
        work=work.absolute(),
        environment=jobs.environment,
        num_workers=jobs.num_workers,
        task_timeout=jobs.task_timeout,
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
