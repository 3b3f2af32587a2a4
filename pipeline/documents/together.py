"""Process small batches in one call, so that many small files cost little more than a large one.

records     a.jsonl: lines 0 1 | b.jsonl: line 0 | c.jsonl: lines 0 1
joined               lines 0 1                2                   3 4
documents   processed as one batch, then separated by their lines
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

import numpy as np

from dataprep.pipeline.documents.process import FindUnencodable, Processed, TextEncoder, process
from dataprep.pipeline.documents.rules import Rules
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import split_runs
from dataprep.pipeline.types import Piece, Records

_SMALL_BYTES = 1 << 16  # a larger batch is processed by itself
_TOGETHER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRecords:
    """A batch of records with its piece and the rules for its documents."""

    place: int  # of the piece in its task
    piece: Piece
    rules: Rules
    records: Records

    @property
    def may_be_joined(self) -> bool:
        """Return whether it is small, in plain columns, and its documents need no line numbers."""
        records = self.records
        if records.num_bytes > _SMALL_BYTES or self.rules.fields_from:
            return False
        columns = records.columns if len(records.lines) else {}
        return columns is not None and all(isinstance(c, list) for c in columns.values())


def gather(batches: Iterable[PieceRecords]) -> Iterator[list[PieceRecords]]:
    """Yield neighbours that can be processed in one call, in order."""
    group: list[PieceRecords] = []
    num_bytes = 0
    for batch in batches:
        joins = batch.may_be_joined
        if group and not (joins and batch.rules is group[0].rules and num_bytes < _TOGETHER_BYTES):
            yield group
            group, num_bytes = [], 0
        group.append(batch)
        num_bytes += batch.records.num_bytes
        if not joins:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group


def process_together(
    group: Sequence[PieceRecords], encoder: TextEncoder, find_unencodable: FindUnencodable
) -> list[Processed]:
    """Return what `process` gives for each batch of a group."""
    rules = group[0].rules
    if len(group) == 1:
        first_line = group[0].piece.first_line
        return [process(group[0].records, rules, encoder, find_unencodable, first_line)]
    batches = [item.records for item in group]
    firsts = [0, *accumulate(records.next_line for records in batches)]
    processed = process(_joined(batches, firsts), rules, encoder, find_unencodable, -1)
    return list(_apart(processed, batches, firsts))


def _joined(batches: Sequence[Records], firsts: Sequence[int]) -> Records:
    """Return one batch in which the lines of each follow those of the one before."""
    filled = [records.columns for records in batches if len(records.lines)]
    numbered = list(zip(batches, firsts[:-1], strict=True))
    return Records(
        lines=np.concatenate([records.lines + first for records, first in numbered]),
        offsets=np.concatenate([records.offsets for records in batches]),
        next_line=firsts[-1],
        num_bytes=sum(records.num_bytes for records in batches),
        columns={
            key: list(chain.from_iterable(columns[key] for columns in filled if columns))
            for key in (filled[0] or {} if filled else {})
        },
        errors=[
            replace(error, line=error.line + first)
            for records, first in numbered
            for error in records.errors
        ],
    )


def _apart(
    whole: Processed, batches: Sequence[Records], firsts: Sequence[int]
) -> Iterator[Processed]:
    documents, origins = whole.documents, whole.origins
    places = np.searchsorted(origins["line"], firsts)
    empty = np.searchsorted(whole.empty_lines, firsts).tolist()
    errors = np.searchsorted([error.line for error in whole.errors], firsts).tolist()
    origins["line"] -= np.repeat(firsts[:-1], np.diff(places))
    bounds = np.concatenate(([0], documents.ends))[places]
    runs_apart = [split_runs(runs, bounds) for runs in documents.masks]
    tokens_at, documents_at = bounds.tolist(), places.tolist()
    for i, (records, first) in enumerate(zip(batches, firsts, strict=False)):
        start, stop = documents_at[i : i + 2]
        yield Processed(
            documents=Documents(
                tokens=documents.tokens[tokens_at[i] : tokens_at[i + 1]],
                ends=documents.ends[start:stop] - tokens_at[i],
                masks=tuple(parts[i] for parts in runs_apart),
            ),
            origins=origins[start:stop],
            errors=tuple(
                replace(error, line=error.line - first)
                for error in whole.errors[errors[i] : errors[i + 1]]
            ),
            empty_lines=whole.empty_lines[empty[i] : empty[i + 1]] - first,
            next_line=records.next_line,
            num_bytes=records.num_bytes,
        )
