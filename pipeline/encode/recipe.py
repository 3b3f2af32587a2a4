"""`encode`: plan -> execute -> manifest.

    out/.work/plan.json, entries-*.json   what workers are told
    out/.work/tasks/*                     shards as tasks commit them, each with its marker
    out/shards/*.parquet                  moved there when every task is done: what tokenize reads
    out/manifest.json                     last; then .work goes

Running the same command again goes on from the markers; on a finished dataset it does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dataprep.configs import EncodeConfig
from dataprep.pipeline.encode.manifest import collect, finish, make_manifest
from dataprep.pipeline.encode.plan import Planned, make_plan
from dataprep.pipeline.encode.tables import TASKS, committed_shards, task_stem
from dataprep.pipeline.encode.worker import PLAN, entries_path
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import disk_errors_named, write_atomic
from dataprep.pipeline.jobs.executors import EXECUTORS, Message, usable_cores
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    difference,
    locked,
    prepare,
    remove_dataset,
)
from dataprep.pipeline.tokenize.recipe import ErrorLimit, Outcome, Report

# Resampling is a matrix product: its threads would be in the way of the other workers.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def encode(
    config: EncodeConfig,
    *,
    cache_dir: Path,
    overwrite: bool = False,
    report: Report = lambda kind, values: None,
) -> Outcome:
    """Make the dataset of codes, or go on with it, or find that it is there."""
    out = check_out(config.out)
    planned = plan_of(config, cache_dir)
    plan = planned.plan
    names = [source.path for source in plan.sources]
    with disk_errors_named(out), locked(out):
        if overwrite:
            remove_dataset(out)
        manifest = complete_manifest(out, plan.identity, names)
        if manifest is not None:
            return Outcome(out=out, manifest=manifest, was_complete=True)
        # Shards are the same whatever becomes of bad records.
        work = prepare(out, plan.identity, names, may_change=["on_error"])
        write_plan(planned, work)
        _execute(planned, config, work, report)
        _check_unchanged(planned, config, cache_dir, out)
        committed = collect(plan, work)
        manifest = make_manifest(plan, planned.encoder, committed)
        _check_counts(manifest["counts"], config)
        finish(plan, out, work, committed, manifest)
    return Outcome(out=out, manifest=manifest, was_complete=False)


def plan_of(config: EncodeConfig, cache_dir: Path) -> Planned:
    return make_plan(config, cache_dir, usable_cores())


def write_plan(planned: Planned, work: Path) -> None:
    (work / TASKS).mkdir(exist_ok=True)
    for source, entries in enumerate(planned.entries):
        if entries:
            write_atomic(entries_path(work, source), msgspec.json.encode(entries))
    write_atomic(work / PLAN, msgspec.json.encode(planned.plan))


def _execute(planned: Planned, config: EncodeConfig, work: Path, report: Report) -> None:
    plan = planned.plan
    left = []
    for task in plan.tasks:
        done = committed_shards(task_stem(work, task))
        if not (done and done[-1].final):
            left.append(task)
    report(
        "start",
        {
            "engine": config.encoder,
            "sources": len(plan.sources),
            "tasks": len(plan.tasks),
            "tasks_done": len(plan.tasks) - len(left),
            "num_bytes": sum(task.num_bytes for task in left),
            "workers": planned.num_workers,
        },
    )
    limit = ErrorLimit(config.max_errors)

    def on_message(message: Message) -> None:
        if message["type"] == "progress":
            report("progress", message)
            limit.count(message["task"], message["task_errors"])

    def describe(job: int) -> str:
        task = plan.tasks[job]
        return f"task {job} ({plan.sources[task.pieces[0].source].path})"

    EXECUTORS["local"](
        [task.index for task in left],
        worker="dataprep.pipeline.encode.worker",
        work=work,
        environment={**ONE_THREAD, **planned.encoder.environment},
        num_workers=planned.num_workers,
        describe=describe,
        on_message=on_message,
    )


def _check_unchanged(planned: Planned, config: EncodeConfig, cache_dir: Path, out: Path) -> None:
    """Look for everything once more; hashes of what stayed as it is are remembered."""
    names = [source.path for source in planned.plan.sources]
    before, after = planned.plan.identity, plan_of(config, cache_dir).plan.identity
    if after != before:
        remove_dataset(out)
        raise InputError(
            f"something changed while it was read ({difference(before, after, names)}), so the "
            "work was thrown away; run again when nothing writes to it"
        )


def _check_counts(counts: Mapping[str, Any], config: EncodeConfig) -> None:
    read = counts["documents_read"]
    bad = counts["documents_quarantined"] + counts["documents_dropped"]
    ErrorLimit(config.max_errors).check(read, bad)
    if read == 0 and not config.allow_empty:
        raise InputError("the inputs hold no record at all; allow that with --allow-empty")
