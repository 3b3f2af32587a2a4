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
from dataprep.pipeline.jobs.poison import has_poison
from dataprep.pipeline.jobs.publish import Publication, find_publication, prepare_publication
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, UntrustedWorkError, Work
from dataprep.pipeline.jobs.sites import Site, site_of
from dataprep.pipeline.jobs.workspace import (
    begun_by,
    complete_manifest,
    locked,
    moved_inputs,
    refuse_other_run,
    work_to_continue,
)
from dataprep.pipeline.storage.manifest import read_manifest
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
    site = site_of(recipe.out)
    out, name = site.folder, str(site.out)
    plan = recipe.plan()
    identity, names = recipe.identity(plan), recipe.names(plan)
    refuse_overlap(site.out, (*recipe.reads(plan), *reads), recipe.folders(plan))
    with disk_errors_named(out), locked(out, name=name):
        site.look(identity, recipe.may_change)
        complete = None
        if not overwrite:
            prints = recipe.prints(plan)
            complete = complete_manifest(out, identity, names, name=name, prints=prints)
        if complete is not None:
            site.check_sizes(complete)
            site.remove_work()  # left by a run that was killed at the very end
            moved = moved_inputs(Path(name), complete, names)
            return Outcome(out=site.out, manifest=complete, was_complete=True, moved=moved)
        site.check_ours()
        if overwrite:
            site.remove_dataset()
        may_change = recipe.may_change
        refuse_other_run(out, identity, names, may_change=may_change, name=name)
        # Else there is nothing worth keeping, or what an interrupted removal left.
        work = work_to_continue(out, identity, may_change=may_change) or site.begin(
            begun_by(identity)
        )
        ready = find_publication(work)
        if ready is not None and not site.is_possible(ready, fingerprint(identity)):
            site.withdraw(ready)
            ready = None
        publication = ready or _publication(recipe, plan, site, work, report)
        site.carry_out(publication, overwrite=overwrite)
        manifest = read_manifest(out)
        site.remove_work()
    return Outcome(out=site.out, manifest=manifest, was_complete=False, found=publication.found)


def _publication(
    recipe: Recipe[P, M], plan: P, site: Site, work: Path, report: Report
) -> Publication:
    """Do what is left of the work; return how the dataset is published."""
    jobs = recipe.begin(plan, work, report)
    site.share(work)
    limit = ErrorLimit(recipe.limits.max_errors, jobs.known_bad)
    try:
        execute(jobs, recipe, work, limit, report)
        if jobs.markers.left():
            site.gather(work)
        check_unchanged(recipe.changed(plan))
        draft = recipe.draft(plan, work, jobs.markers)
        recipe.check(draft.manifest.counts, recipe.limits)
    except TooManyErrors as error:
        # So that another try need not throw it away; what killed workers is worth knowing.
        if jobs.markers.hold_nothing() and not has_poison(work):
            site.remove_work()
        raise limit.named(error, jobs.name_record) from None
    except NothingLeftError as error:
        site.remove_work()
        raise InputError("; ".join([str(error), *draft.found.notes])) from None
    except UntrustedWorkError as error:
        # The workers have ended by now, so nothing is written any more.
        site.remove_dataset()
        raise error.cause from None
    return prepare_publication(draft, work)


def execute(
    jobs: Work[M], recipe: Recipe[P, M], work: Path, limit: ErrorLimit, report: Report
) -> None:
    """Run the jobs that have not been done."""
    asked = recipe.executor_options.get("asked")
    is_known = recipe.executor == "local" or asked  # else the cluster has as many as it has cores
    report("start", jobs.begun if is_known else {**jobs.begun, "workers": 0})

    def on_message(message: Message) -> None:
        if message["type"] != "progress":
            jobs.on_message(message)
            return
        report("progress", message)
        limit.count(message["task"], message["task_errors"], message["examples"])

    EXECUTORS[recipe.executor](
        jobs.markers.left(),
        sizes=jobs.sizes,
        worker=jobs.worker,
        work=work.absolute(),
        environment=jobs.environment,
        num_workers=jobs.num_workers,
        task_timeout=jobs.task_timeout,
        describe=jobs.describe,
        on_message=on_message,
        **recipe.executor_options,
    )


def check_unchanged(changed: str) -> None:
    if changed:
        raise UntrustedWorkError(
            InputError(
                f"{changed} changed while it was read, so the work was thrown away; "
                "run again when nothing writes to it"
            )
        )
