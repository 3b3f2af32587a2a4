"""The nouns. One word, one thing:

    input     what the user names: a path, a glob, a URL, `hf:…`, `synthetic:…`
    source    one thing that can be read: a file, a split of a hub dataset, a generator
    piece     a range of one source
    task      pieces that one worker reads in order; its identity is their content
    record    one raw item of a source: a JSON object, a table row, a text
    document  the tokens of one record, with their masks
    shard     one ArrayRecord file of documents or rows

`sources` reads records, `documents` turns them into documents, `storage` writes shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.guards.excerpts import excerpt_of
from dataprep.pipeline.guards.secrets import redacted

Ids = NDArray[np.uint32]
Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]

# The media that have codes, in the order of their masks.
Modality = Literal["vision", "audio"]
MODALITIES: tuple[Modality, ...] = ("vision", "audio")

DEFAULT_MAX_RATIO = 200

# A raw record; keys are the user's field names.
Record = Mapping[str, Any]


class _Absent:
    """The type of ABSENT."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


# In a column: the record of this place lacks the key. A null is None.
ABSENT = _Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One thing that can be read; this is all that a worker needs to open it."""

    kind: str  # one of sources.known.FORMATS, or found by `media`: files | tar
    path: str  # a local path, the public name of a URL (`secrets`), or a name: hf:…, python:0, -
    num_bytes: int  # size as stored, from `start` on; -1 if unknown
    fingerprint: str  # of the content, of the whole file
    compression: str = ""  # "" | gz | zst | xz | bz2
    separator: str = ""  # text only: what separates records; "": the whole file is one record
    max_ratio: int = (
        DEFAULT_MAX_RATIO  # compressed only: growing by more than this factor is an error
    )
    options: Mapping[str, str] = field(default_factory=dict)  # hf and synthetic parameters
    spool: str = ""  # of stdin and of records from Python: the local file that keeps them
    # Of a file that was appended to, only what is new: it begins at this byte, after these lines.
    start: int = 0
    lines_before: int = 0

    @property
    def file(self) -> str:
        """Return the path under which the bytes are."""
        return self.spool or self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleMedia:
    """A file of media with those beside it, a tar or a table: see `media.singles`."""

    path: str
    fingerprint: str  # of its content, and of a file of its name below its folder, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The records of `source` that start in [start, stop).

    The source's format (see `sources.known`) decides the unit: bytes, rows, row groups …
    """

    source: int  # index into the plan's sources
    start: int
    stop: int
    # Lines (or rows) of the source before this piece if the plan had to count them, else -1: the
    # choice among several field specs is keyed by the index of the line in its file.
    first_line: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Pieces that one worker turns into one or more shards."""

    index: int  # place in the output order
    identity: str  # hash of the pieces and their sources' fingerprints
    pieces: tuple[Piece, ...]
    num_bytes: int  # of input, for progress
    sizes: tuple[int, ...] = ()  # of input, of each piece, where the plan tells them apart
    limit: int = -1  # stop after this many records; -1: read all


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """A record that could not be read or used."""

    line: int  # 0-based, counted from the start of the piece
    offset: int  # of its first byte in the uncompressed source, -1 if there is none
    reason: str
    special: int = 0  # special tokens that its text spells, where that is what is wrong
    excerpt: str = ""  # its beginning: `excerpts`

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", redacted(self.reason))  # it may show a value of it


def may_lack(column: Sequence[Any]) -> bool:
    """Return whether a record lacks the key of this column."""
    return isinstance(column, list) and any(value is ABSENT for value in column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A batch of raw records of one piece, in order.

    Either `columns` or `rows` is set. A reader that was given keys sets `columns` if every record
    of the batch has all that are needed; one that was not may set them if all records have the same
    keys. A key that a record may lack is ABSENT in its column where it does, or has no column. A
    column of codes may be an `IntegerLists`; a list of codes in another column or in a row may be
    an array. Lines are 0-based and relative to the piece; a blank line counts, but has no record.
    """

    lines: Offsets  # i64[n]
    offsets: Offsets  # i64[n], -1 if the format has no byte offsets
    next_line: int  # the line after this batch; after the last batch, the piece's line count
    num_bytes: int  # of input that was read for this batch
    content_bytes: int = 0  # of what it holds, if that may be far more: input that is compressed
    columns: Mapping[str, Sequence[Any]] | None = None  # n values each
    rows: Sequence[Record] | None = None  # n records
    errors: Sequence[RecordError] = ()  # of other records than these n

    def as_rows(self) -> Sequence[Record]:
        """Return the n records as rows."""
        if self.rows is not None:
            return self.rows
        columns = self.columns or {}
        names = list(columns)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if any(may_lack(column) for column in columns.values()):
            rows = [{k: v for k, v in row.items() if v is not ABSENT} for row in rows]
        return rows or [{} for _ in self.lines]

    def errors_at(self, reasons: Mapping[int, str]) -> list[RecordError]:
        """Return errors of records; `reasons` are by their place among the n."""
        return [self.error_at(i, reason) for i, reason in reasons.items()]

    def error_at(self, place: int, reason: str, *, special: int = 0) -> RecordError:
        """Return the error of the record at a place among the n."""
        return RecordError(
            line=int(self.lines[place]),
            offset=int(self.offsets[place]),
            reason=reason,
            special=special,
            excerpt=excerpt_of(self._row(place)),
        )

    def _row(self, place: int) -> Record:
        if self.rows is not None:
            return self.rows[place]
        row = {name: values[place] for name, values in (self.columns or {}).items()}
        return {name: value for name, value in row.items() if value is not ABSENT}
