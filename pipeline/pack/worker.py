"""One worker of `dataprep pack`: plan -> copy -> rows -> shard. A task gives one shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.files import Written, commit_files
from dataprep.pipeline.jobs.commits import (
    is_done,
    read_markers,
    remove_leftovers,
    shard_file,
    stem_of,
    write_marker,
)
from dataprep.pipeline.jobs.plans import read_plan
from dataprep.pipeline.jobs.progress import Reporter
from dataprep.pipeline.jobs.worker import Commit, RunJob, Send, at
from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.inputs import CHECKED, changed_input
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.plan import PackPlan, PackTask, PlannedRows
from dataprep.pipeline.pack.rows import build_rows
from dataprep.pipeline.pack.strategies import STRATEGIES
from dataprep.pipeline.ragged import owner_of
from dataprep.pipeline.storage.arrayrecord import MAPPABLE, RecordWriter, save_array
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, ends_dtype
from dataprep.pipeline.storage.joined import contents_of
from dataprep.pipeline.storage.places import dataset_folder
from dataprep.pipeline.storage.provenance import ROW_PIECE
from dataprep.pipeline.storage.rows import RowLayout, encode_rows
from dataprep.pipeline.types import Mask, Offsets

BATCH_TOKENS = 1 << 23  # tokens built at once; larger batches copy more from a shard in one go
ENDINGS = {"shards": ".arrayrecord", "index": ".index.npy", "provenance": ".provenance.npy"}
OPTIONS = {"none": MAPPABLE, "zstd": "group_size:1,zstd:3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsMarker:
    """The marker of one committed shard of rows; a task has one."""

    num_rows: int
    num_tokens: int  # of documents, padding left out
    num_targets: int
    num_pieces: int
    rows_without_target: int
    tokens_in_dropped_rows: int
    files: dict[str, Written]  # by role
    final: bool = True

    @property
    def is_empty(self) -> bool:
        return not self.num_rows


def task_name(task: PackTask) -> str:
    """Return what the names of a task's files begin with."""
    return f"{task.index:06d}"


