"""`encode` as a recipe.

out/.work/plan.json, entries-*.json   what workers read
out/.work/tasks/*                     committed shards, each with its marker
out/shards/*.parquet                  moved there when every task is done: what tokenize reads
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.manifest import make_draft
from dataprep.pipeline.encode.plan import EncodePlan, FoundInputs, Planned, make_plan
from dataprep.pipeline.encode.tables import ENDINGS, CodesMarker
from dataprep.pipeline.encode.worker import entries_name, name_record
from dataprep.pipeline.jobs import make_dataset, silent
from dataprep.pipeline.jobs.accounts import bad_by_task, num_bad
from dataprep.pipeline.jobs.commits import Markers, make_tasks_folder, stem_of, trusted_markers
from dataprep.pipeline.jobs.elements import ShareDone, do_share, refuse_streams
from dataprep.pipeline.jobs.executors import most_workers, options_of, usable_cores
from dataprep.pipeline.jobs.foresee import foresee
from dataprep.pipeline.jobs.limits import Limits
from dataprep.pipeline.jobs.plans import read_plan, write_plan
from dataprep.pipeline.jobs.poison import forget_poison
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, Work, done_by_others
from dataprep.pipeline.jobs.shares import JobShare, own_jobs, own_turn
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.media import changed_media, folders_named, places_read
from dataprep.pipeline.sources import Spools

# Threads for matrix products would compete with the other workers.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

WORKER = "dataprep.pipeline.encode.worker"


def encode(
    config: EncodeConfig,
    *,
    cache_dir: Path,
    overwrite: bool = False,
    report: Report = silent,
    reads: Sequence[str] = (),
    found: FoundInputs | None = None,
    spools: Spools | None = None,
) -> Outcome:
    """Make the dataset of codes, or continue an interrupted run, or find it complete.

    `found` are the sources, if they are known; else all that the inputs name. `spools` keep inputs
    that are no files.
    """
    recipe = recipe_of(config, cache_dir, found, spools)
    return make_dataset(recipe, overwrite=overwrite, report=report, reads=reads)


def encode_share(
    config: EncodeConfig,
    share: JobShare,
    *,
    cache_dir: Path,
    report: Report = silent,
    reads: Sequence[str] = (),
) -> ShareDone:
    """Do the jobs of one element of a task array."""
    refuse_streams(config.inputs)
    return do_share(recipe_of(config, cache_dir, share=share), report=report, reads=reads)


def recipe_of(
    config: EncodeConfig,
    cache_dir: Path,
    found: FoundInputs | None = None,
    spools: Spools | None = None,
    share: JobShare | None = None,
) -> Recipe[Planned, CodesMarker]:
    return Recipe(
        out=config.out,
        plan=partial(plan_of, config, cache_dir, found, spools),
        identity=lambda planned: planned.plan.identity,
        names=lambda planned: [source.path for source in planned.plan.sources],
        prints=lambda planned: [source.fingerprint for source in planned.plan.sources],
        reads=lambda planned: [*places_read(planned.found), config.weights or ""],
        folders=lambda planned: folders_named(config.inputs),
        begin=partial(begin_work, share=share),
        changed=lambda planned: changed_media(planned.found, cache_dir),
        draft=make_draft,
        limits=Limits(max_errors=config.max_errors, allow_empty=config.allow_empty),
        may_change=("on_error",),  # it does not change the shards that are kept
        share=share,
        executor=config.executor,
        executor_options=options_of(config.executor, config.ray_address, config.workers),
    )


def recipe_begun(out: Path | str, work: Path, cache_dir: Path) -> Recipe[Planned, CodesMarker]:
    """Return the recipe of the run that was begun in a folder, to publish what it has made."""
    config = read_plan(work, EncodePlan).config.model_copy(update={"out": str(out)})
    recipe = recipe_of(config, cache_dir)
    return replace(recipe, executor="local", executor_options={}, begin=_gather)


def planned(
    config: EncodeConfig, cache_dir: Path, *, overwrite: bool = False, reads: Sequence[str] = ()
) -> tuple[Planned, Outcome | None]:
    """Plan what `encode` would do; with an outcome if there is nothing to do."""
    recipe = recipe_of(config, cache_dir)
    plan = recipe.plan()
    return plan, foresee(recipe, plan, overwrite=overwrite, reads=reads)


def plan_of(
    config: EncodeConfig,
    cache_dir: Path | None,
    found: FoundInputs | None = None,
    spools: Spools | None = None,
) -> Planned:
    return make_plan(config, cache_dir, usable_cores(), found, spools)


def begin_work(
    planned: Planned, work: Path, report: Report, *, share: JobShare | None = None
) -> Work[CodesMarker]:
    """Write what workers read; report nothing yet."""
    plan = planned.plan
    own = own_jobs(share, _sizes(plan))
    with own_turn(share, work):
        make_tasks_folder(work)
        for source, item in enumerate(planned.found):
            if item.entries:
                write_plan(work, item.entries, entries_name(source))
        write_plan(work, plan)
        if plan.config.on_error == "fail":
            forget_poison(work, range(len(plan.tasks)) if own is None else own)
    markers = _markers(plan, work, own=own)
    left = markers.left()
    return Work(
        worker=WORKER,
        markers=markers,
        sizes=_sizes(plan),
        num_workers=_num_workers(planned),
        task_timeout=plan.config.task_timeout,
        known_bad=bad_by_task(markers, left),
        name_record=partial(name_record, planned),
        describe=partial(_describe, plan),
        environment={**ONE_THREAD, **planned.encoder.environment},
        begun={
            "engine": plan.config.encoder,
            "sources": len(plan.sources),
            "left_out": plan.left_out,
            "tasks": len(markers.own),
            "tasks_done": len(markers.own) - len(left),
            "num_bytes": sum(plan.tasks[i].num_bytes for i in left),
            "workers": planned.num_workers,
        },
    )


def _gather(planned: Planned, work: Path, report: Report) -> Work[CodesMarker]:
    """Return the work that others have done, with nothing prepared for workers."""
    plan = planned.plan
    markers = _markers(plan, work, rehash=False)
    describe = partial(_describe, plan)
    return done_by_others(WORKER, markers, _sizes(plan), describe)


def _markers(
    plan: EncodePlan, work: Path, *, own: Sequence[int] | None = None, rehash: bool = True
) -> Markers[CodesMarker]:
    fails = plan.config.on_error == "fail"
    return trusted_markers(
        [stem_of(work, task_name(task)) for task in plan.tasks],
        CodesMarker,
        ENDINGS,
        # A run that left bad records out may be continued by one that must stop at the first.
        is_wanted=lambda marker: not (fails and num_bad([marker])),
        own=own,
        rehash=rehash,
    )


def _sizes(plan: EncodePlan) -> list[int]:
    return [task.num_bytes for task in plan.tasks]


def _describe(plan: EncodePlan, task: int) -> str:
    return f"task {task} ({plan.sources[plan.tasks[task].pieces[0].source].path})"


def _num_workers(planned: Planned) -> int:
    """Return how many workers there can be: those of a cluster need not fit this machine, unless
    the encoder says how many processes a machine bears."""
    config = planned.plan.config
    is_bound = config.workers or planned.encoder.max_processes or config.executor == "local"
    return planned.num_workers if is_bound else most_workers(config.executor)
