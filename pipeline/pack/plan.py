"""The plan of a packed dataset: which tokens of which documents are in which row.

    out/.work/rows/00000-document.npy, -start, -length, -row_offsets   for each window; -head of
                                                                       those with such a piece
    out/.work/provenance/*                                             where documents came from
    out/.work/plan.json                                                written last

Lengths come from the index of the tokenized datasets, blocks and turns from their masks; tokens are
not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.files import (
    Written,
    commit_files,
    lost,
    make_folder,
    sync_folder,
)
from dataprep.pipeline.jobs.plans import find_plan, write_plan
from dataprep.pipeline.pack.blocks import blocks_of_window, count_cut_blocks
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.inputs import CHECKED, FileChecks
from dataprep.pipeline.pack.origins import write_origins
from dataprep.pipeline.pack.selected import PlannedDocuments, planned_of
from dataprep.pipeline.pack.strategies import (
    STRATEGIES,
    Counts,
    Fit,
    FittedPieces,
    RowPlan,
    Window,
    cut_windows,
    fit_pieces,
)
from dataprep.pipeline.pack.turns import kept_of_window
from dataprep.pipeline.storage.arrayrecord import save_array
from dataprep.pipeline.storage.documents import TOKEN_DTYPES
from dataprep.pipeline.storage.entries import FileEntry
from dataprep.pipeline.storage.fetched import name_of
from dataprep.pipeline.storage.joined import contents_of

if TYPE_CHECKING:
    from dataprep.pipeline.jobs.recipes import Report

ROWS = "rows"
ROW_ARRAYS = ("document", "start", "length", "row_offsets")
HEAD = "head"  # one more array, of windows in which a piece has a head
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

    folders: tuple[str, ...]  # addresses of those in buckets, which each machine fetches for itself
    contents: tuple[str, ...]  # what the datasets in these folders are known by
    config: PackConfig
    capacity: int
    pad: int
    row_bytes: int  # size of the tokens of a row
    rows: dict[str, Written]  # the files that say what is in each row
    origins: dict[str, Written]  # the files that say where documents came from: `pack.origins`
    tasks: tuple[PackTask, ...]
    counts: Counts


def rows_path(work: Path, window: int, name: str) -> Path:
    return work / ROWS / f"{window:05d}-{name}.npy"


def plan_rows(corpus: Corpus, config: PackConfig) -> Iterator[RowPlan]:
    """Yield the plans of all windows, in order."""
    capacity = config.seq_len + 1
    documents = planned_of(corpus)
    chunks = (documents.lengths(shard) for shard in range(documents.num_shards))
    windows = cut_windows(chunks, capacity, window=config.window)
    strategy = STRATEGIES[config.strategy]
    plans = strategy.plan(windows, config, _fitter(documents, config))
    keeps_blocks = config.keep_blocks or config.overflow == "turns"  # no block is in two turns
    if not (strategy.keeps_blocks and keeps_blocks):
        plans = count_cut_blocks(documents, plans)
    return plans if isinstance(documents, Corpus) else documents.numbered(plans)


def _fitter(documents: PlannedDocuments, config: PackConfig) -> Fit:
    """Return the function that makes pieces of the documents of a window."""
    capacity = config.seq_len + 1
    by_turns = config.overflow == "turns"

    def fit(window: Window) -> FittedPieces:
        keeps_blocks = config.keep_blocks and not by_turns
        return fit_pieces(
            window.lengths,
            capacity,
            overflow=config.overflow,
            truncate_side=config.truncate_side,
            blocks=blocks_of_window(documents, window, capacity) if keeps_blocks else None,
            kept=kept_of_window(documents, window, capacity, config.turns) if by_turns else None,
        )

    return fit


def make_plan(corpus: Corpus, config: PackConfig, work: Path, report: Report) -> PackPlan:
    """Plan all rows, or use the plan of an earlier run."""
    folders = tuple(name_of(folder.absolute()) for folder in corpus.folders)
    plan = find_plan(work, PackPlan)
    if plan is None or not _is_whole(plan, work):
        report("plan", {"documents": planned_of(corpus).num_documents})
        with corpus.unchanged():
            plan = _new_plan(corpus, config, folders, work)
    # The same datasets may have moved since.
    plan = replace(plan, folders=folders)
    write_plan(work, plan)
    return plan


def _is_whole(plan: PackPlan, work: Path) -> bool:
    """Return whether all files beside the plan are as they were written."""
    files = {f"{ROWS}/{name}": file for name, file in plan.rows.items()} | plan.origins
    return all(file.is_at(work / name) for name, file in files.items())


def _new_plan(corpus: Corpus, config: PackConfig, folders: Sequence[str], work: Path) -> PackPlan:
    make_folder(work / ROWS)
    origins = write_origins(corpus, work)
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
        contents=tuple(map(contents_of, corpus.manifests)),
        config=config,
        capacity=config.seq_len + 1,
        pad=_pad_id(corpus, config),
        row_bytes=row_bytes,
        rows=rows,
        origins=origins,
        tasks=tuple(tasks),
        counts=counts,
    )


def _write_rows(window: RowPlan, number: int, work: Path) -> dict[str, Written]:
    """Write, durably, which tokens are in the rows of a window."""
    files = {}
    for name in (*ROW_ARRAYS, HEAD):
        array = getattr(window, name)
        if array is not None:
            path = rows_path(work, number, name)
            files[path.name] = save_array(path, array)
    written = commit_files(files)
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


class PlannedRows:
    """The files that say what is in each row; no row is made of one that is damaged or changes."""

    def __init__(self, plan: PackPlan, work: Path) -> None:
        self._plan = plan
        self._work = work
        self._checks = FileChecks(work / CHECKED)

    @contextmanager
    def mapped(self, window: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Map the arrays of a window; if one changes meanwhile, that is what went wrong."""
        entries = self._entries(window)
        for entry in entries.values():
            try:
                self._checks.check(self._work, entry)
            except CorruptError:
                raise lost(self._work / entry.path) from None
        try:
            yield {n: np.load(self._work / e.path, mmap_mode="r") for n, e in entries.items()}
        finally:
            for entry in entries.values():
                if self._checks.has_changed(self._work, entry):
                    raise lost(self._work / entry.path)

    def _entries(self, window: int) -> dict[str, FileEntry]:
        """Return the files of a window by the names of their arrays."""
        found = {}
        for name in (*ROW_ARRAYS, HEAD):
            path = rows_path(self._work, window, name)
            file = self._plan.rows.get(path.name)
            if file is not None:
                place = str(path.relative_to(self._work))
                size, digest = file.num_bytes, file.xxh3_128
                found[name] = FileEntry(path=place, num_bytes=size, xxh3_128=digest)
        return found