def run_task(
    task: PackTask, plan: PackPlan, corpus: Corpus, planned: PlannedRows, work: Path, send: Send
) -> Commit:
    """Write the rows of a task; return the function that commits them."""
    stem = stem_of(work, task_name(task))
    if is_done(read_markers(stem, RowsMarker)):
        return lambda: None
    remove_leftovers(stem, 0, ENDINGS.values())
    paths = {role: shard_file(stem, 0, ending) for role, ending in ENDINGS.items()}
    writer = RecordWriter(paths["shards"], OPTIONS[plan.config.compression])
    quirks = STRATEGIES[plan.config.strategy].quirks(plan.config, corpus.masks)
    report = Reporter(task.index, send)
    layout = RowLayout(
        capacity=plan.capacity,
        masks=corpus.masks,
        tokens=TOKEN_DTYPES[corpus.token_dtype],
        ends=TOKEN_DTYPES[ends_dtype(plan.capacity - 1)],
    )
    sums = _Sums()
    batch_rows = max(1, BATCH_TOKENS // plan.capacity)
    with corpus.unchanged(), planned.mapped(task.window) as arrays:
        for first, pieces, row_offsets in _in_batches(task, arrays, batch_rows):
            rows, num_targets = build_rows(
                corpus,
                pieces,
                row_offsets,
                capacity=plan.capacity,
                pad=plan.pad,
                quirks=quirks,
                is_first=task.index == 0 and first == task.start,
            )
            records = encode_rows(rows, layout)
            drop = plan.config.drop_empty_targets
            kept = sums.add(rows.ends.offsets, num_targets, pieces, records, drop=drop)
            writer.write(*compress(records, kept.tolist()))
            report.count(rows=len(records), num_bytes=sum(map(len, records)))
            send(at(None))
    report.flush()

    def commit() -> None:
        write_marker(stem, 0, sums.commit(writer, paths), paths)

    return commit


def _in_batches(
    task: PackTask, arrays: dict[str, NDArray[Any]], batch_rows: int
) -> Iterator[tuple[int, DocumentPieces, Offsets]]:
    """Yield the first row of each batch in its window, the pieces of the rows, and the offsets that
    cut them into rows."""
    row_offsets = arrays.pop("row_offsets")
    for first in range(task.start, task.stop, batch_rows):
        offsets = np.array(row_offsets[first : min(first + batch_rows, task.stop) + 1], np.int64)
        pieces = DocumentPieces(
            **{name: np.array(a[offsets[0] : offsets[-1]], np.int64) for name, a in arrays.items()}
        )
        yield first, pieces, offsets - offsets[0]


class _Sums:
    """The counts of a shard, and its small files."""

    def __init__(self) -> None:
        self.record_bytes: list[NDArray[Any]] = [np.zeros(0, "<u4")]
        self.provenance: list[NDArray[Any]] = [np.zeros(0, ROW_PIECE)]
        self.num_rows = self.num_tokens = self.num_targets = self.num_pieces = 0
        self.rows_without_target = self.tokens_in_dropped_rows = 0

    def add(
        self,
        row_offsets: Offsets,
        num_targets: Offsets,
        pieces: DocumentPieces,
        records: Sequence[bytes],
        *,
        drop: bool,
    ) -> Mask:
        """Count rows; return which of them are kept."""
        num_rows = len(records)
        has_target = num_targets > 0
        kept = has_target if drop else np.ones(num_rows, bool)
        row = owner_of(np.diff(row_offsets))
        stays = kept[row]
        entries = np.empty(int(stays.sum()), ROW_PIECE)
        entries["row"] = self.num_rows + (np.cumsum(kept) - 1)[row[stays]]
        entries["document"], entries["start"] = pieces.document[stays], pieces.start[stays]
        entries["length"] = pieces.length[stays]
        entries["head"] = 0 if pieces.head is None else pieces.head[stays]
        self.provenance.append(entries)
        self.record_bytes.append(np.array([len(r) for r in records], "<u4")[kept])
        self.num_rows += int(kept.sum())
        self.num_tokens += int(pieces.length[stays].sum())
        self.num_targets += int(num_targets[kept].sum())
        self.num_pieces += len(entries)
        self.rows_without_target += int((~has_target).sum())
        self.tokens_in_dropped_rows += int(pieces.length[~stays].sum())
        return kept

    def commit(self, rows: RecordWriter, paths: Mapping[str, Path]) -> RowsMarker:
        """Make the files of the shard durable and return its marker."""
        index = save_array(paths["index"], np.concatenate(self.record_bytes))
        provenance = save_array(paths["provenance"], np.concatenate(self.provenance))
        return RowsMarker(
            num_rows=self.num_rows,
            num_tokens=self.num_tokens,
            num_targets=self.num_targets,
            num_pieces=self.num_pieces,
            rows_without_target=self.rows_without_target,
            tokens_in_dropped_rows=self.tokens_in_dropped_rows,
            files=commit_files({"shards": rows, "index": index, "provenance": provenance}),
        )


def begin(work: Path) -> RunJob:
    """Load what every task needs; return the function that runs one."""
    plan = read_plan(work, PackPlan)
    corpus = Corpus(
        [dataset_folder(folder) for folder in plan.folders],
        work / CHECKED,
        maps=True,
        all_masks=plan.config.all_masks,
    )
    for folder, manifest, planned_of in zip(
        corpus.folders, corpus.manifests, plan.contents, strict=True
    ):
        if contents_of(manifest) != planned_of:
            raise changed_input(folder)
    planned = PlannedRows(plan, work)

    def run(job: int, send: Send) -> Commit:
        return run_task(plan.tasks[job], plan, corpus, planned, work, send)

    return run
