"""`pack`: lengths -> row plan -> rows -> manifest.

    out/.work/rows/*      the plan: which tokens of which documents lie in which row
    out/.work/tasks/*     shards as workers commit them
    out/…                 the packed dataset, manifest last

Lengths come from the index of the tokenized datasets; tokens are read only to be copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from dataprep.configs import PackConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import disk_errors_named, write_atomic
from dataprep.pipeline.jobs.executors import EXECUTORS, Message, usable_cores
from dataprep.pipeline.jobs.workspace import (
    check_out,
    complete_manifest,
    locked,
    prepare,
    refuse_inside,
    remove_dataset,
)
from dataprep.pipeline.pack.blocks import blocks_of_window, count_cut_blocks
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.manifest import NEUTRAL, finish, make_manifest
from dataprep.pipeline.pack.strategies import (
    Counts,
    Plan,
    Window,
    best_fit,
    cut_windows,
    first_fit,
    pad,
    plan_concat_windows,
    plan_windows,
)
from dataprep.pipeline.pack.worker import (
    PLAN,
    TASKS,
    PackPlan,
    PackTask,
    committed,
    plan_path,
)
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.documents import TOKEN_DTYPES
from dataprep.pipeline.storage.manifest import FORMAT_VERSION
from dataprep.pipeline.tokenize.recipe import Outcome, Report

COUNTS = "counts.json"
SHARDS_WANTED = 16  # enough for every core to have some
SMALLEST_SHARD_BYTES = 16 << 20


def pack(
    folders: list[str],
    config: PackConfig,
    out_name: str,
    *,
    overwrite: bool = False,
    report: Report = lambda kind, values: None,
) -> Outcome:
    """Make the packed dataset, or go on with it, or find that it is there."""
    if not folders:
        raise ConfigError("no tokenized dataset; name the folder that dataprep tokenize wrote")
    out = check_out(out_name)
    refuse_inside(out, folders)
    corpus = Corpus([Path(folder) for folder in folders])
    values = config.model_dump(mode="json")
    identity = _identity(corpus, values)
    with disk_errors_named(out), locked(out):
        if overwrite:
            remove_dataset(out)
        manifest = complete_manifest(out, identity, folders)
        if manifest is not None:
            return Outcome(out=out, manifest=manifest, was_complete=True)
        work = prepare(out, identity, folders)
        plan, counts = _plan(corpus, values, work, report)
        _execute(plan, config, work, report)
        manifest = make_manifest(corpus, plan, counts, values, identity, work)
        finish(plan, out, work, manifest)
    return Outcome(out=out, manifest=manifest, was_complete=False)


def plan_rows(corpus: Corpus, config: Mapping[str, Any]) -> Iterator[Plan]:
    """The plans of all windows, in order."""
    capacity = config["seq_len"] + 1
    chunks = (corpus.lengths(shard) for shard in range(corpus.num_shards))
    windows = cut_windows(chunks, capacity, window=config["window"])
    if config["strategy"] == "concat":
        rows = plan_concat_windows(windows, capacity, drop_tail=config["drop_tail"])
        return count_cut_blocks(corpus, rows)
    cutting = {"overflow": config["overflow"], "truncate_side": config["truncate_side"]}
    filling = {"max_segments": config["max_segments"]}

    def plan(window: Window) -> Plan:
        blocks = blocks_of_window(corpus, window, capacity) if config["keep_blocks"] else None
        if config["strategy"] == "best_fit":
            return best_fit(
                window.lengths,
                capacity,
                blocks=blocks,
                seed=config["seed"],
                window=window.index,
                **cutting,
                **filling,
            )
        if config["strategy"] == "first_fit":
            return first_fit(
                window.lengths,
                capacity,
                blocks=blocks,
                open_rows=config["open_rows"],
                **cutting,
                **filling,
            )
        return pad(window.lengths, capacity, blocks=blocks, pad_side=config["pad_side"], **cutting)

    plans = plan_windows(windows, plan)
    return plans if config["keep_blocks"] else count_cut_blocks(corpus, plans)


def _identity(corpus: Corpus, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "kind": "packed",
        "config": {key: value for key, value in config.items() if key not in NEUTRAL},
        "sources": [manifest["fingerprint"] for manifest in corpus.manifests],
    }


def _plan(
    corpus: Corpus, config: dict[str, Any], work: Path, report: Report
) -> tuple[PackPlan, Counts]:
    """The plan, from an earlier run's files if they are all there."""
    if (work / PLAN).exists():
        begun = msgspec.json.decode((work / PLAN).read_bytes(), type=PackPlan)
        # The same datasets may have moved since.
        plan = replace(begun, folders=[str(folder.absolute()) for folder in corpus.folders])
        write_atomic(work / PLAN, msgspec.json.encode(plan))
        return plan, Counts(**json.loads((work / COUNTS).read_bytes()))
    report("plan", {"documents": corpus.num_documents})
    (work / "rows").mkdir(exist_ok=True)
    (work / TASKS).mkdir(exist_ok=True)
    capacity = config["seq_len"] + 1
    row_bytes = capacity * TOKEN_DTYPES[corpus.token_dtype].itemsize
    most = min(config["shard_rows"], max(1, config["shard_bytes"] // row_bytes))
    counts = Counts()
    tasks: list[PackTask] = []
    for number, window in enumerate(plan_rows(corpus, config)):
        counts += window.counts
        for name in ("document", "start", "length", "row_offsets"):
            save_array(plan_path(work, number, name), getattr(window, name))
        step = _rows_of_a_shard(window.num_rows, most, row_bytes)
        for start in range(0, window.num_rows, step):
            stop = min(start + step, window.num_rows)
            tasks.append(PackTask(index=len(tasks), window=number, start=start, stop=stop))
    plan = PackPlan(
        folders=[str(folder.absolute()) for folder in corpus.folders],
        config=config,
        capacity=capacity,
        pad=_pad_id(corpus, config),
        row_bytes=row_bytes,
        tasks=tasks,
    )
    write_atomic(work / COUNTS, json.dumps(asdict(counts)).encode())
    write_atomic(work / PLAN, msgspec.json.encode(plan))
    return plan, counts


def _rows_of_a_shard(num_rows: int, most: int, row_bytes: int) -> int:
    """Shards of equal size, and several of them where that does not make them tiny."""
    enough = max(-(-num_rows // SHARDS_WANTED), SMALLEST_SHARD_BYTES // row_bytes, 1)
    count = max(1, -(-num_rows // min(most, enough)))
    return max(1, -(-num_rows // count))


def _pad_id(corpus: Corpus, config: Mapping[str, Any]) -> int:
    """Padding is known by its place, so any id will do; LWM's is BOS."""
    tokenizer = corpus.manifests[0]["tokenizer"]
    if config["pad_id"] is not None:
        if config["pad_id"] > corpus.manifests[0]["max_id"]:
            raise ConfigError(f"pad_id {config['pad_id']} is outside the vocabulary")
        return int(config["pad_id"])
    names = ("bos", "pad") if config["compat"] == "lwm" else ("pad",)
    return next((tokenizer[name] for name in names if tokenizer[name] is not None), 0)


def _execute(plan: PackPlan, config: PackConfig, work: Path, report: Report) -> None:
    left = [task for task in plan.tasks if committed(work, task) is None]
    report(
        "start",
        {
            "rows": sum(task.stop - task.start for task in plan.tasks),
            "tasks": len(plan.tasks),
            "tasks_done": len(plan.tasks) - len(left),
            "num_bytes": sum(task.stop - task.start for task in left) * plan.row_bytes,
            "workers": config.workers or usable_cores(),
        },
    )

    def on_message(message: Message) -> None:
        report("progress", message)

    EXECUTORS["local"](
        [task.index for task in left],
        worker="dataprep.pipeline.pack.worker",
        work=work,
        environment={},
        num_workers=config.workers or usable_cores(),
        describe=lambda i: f"rows {plan.tasks[i].start} to {plan.tasks[i].stop}",
        on_message=on_message,
    )
