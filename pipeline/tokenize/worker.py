"""One worker of `dataprep tokenize`: read -> documents -> shards.

Every process that runs tasks calls `begin`, whatever started it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from dataprep.pipeline.documents.process import Processed
from dataprep.pipeline.documents.rules import keys_wanted
from dataprep.pipeline.documents.together import (
    PieceLines,
    PieceRecords,
    gather,
    process_together,
)
from dataprep.pipeline.engine import Selection, find_unencodable, load_engine
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.jobs.commits import (
    Cursor,
    is_done,
    read_markers,
    remove_leftovers,
    stem_of,
)
from dataprep.pipeline.jobs.plans import read_plan
from dataprep.pipeline.jobs.progress import Reporter
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.jobs.worker import Commit, RunJob, Send
from dataprep.pipeline.sources import format_of, lines_before, read_piece
from dataprep.pipeline.tokenize.plan import TokenizePlan, rules_of
from dataprep.pipeline.tokenize.sample import SampledEngine
from dataprep.pipeline.tokenize.sink import FILES, DocumentsMarker, ShardSink
from dataprep.pipeline.types import Records, Task

ENGINE = "engine.json"


def run_task(
    task: Task, plan: TokenizePlan, engine: SampledEngine, work: Path, send: Send
) -> Commit:
    """Read the task's pieces and write its shards, after those that are already there.

    Return the function that commits the last shard.
    """
    stem = stem_of(work, task_name(task))
    done = read_markers(stem, DocumentsMarker)
    if is_done(done):
        return lambda: None
    remove_leftovers(stem, len(done), FILES.values())
    cursor = done[-1].cursor if done else Cursor()
    pieces = tuple(piece.source for piece in task.pieces)
    sink = ShardSink(stem, pieces, plan.masks, plan.config.shard_bytes, done=done)
    report = Reporter(task.index, send)
    engine.begin_task()
    remaining = task.limit - sum(t.read for s in done for t in s.tallies.values())
    for group in gather(_read(task, plan, cursor, remaining)):
        batch, lines = process_together(group, engine, find_unencodable)
        if batch.errors and plan.config.on_error == "fail":
            raise InputError(_first_error(batch, lines, plan, task))
        sink.add(batch, lines)
        report.count(
            documents=len(batch.origins),
            tokens=len(batch.documents.tokens),
            num_bytes=batch.num_bytes,
            errors=len(batch.errors),
        )
    report.flush()
    send({"type": "sample", "sample": engine.take_sample()})
    return sink.finish()


def _read(task: Task, plan: TokenizePlan, cursor: Cursor, remaining: int) -> Iterator[PieceRecords]:
    """Yield the task's records from `cursor` on; if it has a limit, `remaining` of them."""
    rules_by_input = lru_cache(maxsize=None)(partial(rules_of, plan))
    for place in range(cursor.piece, len(task.pieces)):
        piece = task.pieces[place]
        rules = rules_by_input(plan.inputs[piece.source])
        for records in read_piece(
            plan.sources[piece.source],
            piece,
            keys_wanted(rules),
            from_line=cursor.line if place == cursor.piece else 0,
            max_record_bytes=plan.config.max_record_bytes,
            held_by=rules.grammar.holds,
        ):
            if task.limit >= 0:
                records, remaining = _take(records, remaining)
            yield PieceRecords(place=place, piece=piece, rules=rules, records=records)
            if task.limit >= 0 and remaining <= 0:
                return


def _take(records: Records, count: int) -> tuple[Records, int]:
    """Return the first `count` records of a batch, and how many are still wanted after it."""
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


def _first_error(batch: Processed, lines: PieceLines, plan: TokenizePlan, task: Task) -> str:
    error = batch.errors[0]
    ((_, place_of_piece, number),) = lines.within(error.line, error.line + 1)
    piece = task.pieces[place_of_piece]
    source = plan.sources[piece.source]
    first_line = piece.first_line
    if first_line < 0:
        first_line = lines_before(source, piece)
    place = f"{format_of(source.kind).unit} {first_line + number} of {source.path}"
    if error.offset >= 0:
        place += f" (byte {error.offset})"
    return (
        f"{place}: {error.reason}. To leave bad records out, set --on-error skip; "
        "to list them too, set --on-error quarantine"
    )


def begin(work: Path) -> RunJob:
    """Load what every task needs; return the function that runs one."""
    plan = read_plan(work, TokenizePlan)
    engine = SampledEngine(load_engine(read_plan(work, Selection, ENGINE), plan.vocabulary.files))

    def run(job: int, send: Send) -> Commit:
        return run_task(plan.tasks[job], plan, engine, work, send)

    return run
