"""One worker process of `dataprep encode`: read -> decode -> encode -> write.

Started as `python -m dataprep.pipeline.encode_worker WORK PARENT`. A task gives one or more shards
and a killed one goes on from its last.

    items ─► frames ─► batches of the encoder's size ─► codes of each record ─► shard

Batches are cut within a shard, in the order of the records: which pictures are computed together
depends on the input alone.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from dataprep.pipeline.encode_plan import EncodePlan
from dataprep.pipeline.encode_shards import (
    ENDINGS,
    SOURCE,
    CodeColumn,
    OpenShard,
    committed_shards,
    marker_file,
    seal,
    shard_file,
    task_stem,
)
from dataprep.pipeline.encoders import AudioEncoder, Encoder, ImageEncoder, open_encoder
from dataprep.pipeline.encoders.interface import Codes
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.files import temporary
from dataprep.pipeline.media import (
    Decoded,
    Entry,
    Item,
    PictureRules,
    SoundRules,
    decode_item,
    read_items,
)
from dataprep.pipeline.media.decode import Frame
from dataprep.pipeline.serve import Commit, RunJob, Send, serve
from dataprep.pipeline.shards import Cursor
from dataprep.pipeline.types import Task

PLAN = "plan.json"
PROGRESS_SECONDS = 0.3
SHARD_CODES = 1 << 25  # a shard of long videos ends before it has all its records

T = TypeVar("T")
R = TypeVar("R")


def entries_path(work: Path, source: int) -> Path:
    return work / f"entries-{source:05d}.json"


class Listings:
    """The files of folders and tars, each list read when it is first needed."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._read: dict[int, list[Entry]] = {}

    def of(self, source: int) -> list[Entry]:
        if source not in self._read:
            path = entries_path(self._work, source)
            data = path.read_bytes() if path.exists() else b"[]"
            self._read[source] = msgspec.json.decode(data, type=list[Entry])
        return self._read[source]


def run_task(
    task: Task, plan: EncodePlan, encoder: Encoder, listings: Listings, work: Path, send: Send
) -> Commit:
    """Write the task's shards, going on from those already there; what is given commits the last."""
    stem = task_stem(work, task)
    done = committed_shards(stem)
    if done and done[-1].final:
        return lambda: None
    number = len(done)
    _remove_leftovers(stem, number)
    cursor = done[-1].cursor if done else Cursor()
    items = _items(task, plan, listings, cursor)
    if task.limit >= 0:
        taken = sum(tally.read for shard in done for tally in shard.tallies.values())
        items = islice(items, task.limit - taken)
    rules = rules_of(plan, encoder)
    column = column_of(plan, encoder)
    report = _Reporter(send)
    with decoded_in_order(items, rules, plan.decode_threads) as stream:
        while True:
            filling = Filling(plan, encoder, task, cursor, report)
            is_full = filling.take(stream)
            commit = seal(
                filling.shard,
                stem,
                number,
                column=column,
                cursor=filling.cursor,
                final=not is_full,
            )
            if not is_full:
                report.flush()
                return commit
            commit()
            number, cursor = number + 1, filling.cursor


@dataclass(slots=True)
class _Pending:
    """Frames that wait for their batch."""

    frames: list[Frame] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # number of the record of each


class Filling:
    """A shard as it fills: records in, their codes and columns or their errors kept."""

    def __init__(
        self,
        plan: EncodePlan,
        encoder: Encoder,
        task: Task,
        cursor: Cursor,
        report: _Reporter,
    ) -> None:
        self.shard = OpenShard()
        self.cursor = cursor
        self._plan = plan
        self._encoder = encoder
        self._task = task
        self._report = report
        self._pending = _Pending()
        self._codes: list[list[Codes]] = []  # of each record, good or bad

    def take(self, stream: Iterator[tuple[int, Decoded]]) -> bool:
        """Fill the shard from the stream; whether it was full before the stream ended."""
        taken: list[tuple[int, Decoded, str]] = []
        num_codes = 0
        is_full = False
        for piece, decoded in stream:
            reason = decoded.reason or self._encode(decoded, len(taken))
            if reason:
                self._refuse(decoded.item, reason)
            taken.append((piece, decoded, reason))
            self.cursor = Cursor(piece=piece, line=decoded.item.line + 1)
            num_codes += sum(part.size for part in self._codes[-1])
            is_full = len(taken) >= self._plan.config["shard_records"] or num_codes >= SHARD_CODES
            if is_full:
                break
        self._flush()
        for i, (piece, decoded, reason) in enumerate(taken):
            self._keep(i, piece, decoded, reason)
        return is_full

    def _encode(self, decoded: Decoded, record: int) -> str:
        """Send the record on its way; why it could not be, or an empty string."""
        self._codes.append([])
        if decoded.waveform is not None:
            encoder = cast(AudioEncoder, self._encoder)
            self._codes[record].append(encoder.encode(decoded.waveform))
            return ""
        try:
            for frame in decoded.frames:
                self._pending.frames.append(frame)
                self._pending.owners.append(record)
                if len(self._pending.frames) == cast(ImageEncoder, self._encoder).batch_size:
                    self._flush()
        except ValueError as error:
            return str(error)
        return ""
