"""One worker of `dataprep encode`: read -> decode -> encode -> write.

A task gives one or more shards; if it was killed, it continues after the last one. Batches are cut
within a shard, in the order of the records: which pictures are encoded together depends only on
the input.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from dataprep.pipeline.encode.careful import Whereabouts, tried
from dataprep.pipeline.encode.kinds import KINDS
from dataprep.pipeline.encode.plan import EncodePlan, Planned
from dataprep.pipeline.encode.tables import (
    ENDINGS,
    SOURCE,
    VARIANT,
    CodeColumn,
    CodesMarker,
    OpenShard,
    prepare_commit,
)
from dataprep.pipeline.encoders import Encoder, find_weights, open_encoder
from dataprep.pipeline.encoders.interface import Codes
from dataprep.pipeline.errors import ConfigError, DataprepError, InputError, ResourceError
from dataprep.pipeline.guards.excerpts import excerpt_of
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.jobs.accounts import LEAVE_OUT, examples_of, num_bad
from dataprep.pipeline.jobs.commits import (
    Cursor,
    is_done,
    markers_to_go_on,
    remove_leftovers,
    stem_of,
)
from dataprep.pipeline.jobs.plans import read_plan
from dataprep.pipeline.jobs.poison import PoisonRecord, TaskPoison, poison_of
from dataprep.pipeline.jobs.progress import EXAMPLES, Reporter
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.jobs.worker import Commit, RunJob, Send
from dataprep.pipeline.media import (
    Decoded,
    Entry,
    Item,
    Stream,
    decode_ahead,
    decode_item,
    is_listed,
    read_items,
)
from dataprep.pipeline.sources.makers import Maker, passed_on, read_made
from dataprep.pipeline.types import Task

SHARD_CODES = 1 << 25  # so that a shard of long videos does not grow too large


def entries_name(source: int) -> str:
    """Return the name of the file that lists a folder or tar during the run."""
    return f"entries-{source:05d}.json"


def _check_weights(plan: EncodePlan) -> None:
    """Raise if the weights that were loaded just now are not those that were planned with."""
    if plan.weights is not None and find_weights(plan.weights.path, None) != plan.weights:
        raise InputError(
            f"the weights {plan.weights.path} changed while the run was on; run the same command "
            "again with the weights that it began with, or start anew with --overwrite"
        )


class EncodeTasks:
    """Run the tasks of one plan; what they share is loaded once."""

    def __init__(self, plan: EncodePlan, work: Path) -> None:
        config = plan.config
        self._plan = plan
        self._work = work
        self._encoder = open_encoder(config.encoder, config.settings, plan.weights)
        _check_weights(plan)
        self._kind = KINDS[plan.kind]
        self._rules = self._kind.rules(config, self._encoder)
        self._column = column_of(plan, self._encoder)
        self._maker = maker_of(plan, self._encoder)
        self._made: dict[int, tuple[Maker, ...]] = {}  # by source, as they are needed
        self._entries: dict[int, list[Entry]] = {}  # by source, as they are needed

    def run(self, task: Task, send: Send) -> Commit:
        """Write the task's shards, after those already there; return what commits the last."""
        stem = stem_of(self._work, task_name(task))
        done = markers_to_go_on(stem, CodesMarker)
        if is_done(done):
            return lambda: None
        number = len(done)
        remove_leftovers(stem, number, ENDINGS.values())
        cursor = done[-1].cursor if done else Cursor()
        items = self._items(task, cursor)
        if task.limit >= 0:
            taken = sum(tally.read for shard in done for tally in shard.tallies.values())
            items = islice(items, task.limit * self._plan.num_variants - taken)
        poison, whereabouts = poison_of(self._work, task.index), Whereabouts(send)
        # Suspects are tried alone, so nothing else may be decoded meanwhile.
        threads = 1 if poison.suspects else self._plan.decode_threads
        items = tried(items, poison, partial(self._try_alone, whereabouts), whereabouts)
        stream: Stream = decode_ahead(items, self._rules, threads)
        report = Reporter(task.index, send, errors=num_bad(done), examples=examples_of(done))
        while True:
            whereabouts.begin_shard(cursor)
            shard, cursor = self._fill(stream, task, cursor, report, whereabouts, poison)
            following = next(stream, None)
            commit = prepare_commit(
                shard,
                stem,
                number,
                column=self._column,
                makers=self._makers(shard),
                cursor=cursor,
                final=following is None,
            )
            if following is None:
                report.flush()
                return commit
            commit()
            stream = chain([following], stream)
            number += 1

    def _items(self, task: Task, cursor: Cursor) -> Iterator[tuple[int, Item]]:
        column = _filled(self._plan.config.column)
        for place in range(cursor.piece, len(task.pieces)):
            piece = task.pieces[place]
            source = self._plan.sources[piece.source]
            from_line = cursor.line if place == cursor.piece else 0
            variants = self._plan.num_variants
            entries: list[Entry] = []
            if is_listed(source):
                entries = self._entries_of(piece.source)
                assert piece.stop <= len(entries), f"the list of {source.path} is too short"
            items = read_items(
                source,
                piece,
                entries,
                column,
                from_line=from_line // variants,
                allow_outside=self._plan.config.allow_outside,
            )
            for item in in_variants(items, self._plan, from_line):
                yield place, item

    def _entries_of(self, source: int) -> list[Entry]:
        if source not in self._entries:
            self._entries[source] = read_plan(self._work, list[Entry], entries_name(source))
        return self._entries[source]

    def _try_alone(self, whereabouts: Whereabouts, item: Item) -> None:
        """Decode and encode a record for nothing: if it is poison, the worker dies now."""
        decoded = decode_item(item, self._rules)
        encoding = self._kind.encoding(self._encoder)
        with suppress(ValueError):  # a bad record, which is told when it is its turn
            if not decoded.reason:
                encoding.add(0, replace(decoded, frames=whereabouts.watched(decoded.frames)))
                encoding.finish()

    def _fill(
        self,
        stream: Stream,
        task: Task,
        cursor: Cursor,
        report: Reporter,
        whereabouts: Whereabouts,
        poison: TaskPoison,
    ) -> tuple[OpenShard, Cursor]:
        """Return a shard of the next records, and where to continue after them."""
        shard = OpenShard()
        encoding = self._kind.encoding(self._encoder)
        kept: list[tuple[int, int, dict[str, Any]]] = []  # record, source, columns
        num_codes = 0
        for record, (place, decoded) in enumerate(stream):
            cursor = Cursor(piece=place, line=decoded.item.line + 1)
            source = task.pieces[place].source
            shard.tally(source).read += 1
            new_codes = 0
            reason = decoded.reason
            if not reason:
                try:
                    watched = replace(decoded, frames=whereabouts.watched(decoded.frames))
                    new_codes = encoding.add(record, watched)
                    kept.append((record, source, self._columns(decoded)))
                except ValueError as error:
                    reason = redacted(str(error))
            if reason:
                self._refuse(decoded.item, reason, poison.records.get((place, decoded.item.line)))
                shard.tally(source).bad += 1
                shard.errors.append(_listed(decoded.item, reason))
                if len(shard.examples) < EXAMPLES:
                    shard.examples.append((place, decoded.item.line, reason))
            num_codes += new_codes
            report.count(
                documents=not reason,
                tokens=new_codes,
                num_bytes=decoded.item.num_bytes,
                errors=bool(reason),
                examples=[(place, decoded.item.line, reason)] if reason else (),
            )
            if record + 1 >= self._plan.config.shard_records or num_codes >= SHARD_CODES:
                break
        encoding.finish()
        for record, source, columns in kept:
            self._add_codes(shard, encoding.codes_of(record), source, columns)
        return shard, cursor

    def _add_codes(
        self, shard: OpenShard, codes: Codes, source: int, columns: dict[str, Any]
    ) -> None:
        shard.codes.append(codes)
        shard.columns.append(columns)
        shard.sources.append(source)
        tally = shard.tally(source)
        tally.written += 1
        tally.frames += codes.shape[self._kind.frame_axis]
        tally.codes += codes.size

    def _columns(self, decoded: Decoded) -> dict[str, Any]:
        keep, into = self._plan.config.keep, _filled(self._plan.config.into)
        columns = {
            name: value
            for name, value in decoded.columns.items()
            if keep is None or any(fnmatchcase(name, glob) for glob in keep)
        }
        if into in columns:
            raise ConfigError(
                f"{decoded.item.place} has a column {into!r} of its own; name another for the "
                "codes with --into, or leave that one out with --keep"
            )
        made: dict[str, Any] = {SOURCE: decoded.item.source}
        if self._plan.config.augment is not None:
            if VARIANT in columns:
                raise ConfigError(
                    f"{decoded.item.place} has a column {VARIANT!r} of its own, which augment "
                    "makes; leave that one out with --keep"
                )
            made[VARIANT] = decoded.item.variant
        return {**made, **columns}

    def _makers(self, shard: OpenShard) -> set[Maker]:
        """Return what made the codes of a shard: this encoder, and those of kept columns."""
        for i in set(shard.sources) - set(self._made):
            source = self._plan.sources[i]
            self._made[i] = () if is_listed(source) else read_made(source).makers
        made = (self._made[i] for i in shard.sources)
        return {self._maker, *passed_on(zip(shard.columns, made, strict=True))}

    def _refuse(self, item: Item, reason: str, poison: PoisonRecord | None) -> None:
        if self._plan.config.on_error == "fail":
            lacks_memory = poison is not None and poison.lacks_memory
            raise refusal(item, reason, ResourceError if lacks_memory else InputError)


