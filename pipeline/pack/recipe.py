"""`pack` as a recipe.

out/.work/rows/*, plan.json   which tokens of which documents are in which row
out/.work/provenance/*        where these documents came from
out/.work/tasks/*             committed shards, each with its marker
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.guards.twice import refuse_twice
from dataprep.pipeline.jobs import make_dataset, silent
from dataprep.pipeline.jobs.commits import Markers, make_tasks_folder, stem_of, trusted_markers
from dataprep.pipeline.jobs.elements import ShareDone, do_share
from dataprep.pipeline.jobs.executors import most_workers, options_of, workers_worth
from dataprep.pipeline.jobs.foresee import foresee
from dataprep.pipeline.jobs.limits import Limits, NothingLeftError
from dataprep.pipeline.jobs.plans import read_plan
from dataprep.pipeline.jobs.publish import Draft
from dataprep.pipeline.jobs.recipes import Outcome, Recipe, Report, Work, done_by_others
from dataprep.pipeline.jobs.shares import JobShare, own_jobs, own_turn
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.inputs import CHECKED
from dataprep.pipeline.pack.manifest import identity_of, make_draft
from dataprep.pipeline.pack.plan import PackPlan, make_plan, plan_rows
from dataprep.pipeline.pack.selected import planned_of
from dataprep.pipeline.pack.selection import read_selection
from dataprep.pipeline.pack.strategies import STRATEGIES, Counts
from dataprep.pipeline.pack.turns import check_has_turns
from dataprep.pipeline.pack.worker import ENDINGS, RowsMarker, task_name
from dataprep.pipeline.storage.documents import TOKEN_DTYPES
from dataprep.pipeline.storage.manifest import MANIFEST
from dataprep.pipeline.storage.masks import sides_among
from dataprep.pipeline.storage.places import dataset_folder

BYTES_PER_WORKER = 64 << 20  # of rows, which are made while a worker starts

WORKER = "dataprep.pipeline.pack.worker"


def pack(
    config: PackConfig,
    *,
    overwrite: bool = False,
    report: Report = silent,
    reads: Sequence[str] = (),
) -> Outcome:
    """Make the packed dataset, or continue an interrupted run, or find it complete."""
    return make_dataset(recipe_of(config), overwrite=overwrite, report=report, reads=reads)


def pack_share(
    config: PackConfig, share: JobShare, *, report: Report = silent, reads: Sequence[str] = ()
) -> ShareDone:
    """Do the jobs of one element of a task array."""
    return do_share(recipe_of(config, share), report=report, reads=reads)


def recipe_of(config: PackConfig, share: JobShare | None = None) -> Recipe[Corpus, RowsMarker]:
    return Recipe(
        out=config.out,
        plan=partial(_corpus, config),
        identity=partial(identity_of, config),
        names=lambda corpus: config.inputs,
        reads=lambda corpus: [*config.inputs, *([config.select.file] if config.select else [])],
        folders=lambda corpus: config.inputs,
        begin=partial(_begin, config, share),
        changed=Corpus.changed,
        draft=_draft,
        check=_check_rows if config.select is None else lambda counts, limits: None,
        share=share,
        executor=config.executor,
        executor_options=options_of(config.executor, config.ray_address, config.workers),
    )


def recipe_begun(out: Path | str, work: Path) -> Recipe[Corpus, RowsMarker]:
    """Return the recipe of the run that was begun in a folder, to publish what it has made."""
    plan = read_plan(work, PackPlan)
    config = plan.config.model_copy(update={"out": str(out), "inputs": plan.folders})
    return replace(recipe_of(config), executor="local", executor_options={}, begin=_gather)


def planned(
    config: PackConfig, *, overwrite: bool = False, reads: Sequence[str] = ()
) -> tuple[Counts, int, Outcome | None]:
    """Return what `pack` would count, and about how many bytes its tokens would take uncompressed;
    with an outcome if there is nothing to do."""
    recipe = recipe_of(config)
    corpus = recipe.plan()
    outcome = foresee(recipe, corpus, overwrite=overwrite, reads=reads)
    counts = _counts_of(corpus, config)
    width = TOKEN_DTYPES[corpus.token_dtype].itemsize
    return counts, counts.rows * (config.seq_len + 1) * width, outcome


def pack_plan_of(config: PackConfig) -> Counts:
    """Plan the rows and return their counts; write nothing."""
    return _counts_of(_corpus(config), config)


def _counts_of(corpus: Corpus, config: PackConfig) -> Counts:
    with corpus.unchanged():
        return sum((window.counts for window in plan_rows(corpus, config)), Counts())


def _corpus(config: PackConfig) -> Corpus:
    if not config.inputs:
        raise ConfigError("no tokenized dataset; name the folder that dataprep tokenize wrote")
    if not config.seq_len and "seq_len" in config.model_fields_set:
        raise ConfigError("seq_len must be at least 1, got 0")
    if not config.seq_len:
        raise ConfigError("seq_len is not set; --seq-len 4096 makes rows of 4096 input tokens")
    folders = [dataset_folder(folder) for folder in config.inputs]
    if not config.allow_duplicates:
        refuse_twice((folder, os.path.join(folder, MANIFEST)) for folder in config.inputs)
    corpus = Corpus(folders, all_masks=config.all_masks)
    if config.select is not None:
        corpus.selection = read_selection(config.select, corpus.num_documents)
    if config.overflow == "turns":
        if not STRATEGIES[config.strategy].keeps_blocks:
            raise ConfigError(
                f"strategy {config.strategy} cuts a conversation wherever a row ends, so overflow "
                "turns cannot keep turns whole; set --strategy best_fit or pad"
            )
        check_has_turns(corpus)
    quirks = STRATEGIES[config.strategy].quirks(config, corpus.masks)
    if "weight" in corpus.masks and quirks.shift_full_rows:
        raise ConfigError(
            "compat lwm with strategy pad moves the loss of full rows by one token, which the loss "
            "weights of these documents cannot follow; leave compat out"
        )
    if sides_among(corpus.masks):
        _check_sides(corpus, config)
    return corpus


def _check_sides(corpus: Corpus, config: PackConfig) -> None:
    """Raise a ConfigError if packing would cut documents of two sides, which make sense whole."""
    side = sides_among(corpus.masks)[0]
    if not STRATEGIES[config.strategy].keeps_blocks:
        raise ConfigError(
            f"strategy {config.strategy} cuts documents anywhere, but these have two sides (the "
            f"mask {side}) that belong together; set --strategy best_fit or pad"
        )
    if config.overflow == "drop":
        return
    documents = planned_of(corpus)
    lengths = (documents.lengths(shard) for shard in range(documents.num_shards))
    longest = max((int(each.max(initial=0)) for each in lengths), default=0)
    if longest > config.seq_len + 1:
        raise ConfigError(
            f"a document has {longest} tokens, a row {config.seq_len + 1}, and documents of two "
            f"sides (the mask {side}) are not cut; set --seq-len {longest - 1}, or --overflow drop "
            "to leave the longer ones out"
        )


def _begin(
    config: PackConfig, share: JobShare | None, corpus: Corpus, work: Path, report: Report
) -> Work[RowsMarker]:
    with own_turn(share, work):
        make_tasks_folder(work)
        if share is None:  # each run checks its inputs anew; elements of an array do so together
            shutil.rmtree(work / CHECKED, ignore_errors=True)
        corpus.mark_checks_in(work / CHECKED)
        plan = make_plan(corpus, config, work, report)
    own = own_jobs(share, _sizes(plan))
    markers = trusted_markers(_stems(plan, work), RowsMarker, ENDINGS, own=own)
    left = [plan.tasks[i] for i in markers.left()]
    num_bytes = sum(task.stop - task.start for task in left) * plan.row_bytes
    num_workers = config.workers or workers_worth(
        num_bytes, BYTES_PER_WORKER, most_workers(config.executor)
    )
    begun: dict[str, Any] = {
        "rows": sum(plan.tasks[i].stop - plan.tasks[i].start for i in markers.own),
        "tasks": len(markers.own),
        "tasks_done": len(markers.own) - len(left),
        "num_bytes": num_bytes,
        "workers": min(num_workers, max(len(left), 1)),
    }
    return Work(
        worker=WORKER,
        markers=markers,
        sizes=_sizes(plan),
        num_workers=num_workers,
        task_timeout=config.task_timeout,
        describe=partial(_describe, plan),
        begun=begun,
    )


def _gather(corpus: Corpus, work: Path, report: Report) -> Work[RowsMarker]:
    """Return the work that others have done, with nothing prepared for workers."""
    plan = read_plan(work, PackPlan)
    markers = trusted_markers(_stems(plan, work), RowsMarker, ENDINGS, rehash=False)
    describe = partial(_describe, plan)
    return done_by_others(WORKER, markers, _sizes(plan), describe)


def _stems(plan: PackPlan, work: Path) -> list[Path]:
    return [stem_of(work, task_name(task)) for task in plan.tasks]


def _sizes(plan: PackPlan) -> list[int]:
    return [task.stop - task.start for task in plan.tasks]


def _describe(plan: PackPlan, task: int) -> str:
    return f"rows {plan.tasks[task].start} to {plan.tasks[task].stop}"


def _draft(corpus: Corpus, work: Path, markers: Markers[RowsMarker]) -> Draft:
    return make_draft(corpus, read_plan(work, PackPlan), markers, work)


def _check_rows(counts: Mapping[str, int], limits: Limits) -> None:
    if not counts["rows"] and counts["documents_read"]:
        raise NothingLeftError("packing left no rows: every document was dropped; set --overflow")
