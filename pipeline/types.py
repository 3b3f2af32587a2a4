"""The nouns. One word, one thing:

    input     what the user names: a path, a glob, a URL, `hf:…`, `synthetic:…`
    source    one thing that can be read: a file, a split of a hub dataset, a generator
    piece     a range of one source
    task      pieces that one worker reads in order; its identity is their content
    record    one raw item of a source: a JSON object, a table row, a text
    document  the tokens of one record, with their masks
    shard     one ArrayRecord file of documents or rows

Sources give records, `process` turns records into documents, `shards` writes documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint32]
Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]

# What has codes, in the order of their masks.
Modality = Literal["vision", "audio"]
MODALITIES: tuple[Modality, ...] = ("vision", "audio")

# A raw record; keys are the user's field names.
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One readable thing, described so that a worker can open it from this alone."""

    kind: str  # one of sources.known.FORMATS, or what `media` lists itself: files | tar
    path: str  # a local path, an fsspec URL, or the `hf:`/`synthetic:` name
    num_bytes: int  # size as stored; -1 where it cannot be known
    fingerprint: str  # of the content
    compression: str = ""  # "" | gz | zst
    separator: str = ""  # text only: what parts documents; "" = the whole file is one
    options: Mapping[str, str] = field(default_factory=dict)  # hf and synthetic parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Records of `source` that start in [start, stop).

    The unit is that of the source's format (see `sources.known`): bytes, rows, row groups …
    """

    source: int  # index into the plan's sources
    start: int
    stop: int
    # Lines (or rows) of the source before this piece, where the plan had to count them: the
    # choice among listed field specs is keyed by the line's index in its file. Else -1.
    first_line: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Pieces that one worker turns into one or more shards."""

    index: int  # place in the output order
    identity: str  # hash of the pieces and their sources' fingerprints
    pieces: tuple[Piece, ...]
    num_bytes: int  # of input, for progress
    limit: int = -1  # stop after this many records; -1: read all


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """A record that could not be read or used."""

    line: int  # 0-based, counted from the start of the piece
    offset: int  # of its first byte in the source (uncompressed), -1 where there is none
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A batch of raw records of one piece, in order.

    A reader that was told the keys gives `columns` when every record of the batch has all of them;
    one that was not may give them when all records have the same; else `rows`, and exactly one of
    the two is set. A column of codes may be an `IntegerLists`, and a
    list of codes in any other column or in a row an array. Lines are 0-based and relative to the
    piece; blank lines hold no record but have a line.
    """

    lines: Offsets  # i64[n]
    offsets: Offsets  # i64[n], -1 where the format has no byte offsets
    next_line: int  # the line after this batch; after the last batch, the piece's line count
    num_bytes: int  # of input that this batch consumed
    columns: Mapping[str, Sequence[Any]] | None = None  # each of n values
    rows: Sequence[Record] | None = None  # n records
    errors: Sequence[RecordError] = ()  # not among the n

    def as_rows(self) -> Sequence[Record]:
        """The n records, whichever way they came."""
        if self.rows is not None:
            return self.rows
        columns = self.columns or {}
        names = list(columns)
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return rows or [{} for _ in self.lines]

    def errors_at(self, reasons: Mapping[int, str]) -> list[RecordError]:
        """Errors of records, by their place among the n."""
        return [
            RecordError(line=int(self.lines[i]), offset=int(self.offsets[i]), reason=reason)
            for i, reason in reasons.items()
        ]