def in_variants(items: Iterable[Item], plan: EncodePlan, from_line: int) -> Iterator[Item]:
    """Yield each item once for each of its variants, which are lines of their own, from a line on.

    lines   0 1 2 | 3 4 5     with 3 variants of each of two pictures
    """
    augment = plan.config.augment
    if augment is None:
        yield from items
        return
    for item in items:
        for line, variant in enumerate(augment.numbers, item.line * len(augment.numbers)):
            if line >= from_line:
                yield replace(item, line=line, variant=variant)


def refusal(item: Item, reason: str, kind: type[DataprepError] = InputError) -> DataprepError:
    """Return the error that ends a run at a bad record."""
    return kind(f"{item.place}: {reason}. {LEAVE_OUT}")


def _filled(value: str | None) -> str:
    """Return the value of a config key that the plan has filled in."""
    assert value is not None
    return value


def _listed(item: Item, reason: str) -> dict[str, Any]:
    """Return the line of errors.jsonl; `line` is null if the record is a whole file."""
    return {
        "file": item.file,
        "line": item.number,
        "byte_offset": item.offset,
        "reason": reason,
        "excerpt": item.excerpt or (excerpt_of(item.columns) if item.columns else ""),
    }


def name_record(planned: Planned, task: int, piece: int, line: int) -> str:
    """Return the place of a record for messages: cats/tom.jpg, or line 17 of books.jsonl."""
    plan = planned.plan
    part = plan.tasks[task].pieces[piece]
    entries = planned.found[part.source].entries
    source, column = plan.sources[part.source], _filled(plan.config.column)
    from_line = line // plan.num_variants
    return next(read_items(source, part, entries, column, from_line=from_line)).place


def column_of(plan: EncodePlan, encoder: Encoder) -> CodeColumn:
    return CodeColumn(
        name=_filled(plan.config.into),
        codebook_size=encoder.codebook_size,
        is_nested=KINDS[plan.kind].codebooks(encoder) > 1,
    )


def maker_of(plan: EncodePlan, encoder: Encoder) -> Maker:
    return Maker(
        column=_filled(plan.config.into),
        kind=plan.kind,
        encoder=plan.config.encoder,
        codebook_size=encoder.codebook_size,
        **KINDS[plan.kind].frame(encoder),
    )


def begin(work: Path) -> RunJob:
    """Load what every task needs; return the function that runs one."""
    # Libraries warn about large or odd pictures; those that are bad raise an error.
    warnings.simplefilter("ignore")
    plan = read_plan(work, EncodePlan)
    tasks = EncodeTasks(plan, work)

    def run(job: int, send: Send) -> Commit:
        return tasks.run(plan.tasks[job], send)

    return run
