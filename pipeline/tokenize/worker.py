"""One worker process of `dataprep tokenize`: read -> process -> encode -> write.

`begin` is called once by each worker process (see `jobs.worker`); a job is the number of a task in
the plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from dataprep.pipeline.documents.process import Processed
from dataprep.pipeline.documents.rules import keys_wanted
from dataprep.pipeline.documents.together import PieceRecords, gather, process_together
from dataprep.pipeline.engine import Engine, find_unencodable, load_engine
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import temporary
from dataprep.pipeline.jobs.progress import Reporter
from dataprep.pipeline.jobs.worker import Commit, RunJob, Send
from dataprep.pipeline.sources import format_of, lines_before, read_piece
from dataprep.pipeline.tokenize.plan import Plan, rules_of
from dataprep.pipeline.tokenize.sink import (
    FILES,
    Cursor,
    ShardSink,
    committed_shards,
    marker_path,
    shard_path,
)
from dataprep.pipeline.types import Ids, Offsets, Piece, Records, Task

PLAN = "plan.json"
ENGINE = "engine.json"
TASKS = "tasks"
# One byte of text in so many is encoded again by the reference, which is some 50 to 150 times
# slower than a fast engine: one to two hundredths of the run.
BYTES_PER_CHECKED_BYTE = 8192
MAX_FREE_CHARACTERS = 1 << 16  # of the one text a task that is checked whatever its length


def task_stem(work: Path, task: Task) -> Path:
    return work / TASKS / f"{task.index:06d}-{task.identity}"


class SampledEngine:
    """Passes texts on and keeps a small sample of what came back, to be checked by the parent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._credit = 0.0
        self._is_first = True  # batch of the task
        self._sample: list[tuple[str, list[int]]] = []

    def begin_task(self) -> None:
        self._is_first = True

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        ids, offsets = self._engine.encode(texts)
        choice = self._choose(texts)
        if choice is not None:
            part = ids[int(offsets[choice]) : int(offsets[choice + 1])]
            self._sample.append((texts[choice], part.tolist()))
        return ids, offsets

    def _choose(self, texts: Sequence[str]) -> int | None:
        """Which text of a batch to keep, if any: one of every task, then what the credit buys."""
        lengths = list(map(len, texts))
        self._credit += sum(lengths) / BYTES_PER_CHECKED_BYTE
        if self._is_first and lengths:
            self._is_first = False
            shortest = min((n, i) for i, n in enumerate(lengths) if n) if any(lengths) else (0, 0)
            if 0 < shortest[0] <= MAX_FREE_CHARACTERS:
                return shortest[1]
        if lengths:
            # Any choice that only depends on the texts will do.
            choice = xxhash.xxh3_64_intdigest(texts[0].encode("utf-8")) % len(texts)
            if 0 < lengths[choice] <= self._credit:
                self._credit -= lengths[choice]
                return choice
        return None

    def last_by_reference(self) -> Offsets:
        return getattr(self._engine, "last_by_reference", lambda: np.zeros(0, np.int64))()

    def take_sample(self) -> list[tuple[str, list[int]]]:
        sample, self._sample = self._sample, []
        return sample


def run_task(task: Task, plan: Plan, engine: SampledEngine, work: Path, send: Send) -> Commit:
    """Read the task's pieces and write its shards, going on from those already there.

    What is given commits the last of them.
    """
    stem = task_stem(work, task)
    done = committed_shards(stem)
    if done and done[-1].final:
        return lambda: None
    _remove_leftovers(stem, len(done))
    cursor = done[-1].cursor if done else Cursor()
    pieces = tuple(piece.source for piece in task.pieces)
    sink = ShardSink(stem, pieces, plan.masks, plan.config["shard_bytes"], done=done)
    report = Reporter(task.index, send)
    engine.begin_task()
    remaining = task.limit - sum(t.read for s in done for t in s.tallies.values())
    for group in gather(_read(task, plan, cursor, remaining)):
        made = process_together(group, engine, find_unencodable)
        for item, batch in zip(group, made, strict=True):
            if batch.errors and plan.config["on_error"] == "fail":
                raise InputError(_first_error(batch, plan, item.piece))
            sink.add(batch, item.place)
            report.count(
                documents=len(batch.origins),
                tokens=len(batch.documents.tokens),
                num_bytes=batch.num_bytes,
                errors=len(batch.errors),
            )
    report.flush()
    send({"type": "sample", "sample": engine.take_sample()})
    return sink.finish()


def _read(task: Task, plan: Plan, cursor: Cursor, remaining: int) -> Iterator[PieceRecords]:
    """The task's records from `cursor` on; of a task with a limit, `remaining` of them."""
    rules_by_input = lru_cache(maxsize=None)(partial(rules_of, plan))
    for place in range(cursor.piece, len(task.pieces)):
        piece = task.pieces[place]
        rules = rules_by_input(plan.inputs[piece.source])
        for records in read_piece(
            plan.sources[piece.source],
            piece,
            keys_wanted(rules),
            from_line=cursor.line if place == cursor.piece else 0,
            max_record_bytes=plan.config["max_record_bytes"],
            held_by=rules.grammar.holds,
        ):
            if task.limit >= 0:
                records, remaining = _take(records, remaining)
            yield PieceRecords(place=place, piece=piece, rules=rules, records=records)
            if task.limit >= 0 and remaining <= 0:
                return


def _take(records: Records, count: int) -> tuple[Records, int]:
    """The first `count` records of a batch, and how many are still wanted after it."""
    total = len(records.lines) + len(records.errors)
    if total <= count:
        return records, count - total
    lines = np.sort(np.append(records.lines, [e.line for e in records.errors]))
    stop = int(lines[count])
    num = int((records.lines < stop).sum())
    columns, rows = records.columns, records.rows
    limited = replace(
        records,
        lines=records.lines[:num],
        offsets=records.offsets[:num],
        next_line=stop,
        columns=None if columns is None else {k: v[:num] for k, v in columns.items()},
        rows=None if rows is None else rows[:num],
        errors=[e for e in records.errors if e.line < stop],
    )
    return limited, 0


def _first_error(batch: Processed, plan: Plan, piece: Piece) -> str:
    error = batch.errors[0]
    source = plan.sources[piece.source]
    first_line = piece.first_line
    if first_line < 0:
        first_line = lines_before(source, piece)
    place = f"{format_of(source.kind).unit} {first_line + error.line + 1} of {source.path}"
    if error.offset >= 0:
        place += f" (byte {error.offset})"
    return (
        f"{place}: {error.reason}. To leave bad records out, --on-error skip; "
        "to list them too, --on-error quarantine"
    )


def _remove_leftovers(stem: Path, number: int) -> None:
    """What a killed worker left of the shard it was writing."""
    for role in FILES:
        path = shard_path(stem, number, role)
        for leftover in (path, temporary(path)):
            leftover.unlink(missing_ok=True)
    temporary(marker_path(stem, number)).unlink(missing_ok=True)


def begin(work: Path) -> RunJob:
    plan = msgspec.json.decode((work / PLAN).read_bytes(), type=Plan)
    selection = json.loads((work / ENGINE).read_bytes())
    engine = SampledEngine(load_engine(selection, plan.vocabulary.files))

    def run(job: int, send: Send) -> Commit:
        return run_task(plan.tasks[job], plan, engine, work, send)

    return run
