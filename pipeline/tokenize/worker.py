"""One worker of `dataprep tokenize`: read -> documents -> shards.

Every process that runs tasks calls `begin`, whatever started it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
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
from dataprep.pipeline.engine import Selection, load_engine
from dataprep.pipeline.errors import DataprepError, InputError, ResourceError
from dataprep.pipeline.jobs.accounts import LEAVE_OUT, examples_of, num_bad
from dataprep.pipeline.jobs.commits import (
    Cursor,
    is_done,
    markers_to_go_on,
    remove_leftovers,
    stem_of,
)
from dataprep.pipeline.jobs.plans import TaskPlans, read_plan
from dataprep.pipeline.jobs.poison import TaskPoison, poison_of
from dataprep.pipeline.jobs.progress import Example, Reporter
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.jobs.worker import Commit, Message, RunJob, Send, at
from dataprep.pipeline.sources import format_of, lines_before, read_piece
from dataprep.pipeline.tokenize.careful import apart, between, span_of
from dataprep.pipeline.tokenize.plan import TokenizePlan, rules_of, special_in_text
from dataprep.pipeline.tokenize.sample import NoTexts, SampledEngine
from dataprep.pipeline.tokenize.sink import FILES, DocumentsMarker, ShardSink
from dataprep.pipeline.tokenize.told import TaskPlan
from dataprep.pipeline.types import Records, Source, Task

ENGINE = "engine.json"


def run_task(
    planned: TaskPlan, plan: TokenizePlan, engine: SampledEngine, work: Path, send: Send
) -> Commit:
    """Read the task's pieces and write its shards, after those that are already there.

    Return the function that commits the last shard.
    """
    task = planned.task
    assert task is not None, "these are sources of no task"
    stem = stem_of(work, task_name(task))
    done = markers_to_go_on(stem, DocumentsMarker)
    if is_done(done):
        return lambda: None
    remove_leftovers(stem, len(done), FILES.values())
    cursor = done[-1].cursor if done else Cursor()
    pieces = tuple(piece.source for piece in task.pieces)
    sink = ShardSink(
        stem,
        pieces,
        plan.masks,
        plan.config.shard_bytes,
        done=done,
        has_keys=plan.config.keys is not None,
    )
    report = Reporter(task.index, send, errors=num_bad(done), examples=examples_of(done))
    engine.begin_task()
    remaining = task.limit - sum(marker.num_records for marker in done)
    poison = poison_of(work, task.index)
    groups = gather(_read(task, planned, plan, cursor, remaining))
    for group, alone in chain.from_iterable(apart(group, poison) for group in groups):
        send(_whereabouts(group, alone, poison))
        batch, lines = process_together(group, engine)
        send(at(None))
        examples = _places(batch, lines)
        if batch.errors and plan.config.on_error == "fail":
            raise _refusal(planned.sources, task, next(examples), batch.errors[0].offset, poison)
        sink.add(batch, lines)
        report.count(
            documents=len(batch.origins),
            tokens=len(batch.documents.tokens),
            num_bytes=batch.num_bytes,
            errors=len(batch.errors),
            by_reference=engine.take_by_reference(),
            examples=examples,
        )
    report.flush()
    send({"type": "sample", "sample": engine.take_sample()})
    return sink.finish()


def _whereabouts(group: Sequence[PieceRecords], alone: bool, poison: TaskPoison) -> Message:
    """Return the message that says what is worked on: nothing, if there are only bad records."""
    span = span_of(group)
    if any(len(item.records.lines) for item in group):
        return at(span, alone=alone)
    return at(None, skips=span[0] in poison.records)


def _read(
    task: Task, planned: TaskPlan, plan: TokenizePlan, cursor: Cursor, remaining: int
) -> Iterator[PieceRecords]:
    """Yield the task's records from `cursor` on; if it has a limit, `remaining` of them."""
    rules_by_input = lru_cache(maxsize=None)(partial(rules_of, plan))
    for place in range(cursor.piece, len(task.pieces)):
        piece = task.pieces[place]
        source = planned.sources[piece.source]
        rules = rules_by_input(planned.inputs[piece.source])
        for records in read_piece(
            source,
            piece,
            keys_wanted(rules),
            from_line=cursor.line if place == cursor.piece else 0,
            max_record_bytes=plan.config.max_record_bytes,
            held_by=rules.held_by,
        ):
            if task.limit >= 0:
                records, remaining = take_records(records, remaining)
            yield PieceRecords(
                place=place,
                piece=piece,
                rules=rules,
                records=records,
                source=source.fingerprint,
            )
            if task.limit >= 0 and remaining <= 0:
                return


def take_records(records: Records, count: int) -> tuple[Records, int]:
    """Return the first `count` records of a batch, and how many are still wanted after it."""
    total = len(records.lines) + len(records.errors)
    if total <= count:
        return records, count - total
    lines = np.sort(np.append(records.lines, [e.line for e in records.errors]))
    return between(records, 0, int(lines[count])), 0


def _places(batch: Processed, lines: PieceLines) -> Iterator[Example]:
    """Yield the bad records of a batch: their piece, their line in it, and the reason."""
    for error in batch.errors:
        ((_, piece, number),) = lines.within(error.line, error.line + 1)
        yield piece, number - 1, error.reason


def _refusal(
    sources: Mapping[int, Source], task: Task, record: Example, offset: int, poison: TaskPoison
) -> DataprepError:
    """Return the error that ends the run at a bad record."""
    piece, line, reason = record
    place = name_record(sources, task, piece, line)
    known = poison.records.get((piece, line))
    lacks_memory = known is not None and known.lacks_memory
    more = "; use fewer --workers, or give the run more memory" if lacks_memory else ""
    return (ResourceError if lacks_memory else InputError)(
        f"{bad_record(place, offset, reason)}{more}. {LEAVE_OUT}"
    )


def bad_record(place: str, offset: int, reason: str) -> str:
    """
    >>> bad_record("line 2 of a.jsonl", 17, "field 'text' is missing")
    "line 2 of a.jsonl (byte 17): field 'text' is missing"
    """
    return f"{place} (byte {offset}): {reason}" if offset >= 0 else f"{place}: {reason}"


def name_record(
    sources: Mapping[int, Source] | Sequence[Source], task: Task, piece: int, line: int
) -> str:
    """Return the place of a record for messages: line 17 of books.jsonl."""
    part = task.pieces[piece]
    source = sources[part.source]
    first_line = part.first_line if part.first_line >= 0 else lines_before(source, part)
    return f"{format_of(source.kind).unit} {first_line + line + 1} of {source.path}"


def engine_of(plan: TokenizePlan, selection: Selection) -> SampledEngine:
    """Load the engine; for token ids alone a stand-in, as the tokenizer takes a second to load."""
    files = plan.vocabulary.files
    engine = load_engine(selection, files) if plan.has_texts else NoTexts()
    return SampledEngine(engine, special_in_text(plan.config, plan.vocabulary))


def begin(work: Path) -> RunJob:
    """Load what every task needs; return the function that runs one."""
    plan, tasks = read_plan(work, TokenizePlan), TaskPlans(work, TaskPlan)
    engine = engine_of(plan, read_plan(work, Selection, ENGINE))

    def run(job: int, send: Send) -> Commit:
        return run_task(tasks[job], plan, engine, work, send)

    return run
