"""Read some records of every source, and tell by them what the whole will become.

    sources   a.jsonl 800 MB, b.parquet 200 MB
    sample    64 kB at each of some places of every source (of 512 if there are more), the first
              among them, since the beginning of a corpus need not be like the rest: documents,
              tokens, CPU seconds
    all       tokens, bytes on disk and seconds in the same proportion: by bytes, by what a
              compressed file holds, or by the rows of a table in which texts repeat

Nothing is written. No engine is proven for it: the reference encodes the sample, unless another is
given.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.process import Processed
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.documents.rules import blocks_of, keys_wanted, optional_keys
from dataprep.pipeline.documents.together import PieceRecords, gather, process_together
from dataprep.pipeline.engine import Selection, reference_selection
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.jobs.accounts import LEAVE_OUT
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.sources import content_bytes, count_records, format_of, read_piece
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, document_arrays, index_dtype
from dataprep.pipeline.storage.keys import DOCUMENT_KEY
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN
from dataprep.pipeline.tokenize.plan import TokenizePlan, rules_of
from dataprep.pipeline.tokenize.sample import SampledEngine
from dataprep.pipeline.tokenize.worker import (
    bad_record,
    engine_of,
    name_record,
    take_records,
)
from dataprep.pipeline.types import Piece, Records, Task

SAMPLE_BYTES = 1 << 16  # of each piece that is sampled
MOST_PIECES = 8  # of a source that are sampled, evenly spread
MOST_SOURCES = 512  # that are sampled, evenly spread
SHOWN_TOKENS = 400
LENGTH_BYTES = 4  # that a table stores before each text
MOSTLY = 0.8  # texts that differ

PieceAt = tuple[int, int]  # of a piece: its task, its place in that


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
    never_there: tuple[str, ...]  # optional fields that no record of an input has here
    lengths: NDArray[Any]  # i64[documents]: tokens of each
    example: Example | None
    all_tokens: int | None  # None: the size of a source is not known
    all_bytes: int | None  # on disk
    cpu_seconds: float | None  # of one core, with the engine of the sample
    encoding_seconds: float  # of these, what the sample itself took
    # Standard error of all_tokens, as a part of it: how much the pieces of the sample differ. None:
    # there is only one.
    error: float | None
    places: int  # that were sampled


def preview_of(
    plan: TokenizePlan,
    sample_bytes: int = SAMPLE_BYTES,
    *,
    most_pieces: int = MOST_PIECES,
    selection: Selection | None = None,
) -> Preview:
    """Read and tokenize the sample, by the reference unless another engine is given; raise for a
    bad record, as the run would."""
    began = time.process_time()
    sample = _SampledDocuments(plan, most_pieces)
    engine = engine_of(plan, selection or reference_selection(plan.vocabulary.files))
    loaded = time.process_time()
    once = 0.0  # seconds of what is done once, however many records there are
    for group in gather(_first_batches(plan, sample.pieces, sample_bytes)):
        batch, lines = process_together(group, engine)
        if not once and group[0].rules.chat is not None:
            once = _learning(group, engine, time.process_time() - loaded)
        sample.look_for_optional(group[0], batch)
        owners = lines.owners(batch.origins["line"])
        sample.add(batch, group, owners, lines.firsts)
    ended = time.process_time()
    return sample.preview(loaded - began + once, ended - loaded - once)


def _learning(group: Sequence[PieceRecords], engine: SampledEngine, first: float) -> float:
    """Return the seconds in which a chat template was learned, given those of the first time; they
    are not spent again. Trying that takes as long as what is measured, which counts as well."""
    again = time.process_time()
    process_together(group, engine)
    return max(first - (time.process_time() - again), 0.0) + time.process_time() - again


def _sampled_pieces(plan: TokenizePlan, most: int) -> list[PieceAt]:
    """Return the pieces that are sampled: of every source, or of some if there are very many, the
    first and some after it."""
    by_source: dict[int, list[PieceAt]] = {}
    for task in plan.tasks:
        for place, piece in enumerate(task.pieces):
            by_source.setdefault(piece.source, []).append((task.index, place))
    chosen = list(by_source)[:: -(-len(by_source) // MOST_SOURCES) or 1]
    every = {source: -(-len(by_source[source]) // most) for source in chosen}
    return sorted(at for source in chosen for at in by_source[source][:: every[source]])


def num_places(plan: TokenizePlan, most: int = MOST_PIECES) -> int:
    """Return at how many places the sample is read."""
    return max(len(_sampled_pieces(plan, most)), 1)


def relative_error(sizes: NDArray[Any], values: NDArray[Any]) -> float | None:
    """Return the standard error of the sum of values over that of sizes, as a part of it.

    >>> relative_error(np.array([10, 10]), np.array([4, 6]))
    0.2
    """
    if len(sizes) < 2 or not values.sum() or not sizes.sum():
        return None
    apart = values - values.sum() / sizes.sum() * sizes
    n = len(sizes)
    return float(np.sqrt(n / (n - 1) * (apart**2).sum()) / values.sum())


def _first_batches(
    plan: TokenizePlan, pieces: Sequence[PieceAt], sample_bytes: int
) -> Iterator[PieceRecords]:
    """Yield the first batch of each of these pieces; its place is its number among them."""
    rules_by_input = lru_cache(maxsize=None)(partial(rules_of, plan))
    for index, sampled in groupby(enumerate(pieces), key=lambda item: item[1][0]):
        task = plan.tasks[index]
        left = task.limit if task.limit >= 0 else sys.maxsize
        for number, (_, place) in sampled:
            if not left:
                continue
            piece = task.pieces[place]
            rules = rules_by_input(plan.inputs[piece.source])
            for records in islice(_read(plan, piece, rules, sample_bytes), 1):
                part, left = take_records(records, left)
                yield PieceRecords(
                    place=number,
                    piece=piece,
                    rules=rules,
                    records=part,
                    source=plan.sources[piece.source].fingerprint,
                )


def _read(plan: TokenizePlan, piece: Piece, rules: Rules, sample_bytes: int) -> Iterator[Records]:
    return read_piece(
        plan.sources[piece.source],
        piece,
        keys_wanted(rules),
        batch_bytes=sample_bytes,
        max_record_bytes=plan.config.max_record_bytes,
        held_by=rules.held_by,
    )


class _SampledDocuments:
    """Adds up what the batches of the sample become."""

    def __init__(self, plan: TokenizePlan, most_pieces: int) -> None:
        self._plan = plan
        self.pieces = _sampled_pieces(plan, most_pieces)
        self._documents = self._tokens = self._empty = self._bad = 0
        self._lengths: list[NDArray[Any]] = []
        self._num_bytes = np.zeros(len(plan.sources))
        self._records_of = np.zeros(len(plan.sources))
        self._text_of = np.zeros(len(plan.sources))  # bytes, of tables whose texts differ
        self._tokens_of = np.zeros(len(plan.sources))
        self._documents_of = np.zeros(len(plan.sources))
        self._each: list[tuple[float, float]] = []  # bytes and tokens of each sampled piece
        self._first_bad = ""
        self._optional: dict[tuple[int, str], bool] = {}  # by input and key: is it there?
        self._example: Example | None = None

    def add(
        self,
        batch: Processed,
        group: Sequence[PieceRecords],
        owners: NDArray[Any],
        firsts: NDArray[Any],
    ) -> None:
        documents, sources = batch.documents, [item.piece.source for item in group]
        lengths = np.diff(documents.ends, prepend=0)
        self._documents += len(lengths)
        self._lengths.append(lengths)
        self._tokens += len(documents.tokens)
        self._empty += len(batch.empty_lines)
        self._bad += len(batch.errors)
        for number, source in enumerate(sources):
            records = group[number].records
            is_compressed = bool(self._plan.sources[source].compression)
            num_bytes = _content_of(records) if is_compressed else records.num_bytes
            self._num_bytes[source] += num_bytes
            self._records_of[source] += len(records.lines) + len(records.errors)
            self._text_of[source] += _distinct_text(records)
            self._tokens_of[source] += lengths[owners == number].sum()
            self._each.append((num_bytes, float(lengths[owners == number].sum())))
            self._documents_of[source] += np.count_nonzero(owners == number)
        if batch.errors and not self._first_bad:
            error = batch.errors[0]
            owner = int(np.searchsorted(firsts, error.line, side="right")) - 1
            place = self._name(group[owner].place, error.line - int(firsts[owner]))
            self._first_bad = bad_record(place, error.offset, error.reason)
            if self._plan.config.on_error == "fail":
                raise InputError(f"{self._first_bad}. {LEAVE_OUT}")
        if len(lengths) and self._example is None:
            owner = int(owners[0])
            line = int(batch.origins["line"][0]) - int(firsts[owner])
            self._example = self._shown(batch, self._name(group[owner].place, line))

    def look_for_optional(self, item: PieceRecords, batch: Processed) -> None:
        """Note which of the optional fields the records of a batch have, as those of `item`."""
        if len(batch.origins) + len(batch.empty_lines):
            number = self._plan.inputs[item.piece.source]
            for key in optional_keys(self._plan.config, number):
                found = self._optional.get((number, key), False)
                self._optional[number, key] = found or key in batch.optional

    def _name(self, number: int, line: int) -> str:
        task, piece = self.pieces[number]
        return name_record(self._plan.sources, self._plan.tasks[task], piece, line)

    def _shown(self, batch: Processed, place: str) -> Example:
        num_tokens = int(batch.documents.ends[0])
        stop = min(num_tokens, SHOWN_TOKENS)
        arrays = document_arrays(batch.documents, self._plan.masks, 0, stop)
        blocks = blocks_of(self._plan.config, self._plan.vocabulary, wraps=True)
        return Example(place=place, num_tokens=num_tokens, arrays=arrays, blocks=blocks)

    def preview(self, loading: float, encoding: float) -> Preview:
        all_tokens = self._all_tokens()
        all_bytes = seconds = None
        if all_tokens is not None:
            each = index_dtype(self._plan.masks).itemsize + DOCUMENT_ORIGIN.itemsize
            each += DOCUMENT_KEY.itemsize if self._plan.config.keys else 0
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
            never_there=tuple(
                dict.fromkeys(key for (_, key), found in self._optional.items() if not found)
            ),
            lengths=np.concatenate([np.zeros(0, np.int64), *self._lengths]),
            example=self._example,
            all_tokens=all_tokens,
            all_bytes=all_bytes,
            cpu_seconds=seconds,
            encoding_seconds=encoding,
            error=relative_error(*np.array(self._each or [(0.0, 0.0)]).T),
            places=len(self._each),
        )

    def _all_tokens(self) -> int | None:
        """Return the tokens of all sources, each in the proportion of its sample."""
        sizes, rows = Counter[int](), dict[int, Piece]()
        for task in self._plan.tasks:
            for piece, size in zip(task.pieces, task.sizes, strict=True):
                sizes[piece.source] += size
                rows[piece.source] = replace(rows.get(piece.source, piece), stop=piece.stop)
        if any(self._plan.sources[i].num_bytes < 0 for i in sizes):
            return None
        sampled = {task.pieces[place].source for task, place in self._sampled()}
        total = sum(self._tokens_in(i, size, rows[i]) for i, size in sizes.items() if i in sampled)
        if len(sampled) < len(sizes):  # the others are like them
            total *= sum(sizes.values()) / max(1, sum(sizes[i] for i in sampled))
        return round(self._limited(total))

    def _sampled(self) -> Iterator[tuple[Task, int]]:
        return ((self._plan.tasks[task], place) for task, place in self.pieces)

    def _tokens_in(self, number: int, num_bytes: int, whole: Piece) -> float:
        """Return the tokens of a source: by its bytes, or by the rows of a table.

        The first rows of a table may be longer than others, which its bytes tell, unless it stores
        once what repeats: then only its rows tell how much there is.
        """
        source, tokens = self._plan.sources[number], float(self._tokens_of[number])
        if format_of(source.kind).knows_rows and self._text_of[number]:
            return tokens * num_bytes / float(self._text_of[number])
        if format_of(source.kind).knows_rows:
            count = count_records(source, whole, sys.maxsize)
            return tokens * count / max(1.0, float(self._records_of[number]))
        content = content_bytes(source) if source.compression else num_bytes
        return tokens * content / max(1.0, float(self._num_bytes[number]))

    def _limited(self, total: float) -> float:
        limit = self._plan.config.limit
        if limit is not None:  # documents like those of the first sources
            first = int(np.searchsorted(np.cumsum(self._documents_of), limit)) + 1
            documents = max(1.0, self._documents_of[:first].sum())
            total = min(total, limit * self._tokens_of[:first].sum() / documents)
        return total


def _distinct_text(records: Records) -> int:
    """Return the bytes of the texts of a batch; 0 if many are the same, or others are there."""
    values = [value for column in (records.columns or {}).values() for value in column]
    if not all(isinstance(value, str) for value in values):
        return 0
    sizes = [len(value.encode("utf-8", "replace")) + LENGTH_BYTES for value in values]
    distinct = sum(dict(zip(values, sizes, strict=True)).values())
    return sum(sizes) if distinct > sum(sizes) * MOSTLY else 0


def _content_of(records: Records) -> float:
    """Return about how many bytes of content the first records of a compressed file have; what
    was read of it says nothing, since it is read in large parts."""
    offsets = [int(records.offsets.max(initial=-1)), *(error.offset for error in records.errors)]
    count = len(records.lines) + len(records.errors)
    if count > 1 and max(offsets) > 0:  # where the last one begins
        return max(offsets) * count / (count - 1)
    values = [value for row in records.as_rows() for value in row.values()]
    return sum(len(str(value).encode("utf-8", "replace")) for value in values)
