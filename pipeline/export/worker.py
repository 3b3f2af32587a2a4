"""One worker of `dataprep export`: some shards of the dataset -> the files of one shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.export.format import ShardWriter
from dataprep.pipeline.export.plan import Exported, ExportPlan, ExportTask, opened
from dataprep.pipeline.export.sequences import Sequences, sequences_in
from dataprep.pipeline.files import Written
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
from dataprep.pipeline.storage.entries import DocumentShard, RowShard


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportMarker:
    """The marker of one committed shard; a task has one."""

    counts: dict[str, int]
    files: dict[str, Written]  # by role
    final: bool = True

    @property
    def is_empty(self) -> bool:
        return not self.counts.get("records")


def task_name(task: ExportTask) -> str:
    """Return what the names of a task's files begin with."""
    return f"{task.index:06d}"


def paths_of(stem: Path, exported: Exported) -> dict[str, Path]:
    endings = exported.format.endings_of(exported.facts)
    return {role: shard_file(stem, 0, ending) for role, ending in endings.items()}


def run_task(task: ExportTask, exported: Exported, work: Path, send: Send) -> Commit:
    """Write the files of a task; return the function that commits them."""
    stem = stem_of(work, task_name(task))
    if is_done(read_markers(stem, ExportMarker)):
        return lambda: None
    remove_leftovers(stem, 0, exported.format.endings.values())
    facts = exported.facts
    paths = paths_of(stem, exported)
    gone = {number: exported.forgotten_in(number) for number in range(task.start, task.stop)}
    num_gone = sum(map(len, gone.values()))
    count = sum(_sequences_in(s) for s in exported.manifest.shards[task.start : task.stop])
    writer = exported.format.open(facts, paths, count - num_gone)
    report = Reporter(task.index, send)
    counts = Counter({"documents_forgotten": num_gone} if num_gone else {})
    keeps_loss = "loss" not in facts.masks and not facts.config.drop_masks
    for number in range(task.start, task.stop):
        shard = exported.manifest.shards[number]
        tokens = max(1, shard.num_tokens)
        with sequences_in(
            exported.folder,
            exported.manifest,
            number,
            facts.masks,
            keeps_loss=keeps_loss,
            forgotten=gone[number],
        ) as found:
            for sequences in found:
                counts.update(_added(writer, sequences, exported.folder / shard.path))
                counts.update(sequences=len(sequences), tokens_read=len(sequences.tokens))
                done = shard.num_bytes * len(sequences.tokens) // tokens
                rows = len(sequences) if facts.is_packed else 0
                report.count(rows=rows, documents=len(sequences) - rows, num_bytes=done)
                send(at(None))
    report.flush()

    def commit() -> None:
        marker = ExportMarker(counts=dict(counts), files=writer.commit())
        write_marker(stem, 0, marker, paths)

    return commit


def _added(writer: ShardWriter, sequences: Sequences, path: Path) -> Mapping[str, int]:
    """Write sequences; a format that cannot take them knows why, but not where they are."""
    try:
        return writer.add(sequences)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _sequences_in(shard: DocumentShard | RowShard) -> int:
    return shard.num_documents if isinstance(shard, DocumentShard) else shard.num_records


def begin(work: Path) -> RunJob:
    """Load what every task needs; return the function that runs one."""
    plan = read_plan(work, ExportPlan)
    exported = opened(plan)

    def run(job: int, send: Send) -> Commit:
        return run_task(plan.tasks[job], exported, work, send)

    return run
