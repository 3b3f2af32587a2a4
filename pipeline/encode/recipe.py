"""`encode` as a recipe.

out/.work/plan.json, entries-*.json   what workers read
out/.work/tasks/*                     committed shards, each with its marker
out/shards/*.parquet                  moved there when every task is done: what tokenize reads
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dataprep.configs.encode import EncodeConfig
from dataprep.pipeline.encode.manifest import make_draft
from dataprep.pipeline.encode.plan import FoundInputs, Planned, make_plan
from dataprep.pipeline.encode.tables import ENDINGS, CodesMarker
from dataprep.pipeline.encode.worker import entries_name, name_record
from dataprep.pipeline.jobs import make_dataset, silent
from dataprep.pipeline.jobs.accounts import bad_by_task, num_bad
from dataprep.pipeline.jobs.commits import make_tasks_folder, stem_of, trusted_markers
from dataprep.pipeline.jobs.executors import usable_cores
from dataprep.pipeline.jobs.foresee import foresee
from dataprep.pipeline.jobs.limits import Limits
from dataprep.pipeline.jobs.plans import write_plan
from dataprep.pipeline.jobs.poison import forget_poison
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, Work
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.media import changed_media, folders_named, places_read
from dataprep.pipeline.sources import Spools

# Threads for matrix products would compete with the other workers.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


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


def recipe_of(
    config: EncodeConfig,
    cache_dir: Path,
    found: FoundInputs | None = None,
    spools: Spools | None = None,
) -> Recipe[Planned, CodesMarker]:
    return Recipe(
        out=config.out,
        plan=partial(plan_of, config, cache_dir, found, spools),
        identity=lambda planned: planned.plan.identity,
        names=lambda planned: [source.path for source in planned.plan.sources],
        reads=lambda planned: [*places_read(planned.found), config.weights or ""],
        folders=lambda planned: folders_named(config.inputs),
        begin=begin_work,
        changed=lambda planned: changed_media(planned.found, cache_dir),
        draft=make_draft,
        limits=Limits(max_errors=config.max_errors, allow_empty=config.allow_empty),
        may_change=("on_error",),  # it does not change the shards that are kept
    )


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


def begin_work(planned: Planned, work: Path, report: Report) -> Work[CodesMarker]:
    """Write what workers read; report nothing yet."""
    plan = planned.plan
    make_tasks_folder(work)
    for source, item in enumerate(planned.found):
        if item.entries:
            write_plan(work, item.entries, entries_name(source))
    write_plan(work, plan)
    fails = plan.config.on_error == "fail"
    if fails:
        forget_poison(work)
    stems = [stem_of(work, task_name(task)) for task in plan.tasks]
    # A run that left bad records out may be continued by one that must stop at the first.
    markers = trusted_markers(
        stems,
        CodesMarker,
        ENDINGS,
        is_wanted=lambda marker: not (fails and num_bad([marker])),
    )
    left = markers.left()
    return Work(
        worker="dataprep.pipeline.encode.worker",
        markers=markers,
        num_workers=planned.num_workers,
        task_timeout=plan.config.task_timeout,
        known_bad=bad_by_task(markers, left),
        name_record=partial(name_record, planned),
        describe=lambda i: f"task {i} ({plan.sources[plan.tasks[i].pieces[0].source].path})",
        environment={**ONE_THREAD, **planned.encoder.environment},
        begun={
            "engine": plan.config.encoder,
            "sources": len(plan.sources),
            "left_out": plan.left_out,
            "tasks": len(plan.tasks),
            "tasks_done": len(plan.tasks) - len(left),
            "num_bytes": sum(plan.tasks[i].num_bytes for i in left),
            "workers": planned.num_workers,
        },
    )
