"""Read the first records of every source, and tell by them what the whole will become.

    sources   a.jsonl 800 MB, b.parquet 200 MB
    sample    the first 64 kB of each: documents, tokens, bad records, CPU seconds
    all       tokens, bytes on disk and seconds in the same proportion

Nothing is written. The reference encodes the sample, so that no engine must be proven for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.lookup import find_value
from dataprep.pipeline.documents.process import Processed
from dataprep.pipeline.documents.rules import Rules, blocks_of, keys_wanted
from dataprep.pipeline.documents.together import PieceRecords, gather, process_together
from dataprep.pipeline.engine import load_reference
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.sources import read_piece
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, index_dtype, take_tokens
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN
from dataprep.pipeline.tokenize.plan import TokenizePlan, rules_of, special_in_text
from dataprep.pipeline.tokenize.sample import SampledEngine
from dataprep.pipeline.tokenize.worker import LEAVE_OUT, bad_record, name_record, take_records
from dataprep.pipeline.types import Piece, Record, Records

SAMPLE_BYTES = 1 << 16  # of each source
SHOWN_TOKENS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The first document, or its beginning."""

    place: str  # line 1 of a.jsonl
    num_tokens: int
    arrays: Mapping[str, NDArray[Any]]  # tokens, loss_mask, …
    blocks: Mapping[str, Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What the sample holds, and what all of it will be, if the rest is like it."""

    documents: int
    tokens: int
    empty: int
    bad: int
    first_bad: str  # place and reason, or ''
    never_there: tuple[str, ...]  # optional fields that none of these records has
    example: Example | None
    all_tokens: int | None  # None: the size of a source is not known
    all_bytes: int | None  # on disk
    cpu_seconds: float | None  # of one core, with the reference


def preview_of(plan: TokenizePlan) -> Preview:
    """Read and tokenize the sample; raise for a bad record, as the run would."""
    began = time.process_time()
    sample = _Sample(plan)
    engine = SampledEngine(
        load_reference(plan.vocabulary.files), special_in_text(plan.config, plan.vocabulary)
    )
    loaded = time.process_time()
    for group in gather(_first_batches(plan)):
        for item in group:
            sample.look_for_optional(item)
        batch, lines = process_together(group, engine)
        owners = lines.owners(batch.origins["line"])
        sample.add(batch, [item.place for item in group], owners, lines.firsts)
    return sample.preview(loaded - began, time.process_time() - loaded)


def _first_batches(plan: TokenizePlan) -> Iterator[PieceRecords]:
    """Yield a batch of every source; its place is the number of the source."""
    rules_by_input = lru_cache(maxsize=None)(partial(rules_of, plan))
    seen: set[int] = set()
    for task in plan.tasks:
        left = task.limit if task.limit >= 0 else sys.maxsize
        for piece in task.pieces:
            if piece.source in seen or not left:
                continue
            seen.add(piece.source)
            rules = rules_by_input(plan.inputs[piece.source])
            for records in islice(_read(plan, piece, rules), 1):
                part, left = take_records(records, left)
                yield PieceRecords(
                    place=piece.source,
                    piece=piece,
                    rules=rules,
                    records=part,
                    source=plan.sources[piece.source].fingerprint,
                )


def _read(plan: TokenizePlan, piece: Piece, rules: Rules) -> Iterator[Records]:
    return read_piece(
        plan.sources[piece.source],
        piece,
        keys_wanted(rules),
        batch_bytes=SAMPLE_BYTES,
        max_record_bytes=plan.config.max_record_bytes,
        held_by=rules.grammar.holds,
    )


class _Sample:
    """Adds up what the batches of the sample become."""

    def __init__(self, plan: TokenizePlan) -> None:
        self._plan = plan
        self._first_of = {
            piece.source: (task.index, place)
            for task in reversed(plan.tasks)
            for place, piece in reversed([*enumerate(task.pieces)])
        }
        self._documents = self._tokens = self._empty = self._bad = 0
        self._num_bytes = np.zeros(len(plan.sources))
        self._tokens_of = np.zeros(len(plan.sources))
        self._documents_of = np.zeros(len(plan.sources))
        self._first_bad = ""
        self._optional: dict[str, bool] = {}  # keys that may be absent: is any there?
        self._example: Example | None = None

    def add(
        self,
        batch: Processed,
        sources: list[int],
        owners: NDArray[Any],
        firsts: NDArray[Any],
    ) -> None:
        documents = batch.documents
        lengths = np.diff(documents.ends, prepend=0)
        self._documents += len(lengths)
        self._tokens += len(documents.tokens)
        self._empty += len(batch.empty_lines)
        self._bad += len(batch.errors)
        share = batch.num_bytes / max(1, len(sources))
        for number, source in enumerate(sources):
            self._num_bytes[source] += share
            self._tokens_of[source] += lengths[owners == number].sum()
            self._documents_of[source] += np.count_nonzero(owners == number)
        if batch.errors and not self._first_bad:
            error = batch.errors[0]
            owner = int(np.searchsorted(firsts, error.line, side="right")) - 1
            place = self._name(sources[owner], error.line - int(firsts[owner]))
            self._first_bad = bad_record(place, error.offset, error.reason)
            if self._plan.config.on_error == "fail":
                raise InputError(f"{self._first_bad}. {LEAVE_OUT}")
        if len(lengths) and self._example is None:
            owner = int(owners[0])
            line = int(batch.origins["line"][0]) - int(firsts[owner])
            self._example = self._shown(batch, self._name(sources[owner], line))

    def look_for_optional(self, item: PieceRecords) -> None:
        """Note which of the optional fields the records of a batch have."""
        for key in sorted({key for field in item.rules.fields for key in field.optional}):
            if not self._optional.get(key) and len(item.records.lines):
                rows = item.records.as_rows()
                found = any(_has(row, key) or _has(row, f"{key}?") for row in rows)
                self._optional[key] = found

    def _name(self, source: int, line: int) -> str:
        task, piece = self._first_of[source]
        return name_record(self._plan, task, piece, line)

    def _shown(self, batch: Processed, place: str) -> Example:
        num_tokens = int(batch.documents.ends[0])
        tokens, masks = take_tokens(batch.documents, 0, min(num_tokens, SHOWN_TOKENS))
        names = [MASKS[mask].array for mask in self._plan.masks]
        arrays = {"tokens": tokens, **dict(zip(names, masks, strict=True))}
        weights = arrays.pop(MASKS["weight"].array, None)
        if weights is not None:
            arrays[MASKS["weight"].array] = weights.astype(np.float32) * arrays["loss_mask"]
        blocks = blocks_of(self._plan.config, self._plan.vocabulary, wraps=True)
        return Example(place=place, num_tokens=num_tokens, arrays=arrays, blocks=blocks)

    def preview(self, loading: float, encoding: float) -> Preview:
        all_tokens = self._all_tokens()
        all_bytes = seconds = None
        if all_tokens is not None:
            each = index_dtype(self._plan.masks).itemsize + DOCUMENT_ORIGIN.itemsize
            documents = all_tokens * self._documents / max(1, self._tokens)
            width = TOKEN_DTYPES[self._plan.token_dtype].itemsize
            all_bytes = round(all_tokens * width + documents * each)
            seconds = loading + encoding * all_tokens / max(1, self._tokens)
        return Preview(
            documents=self._documents,
            tokens=self._tokens,
            empty=self._empty,
            bad=self._bad,
            first_bad=self._first_bad,
            never_there=tuple(key for key, found in self._optional.items() if not found),
            example=self._example,
            all_tokens=all_tokens,
            all_bytes=all_bytes,
            cpu_seconds=seconds,
        )

    def _all_tokens(self) -> int | None:
        """Return the tokens of all tasks, each in the proportion of its sources' samples."""
        total = 0.0
        for task in self._plan.tasks:
            sources = np.array([*{piece.source for piece in task.pieces}])
            if any(self._plan.sources[source].num_bytes < 0 for source in sources.tolist()):
                return None
            num_bytes = self._num_bytes[sources].sum()
            total += task.num_bytes * self._tokens_of[sources].sum() / max(1.0, num_bytes)
        limit = self._plan.config.limit
        if limit is not None:  # documents like those of the first sources
            first = int(np.searchsorted(np.cumsum(self._documents_of), limit)) + 1
            documents = max(1.0, self._documents_of[:first].sum())
            total = min(total, limit * self._tokens_of[:first].sum() / documents)
        return round(total)


def _has(row: Record, key: str) -> bool:
    try:
        return find_value(row, key) is not None
    except ValueError:  # the path leads through something else, which the run refuses
        return True
