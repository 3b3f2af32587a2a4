"""Process small batches in one call, so that many small files cost little more than a large one.

records     a.jsonl: lines 0 1 | b.jsonl: line 0 | c.jsonl: lines 0 1
joined               lines 0 1                2                   3 4
documents   processed as one batch, then separated by their lines
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.keys import with_keys
from dataprep.pipeline.documents.objectives.draws import RecordPlaces
from dataprep.pipeline.documents.pairs import process_pairs
from dataprep.pipeline.documents.process import Processed, TextEncoder, process
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.errors import InputError
from dataprep.pipeline.types import ABSENT, Offsets, Piece, Records

_SMALL_BYTES = 1 << 16  # a larger batch is processed by itself
_TOGETHER_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRecords:
    """A batch of records with its piece and the rules for its documents."""

    place: int  # of the piece in its task
    piece: Piece
    rules: Rules
    records: Records
    source: str = ""  # the fingerprint of its source

    @property
    def num_bytes(self) -> int:
        """Return how large it is: compressed, it may have been next to nothing."""
        return max(self.records.num_bytes, self.records.content_bytes)

    @property
    def may_be_joined(self) -> bool:
        """Return whether it is small, in plain columns, and its documents need no line numbers."""
        records = self.records
        if self.num_bytes > _SMALL_BYTES or self.rules.fields_from:
            return False
        columns = records.columns if len(records.lines) else {}
        return columns is not None and all(isinstance(c, list) for c in columns.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceLines:
    """Which lines of a batch belong to which piece.

    places   3 4 5       of the pieces in their task
    firsts   0 2 2 5     piece 3 has the lines 0 and 1, piece 4 has none, piece 5 the others
    """

    places: Offsets  # i64[p]
    firsts: Offsets  # i64[p + 1]

    def owners(self, lines: NDArray[Any]) -> Offsets:
        """The index of the piece that each line belongs to."""
        return np.searchsorted(self.firsts, lines, side="right") - 1

    def within(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(index, place, lines before `stop`) of each piece that has lines in [start, stop)."""
        first, end = np.searchsorted(self.firsts, [start + 1, stop]).tolist()
        places = self.places[first - 1 : end].tolist()
        before = np.minimum(self.firsts[first : end + 1], stop) - self.firsts[first - 1 : end]
        return zip(range(first - 1, end), places, before.tolist(), strict=True)


def gather(batches: Iterable[PieceRecords]) -> Iterator[list[PieceRecords]]:
    """Yield neighbours that can be processed in one call, in order."""
    group: list[PieceRecords] = []
    num_bytes = 0
    try:
        for batch in batches:
            joins = batch.may_be_joined
            is_full = num_bytes >= _TOGETHER_BYTES
            if group and (is_full or not joins or batch.rules is not group[0].rules):
                yield group
                group, num_bytes = [], 0
            group.append(batch)
            num_bytes += batch.num_bytes
            if not joins:
                yield group
                group, num_bytes = [], 0
    except InputError:
        # A bad record of an earlier file is to be told before a later file that cannot be read.
        if group:
            yield group
        raise
    if group:
        yield group


def process_together(
    group: Sequence[PieceRecords], encoder: TextEncoder
) -> tuple[Processed, PieceLines]:
    """Return what `process` gives for the batches of a group, and which lines of it are whose."""
    batches = [item.records for item in group]
    firsts = [0, *accumulate(records.next_line for records in batches)]
    lines = PieceLines(
        places=np.array([item.place for item in group]), firsts=np.array(firsts, np.int64)
    )
    rules, first_line = group[0].rules, group[0].piece.first_line
    joined = batches[0] if len(group) == 1 else _joined(batches, firsts)
    places = RecordPlaces(
        firsts=lines.firsts[:-1],
        sources=[item.source for item in group],
        first_lines=np.array([item.piece.first_line for item in group], np.int64),
        starts=np.array([item.piece.start for item in group], np.int64),
    )

    def run(records: Records) -> Processed:
        if rules.pairs is not None:
            return process_pairs(records, rules, rules.pairs, encoder)
        return process(records, rules, encoder, first_line, places)

    return (run(joined) if rules.keys is None else with_keys(joined, rules, run)), lines


def _joined(batches: Sequence[Records], firsts: Sequence[int]) -> Records:
    """Return one batch in which the lines of each follow those of the one before."""
    filled = [records.columns or {} for records in batches if len(records.lines)]
    keys = dict.fromkeys(chain.from_iterable(filled))
    numbered = list(zip(batches, firsts[:-1], strict=True))
    return Records(
        lines=np.concatenate([records.lines + first for records, first in numbered]),
        offsets=np.concatenate([records.offsets for records in batches]),
        next_line=firsts[-1],
        num_bytes=sum(records.num_bytes for records in batches),
        columns={key: list(chain.from_iterable(_columns(batches, key))) for key in keys},
        errors=[
            replace(error, line=error.line + first)
            for records, first in numbered
            for error in records.errors
        ],
    )


def _columns(batches: Sequence[Records], key: str) -> Iterator[Sequence[Any]]:
    """Yield the column of each batch that has records; some may lack the key."""
    for records in batches:
        if len(records.lines):
            yield (records.columns or {}).get(key) or [ABSENT] * len(records.lines)
