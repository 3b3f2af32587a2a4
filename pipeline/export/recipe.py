"""`export` as a recipe.

out/.work/plan.json   which shards of the dataset become which file
out/.work/tasks/*     committed files, each task's with its marker
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.export.formats import EXPORTS
from dataprep.pipeline.export.manifest import identity_of, make_draft
from dataprep.pipeline.export.plan import Exported, look_at, plan_of
from dataprep.pipeline.export.worker import ExportMarker, task_name
from dataprep.pipeline.jobs import make_dataset, silent
from dataprep.pipeline.jobs.commits import Markers, make_tasks_folder, stem_of, trusted_markers
from dataprep.pipeline.jobs.executors import keeps_memory, usable_cores
from dataprep.pipeline.jobs.foresee import foresee
from dataprep.pipeline.jobs.limits import Limits, NothingLeftError
from dataprep.pipeline.jobs.plans import write_plan
from dataprep.pipeline.jobs.publish import Draft
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, Work
from dataprep.pipeline.storage.kinds import ExportedManifest


def export(
    config: ExportConfig,
    *,
    overwrite: bool = False,
    report: Report = silent,
    reads: Sequence[str] = (),
) -> Outcome:
    """Write the files, or continue an interrupted run, or find them complete."""
    return make_dataset(recipe_of(config), overwrite=overwrite, report=report, reads=reads)


def recipe_of(config: ExportConfig) -> Recipe[Exported, ExportMarker]:
    return Recipe(
        out=config.out,
        plan=partial(look_at, config),
        identity=partial(identity_of, config),
        names=lambda exported: [config.dataset],
        reads=lambda exported: [config.dataset],
        folders=lambda exported: [config.dataset],
        begin=_begin,
        changed=Exported.changed,
        draft=_draft,
        check=_check_records,
    )


def foreseen(
    config: ExportConfig, *, overwrite: bool = False, reads: Sequence[str] = ()
) -> tuple[Exported, int, Outcome | None]:
    """Return what `export` would read and how many files it would make, with an outcome if there
    is nothing to do."""
    recipe = recipe_of(config)
    exported = recipe.plan()
    outcome = foresee(recipe, exported, overwrite=overwrite, reads=reads)
    return exported, len(plan_of(exported).tasks), outcome


def usage_of(out: Path | str, manifest: ExportedManifest) -> list[str]:
    """Return what to tell the trainer that reads the export in `out`."""
    if isinstance(out, str):
        copied = Path("DIR")
        return [f"copy {out} to a folder DIR; then:", *usage_of(copied, manifest)]
    return list(EXPORTS[manifest.format].usage(out, manifest))


def _begin(exported: Exported, work: Path, report: Report) -> Work[ExportMarker]:
    make_tasks_folder(work)
    plan, config = plan_of(exported), exported.facts.config
    write_plan(work, plan)
    stems = [stem_of(work, task_name(task)) for task in plan.tasks]
    markers = trusted_markers(stems, ExportMarker, exported.format.endings)
    left = [plan.tasks[i] for i in markers.left()]
    num_workers = config.workers or usable_cores()
    shards = exported.manifest.shards
    sizes = [sum(s.num_bytes for s in shards[task.start : task.stop]) for task in left]
    begun: dict[str, Any] = {
        "tasks": len(plan.tasks),
        "tasks_done": len(plan.tasks) - len(left),
        "num_bytes": sum(sizes),
        "workers": min(num_workers, max(len(left), 1)),
    }
    return Work(
        worker="dataprep.pipeline.export.worker",
        markers=markers,
        sizes=[1.0] * len(plan.tasks),
        num_workers=num_workers,
        task_timeout=config.task_timeout,
        describe=lambda i: f"shards {plan.tasks[i].start} to {plan.tasks[i].stop} of {plan.folder}",
        environment=keeps_memory(),
        begun=begun,
    )


def _draft(exported: Exported, work: Path, markers: Markers[ExportMarker]) -> Draft:
    return make_draft(exported, plan_of(exported).tasks, markers, work)


def _check_records(counts: Mapping[str, int], limits: Limits) -> None:
    if not counts["records"]:
        raise NothingLeftError(
            "there is nothing to export: the dataset has no documents, or none with more than EOS, "
            "or all were forgotten"
        )
