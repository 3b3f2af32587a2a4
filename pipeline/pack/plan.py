"""The plan of a packed dataset: which tokens of which documents are in which row.

    out/.work/rows/00000-document.npy, -start, -length, -row_offsets   for each window
    out/.work/plan.json                                                written last

Lengths come from the index of the tokenized datasets; no token is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import Written, commit_files, make_folder, sync_folder, temporary
from dataprep.pipeline.jobs.plans import find_plan, write_plan
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.pack.blocks import blocks_of_window, count_cut_blocks
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.strategies import STRATEGIES, Counts, RowPlan, cut_windows
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.documents import TOKEN_DTYPES

ROWS = "rows"
SHARDS_WANTED = 16  # enough work for every core
SMALLEST_SHARD_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PackTask:
    """Rows [start, stop) of one window's plan."""

    index: int
    window: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    """What workers are told; what is in each row stands in files beside it."""

    folders: tuple[str, ...]
    config: PackConfig
    capacity: int
    pad: int
    row_bytes: int  # size of the tokens of a row
    rows: dict[str, Written]  # the files that say what is in each row
    tasks: tuple[PackTask, ...]
    counts: Counts


def rows_path(work: Path, window: int, name: str) -> Path:
    return work / ROWS / f"{window:05d}-{name}.npy"


def plan_rows(corpus: Corpus, config: PackConfig) -> Iterator[RowPlan]:
    """Yield the plans of all windows, in order."""
    capacity = config.seq_len + 1
    chunks = (corpus.lengths(shard) for shard in range(corpus.num_shards))
    windows = cut_windows(chunks, capacity, window=config.window)
    strategy = STRATEGIES[config.strategy]
    if strategy.keeps_blocks and config.keep_blocks:
        return strategy.plan(windows, config, lambda w: blocks_of_window(corpus, w, capacity))
    return count_cut_blocks(corpus, strategy.plan(windows, config, lambda window: None))


def make_plan(corpus: Corpus, config: PackConfig, work: Path, report: Report) -> PackPlan:
    """Plan all rows, or use the plan of an earlier run."""
    folders = tuple(str(folder.absolute()) for folder in corpus.folders)
    plan = find_plan(work, PackPlan)
    if plan is None or not all(file.is_at(work / ROWS / name) for name, file in plan.rows.items()):
        report("plan", {"documents": corpus.num_documents})
        plan = _new_plan(corpus, config, folders, work)
        corpus.check_unchanged()
    # The same datasets may have moved since.
    plan = replace(plan, folders=folders)
    write_plan(work, plan)
    return plan


def _new_plan(corpus: Corpus, config: PackConfig, folders: Sequence[str], work: Path) -> PackPlan:
    make_folder(work / ROWS)
    row_bytes = (config.seq_len + 1) * TOKEN_DTYPES[corpus.token_dtype].itemsize
    most = min(config.shard_rows, max(1, config.shard_bytes // row_bytes))
    counts = Counts()
    tasks: list[PackTask] = []
    rows: dict[str, Written] = {}
    for number, window in enumerate(plan_rows(corpus, config)):
        counts += window.counts
        rows |= _write_rows(window, number, work)
        step = _rows_of_a_shard(window.num_rows, most, row_bytes)
        for start in range(0, window.num_rows, step):
            stop = min(start + step, window.num_rows)
            tasks.append(PackTask(index=len(tasks), window=number, start=start, stop=stop))
    return PackPlan(
        folders=tuple(folders),
        config=config,
        capacity=config.seq_len + 1,
        pad=_pad_id(corpus, config),
        row_bytes=row_bytes,
        rows=rows,
        tasks=tuple(tasks),
        counts=counts,
    )


def _write_rows(window: RowPlan, number: int, work: Path) -> dict[str, Written]:
    """Write, durably, which tokens are in the rows of a window."""
    paths = {}
    for name in ("document", "start", "length", "row_offsets"):
        path = rows_path(work, number, name)
        save_array(temporary(path), getattr(window, name))
        paths[path.name] = path
    written = commit_files(paths)
    sync_folder(work / ROWS)
    return written


def _rows_of_a_shard(num_rows: int, most: int, row_bytes: int) -> int:
    """Return the size of equal shards, of which there are several unless they would be tiny."""
    enough = max(-(-num_rows // SHARDS_WANTED), SMALLEST_SHARD_BYTES // row_bytes, 1)
    count = max(1, -(-num_rows // min(most, enough)))
    return max(1, -(-num_rows // count))


def _pad_id(corpus: Corpus, config: PackConfig) -> int:
    """Return the id of padding. Padding is known by its place, so any id will do; LWM's is BOS."""
    first = corpus.manifests[0]
    if config.pad_id is not None:
        if config.pad_id > first.max_id:
            raise ConfigError(f"pad_id {config.pad_id} is outside the vocabulary")
        return config.pad_id
    pad, bos = first.tokenizer.pad, first.tokenizer.bos
    wanted = (bos, pad) if config.compat == "lwm" else (pad,)
    return next((special for special in wanted if special is not None), 0)
