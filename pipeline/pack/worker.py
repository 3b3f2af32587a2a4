"""One worker process of `dataprep pack`: plan -> copy -> encode -> write.

`begin` is called once by each worker process (see `jobs.worker`). A task is a range of planned rows
and gives one shard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.files import commit_files, sync_folder, temporary, write_atomic
from dataprep.pipeline.jobs.worker import Commit, RunJob, Send
from dataprep.pipeline.pack.corpus import Corpus, Pieces
from dataprep.pipeline.pack.rows import build_rows
from dataprep.pipeline.ragged import owner_of
from dataprep.pipeline.storage.arrayrecord import MAPPABLE, RecordWriter, check_written, save_array
from dataprep.pipeline.storage.documents import TOKEN_DTYPES
from dataprep.pipeline.storage.rows import RowLayout, encode_rows, ends_dtype
from dataprep.pipeline.types import Mask, Offsets

PLAN = "plan.json"
TASKS = "tasks"
BATCH_TOKENS = 1 << 23  # built at once; fewer batches mean longer runs of copies from a shard
ENDINGS = {"shards": ".arrayrecord", "index": ".index.npy", "provenance": ".provenance.npy"}
PIECES = np.dtype([("row", "<u4"), ("length", "<u4"), ("document", "<u8"), ("start", "<u8")])
OPTIONS = {"none": MAPPABLE, "zstd": "group_size:1,zstd:3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackTask:
    """Rows [start, stop) of one window's plan."""

    index: int
    window: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    folders: list[str]
    config: dict[str, Any]
    capacity: int
    pad: int
    row_bytes: int  # of the tokens of a row
    tasks: list[PackTask]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedShard:
    """One committed shard, as its marker says."""

    num_rows: int
    num_tokens: int  # of documents, padding left out
    num_targets: int
    num_pieces: int
    rows_without_target: int
    tokens_in_dropped_rows: int
    files: dict[str, dict[str, Any]]


def plan_path(work: Path, window: int, name: str) -> Path:
    return work / "rows" / f"{window:05d}-{name}.npy"


def shard_file(work: Path, task: PackTask, role: str) -> Path:
    return work / TASKS / f"{task.index:06d}{ENDINGS[role]}"


def marker_file(work: Path, task: PackTask) -> Path:
    return work / TASKS / f"{task.index:06d}.done"


def committed(work: Path, task: PackTask) -> PackedShard | None:
    path = marker_file(work, task)
    return PackedShard(**json.loads(path.read_bytes())) if path.exists() else None


def row_quirks(config: Mapping[str, Any]) -> dict[str, bool]:
    lwm = config["compat"] == "lwm"
    return {
        "pad_left": config["strategy"] == "pad" and config["pad_side"] == "left",
        "keep_first_loss": config["strategy"] == "concat" and lwm,
        "shift_full_rows": config["strategy"] == "pad" and lwm,
    }


def run_task(task: PackTask, plan: PackPlan, corpus: Corpus, work: Path, send: Send) -> Commit:
    if committed(work, task):
        return lambda: None
    row_offsets = np.load(plan_path(work, task.window, "row_offsets"), mmap_mode="r")
    arrays = {
        name: np.load(plan_path(work, task.window, name), mmap_mode="r")
        for name in ("document", "start", "length")
    }
    paths = {role: shard_file(work, task, role) for role in ENDINGS}
    writer = RecordWriter(temporary(paths["shards"]), OPTIONS[plan.config["compression"]])
    layout = RowLayout(
        capacity=plan.capacity,
        num_masks=len(corpus.masks),
        tokens=TOKEN_DTYPES[corpus.token_dtype],
        ends=TOKEN_DTYPES[ends_dtype(plan.capacity - 1)],
    )
    sums = _Sums()
    step = max(1, BATCH_TOKENS // plan.capacity)
    for first in range(task.start, task.stop, step):
        offsets = np.array(row_offsets[first : min(first + step, task.stop) + 1], np.int64)
        pieces = Pieces(
            **{name: np.array(a[offsets[0] : offsets[-1]], np.int64) for name, a in arrays.items()}
        )
        rows, num_targets = build_rows(
            corpus,
            pieces,
            offsets - offsets[0],
            capacity=plan.capacity,
            pad=plan.pad,
            **row_quirks(plan.config),
        )
        records = encode_rows(rows, layout)
        drop = plan.config["drop_empty_targets"]
        kept = sums.add(rows.ends.offsets, num_targets, pieces, records, drop=drop)
        for record, keep in zip(records, kept.tolist(), strict=True):
            if keep:
                writer.write(record)
        send({"type": "progress", "rows": len(records), "num_bytes": sum(map(len, records))})

    def commit() -> None:
        writer.close()
        _commit(task, work, paths, sums)

    return commit


class _Sums:
    """What a shard adds up to, and its small files."""

    def __init__(self) -> None:
        self.record_bytes: list[NDArray[Any]] = [np.zeros(0, "<u4")]
        self.provenance: list[NDArray[Any]] = [np.zeros(0, PIECES)]
        self.num_rows = self.num_tokens = self.num_targets = self.num_pieces = 0
        self.rows_without_target = self.tokens_in_dropped_rows = 0

    def add(
        self,
        row_offsets: Offsets,
        num_targets: Offsets,
        pieces: Pieces,
        records: Sequence[bytes],
        *,
        drop: bool,
    ) -> Mask:
        """Which rows stay."""
        num_rows = len(records)
        has_target = num_targets > 0
        kept = has_target if drop else np.ones(num_rows, bool)
        row = owner_of(np.diff(row_offsets))
        stays = kept[row]
        entries = np.empty(int(stays.sum()), PIECES)
        entries["row"] = self.num_rows + (np.cumsum(kept) - 1)[row[stays]]
        entries["document"], entries["start"] = pieces.document[stays], pieces.start[stays]
        entries["length"] = pieces.length[stays]
        self.provenance.append(entries)
        self.record_bytes.append(np.array([len(r) for r in records], "<u4")[kept])
        self.num_rows += int(kept.sum())
        self.num_tokens += int(pieces.length[stays].sum())
        self.num_targets += int(num_targets[kept].sum())
        self.num_pieces += len(entries)
        self.rows_without_target += int((~has_target).sum())
        self.tokens_in_dropped_rows += int(pieces.length[~stays].sum())
        return kept


def _commit(task: PackTask, work: Path, paths: dict[str, Path], sums: _Sums) -> None:
    record_bytes = np.concatenate(sums.record_bytes)
    save_array(temporary(paths["index"]), record_bytes)
    save_array(temporary(paths["provenance"]), np.concatenate(sums.provenance))
    check_written(temporary(paths["shards"]), len(record_bytes))
    shard = PackedShard(
        num_rows=sums.num_rows,
        num_tokens=sums.num_tokens,
        num_targets=sums.num_targets,
        num_pieces=sums.num_pieces,
        rows_without_target=sums.rows_without_target,
        tokens_in_dropped_rows=sums.tokens_in_dropped_rows,
        files=commit_files(paths),
    )
    sync_folder(work / TASKS)
    write_atomic(marker_file(work, task), json.dumps(asdict(shard)).encode())


def begin(work: Path) -> RunJob:
    plan = msgspec.json.decode((work / PLAN).read_bytes(), type=PackPlan)
    corpus = Corpus([Path(folder) for folder in plan.folders])

    def run(job: int, send: Send) -> Commit:
        return run_task(plan.tasks[job], plan, corpus, work, send)

    return run
