"""Read a piece of a source as items: where the media are, and the columns that go with them.

Nothing is decoded here, and media files are not opened: `decode` does that, possibly in threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataprep.pipeline.guards.excerpts import excerpt_of
from dataprep.pipeline.media.holders import holder_of, is_listed
from dataprep.pipeline.media.listing import ByteSpan, Entry, beside_name
from dataprep.pipeline.media.values import Blob, Part, Surroundings, parts_of
from dataprep.pipeline.sources import format_of, read_piece
from dataprep.pipeline.sources.stream import is_url
from dataprep.pipeline.types import Piece, Source

_BATCH_BYTES = 1 << 20
_STREAM_BATCH_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record, or (with a reason) why there is none."""

    line: int  # within its piece
    source: str  # for the record's column `source`: cats/tom.jpg, or a.jsonl:17
    file: str  # for errors: /data/cats/tom.jpg, or /data/a.jsonl
    number: int | None = None  # of its line in that file, from 1; None: the whole file
    num_bytes: int  # of input
    offset: int = -1  # of its first byte in that file, -1 if it has none
    parts: Sequence[Part] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    variant: int = 0  # of a picture that is changed at random (`augment`); 0: the picture itself
    text: Blob | None = None  # becomes the column `text`
    json: Blob | None = None  # becomes as many columns as it has keys
    reason: str = ""
    excerpt: str = ""  # of a row that is bad before its media are looked at

    @property
    def place(self) -> str:
        """The place to name in messages: /data/cats/tom.jpg, or line 17 of /data/a.jsonl."""
        return self.file if self.number is None else f"line {self.number} of {self.file}"


def read_items(
    source: Source,
    piece: Piece,
    entries: Sequence[Entry],
    column: str,
    *,
    from_line: int,
    allow_outside: bool = False,
) -> Iterator[Item]:
    if is_listed(source):
        chosen = entries[piece.start : piece.stop]
        for line, entry in enumerate(chosen[from_line:], from_line):
            yield _entry_item(source, entry, line)
    else:
        yield from _table_items(source, piece, column, from_line, allow_outside)


def _entry_item(source: Source, entry: Entry, line: int) -> Item:
    holder = holder_of(source)

    def blob(span: ByteSpan | None) -> Blob | None:
        if span is None:
            return None
        name = beside_name(entry.name, span)
        path = holder.path_of(source, name)
        return Blob(path=path, offset=span.offset, size=span.size, name=name)

    short, place = holder.names_of(source, entry.name)
    return Item(
        line=line,
        source=short,
        file=place,
        num_bytes=entry.num_bytes,
        parts=[blob(entry.span)],
        text=blob(entry.text),
        json=blob(entry.json),
    )


def _table_items(
    source: Source, piece: Piece, column: str, from_line: int, allow_outside: bool
) -> Iterator[Item]:
    known = format_of(source.kind)
    is_local = known.names_files and not is_url(source.path) and not source.spool
    folder = os.path.dirname(source.path) if is_local else None
    beside = Surroundings(folder=folder, allow_outside=allow_outside)
    first_line = max(0, piece.first_line)
    within = "" if piece.first_line >= 0 else f"#{piece.start}"  # shard of a stream
    short = os.path.basename(source.path) + within
    # A streamed row may be a whole decoded picture, even if its size looks small.
    batch_bytes = _STREAM_BATCH_BYTES if known.is_stream else _BATCH_BYTES
    batches = read_piece(source, piece, None, from_line=from_line, batch_bytes=batch_bytes)
    for records in batches:
        rows = records.as_rows()
        count = len(rows) + len(records.errors)
        share = records.num_bytes // max(1, count)
        bad = {error.line: error for error in records.errors}
        offsets = dict(zip(records.lines.tolist(), records.offsets.tolist(), strict=True))
        offsets |= {error.line: error.offset for error in records.errors}
        by_line = dict(zip(records.lines.tolist(), rows, strict=True))
        for line in sorted({*by_line, *bad}):
            number = first_line + line + 1
            item = {
                "line": line,
                "source": f"{short}:{number}",
                "file": f"{source.path}{within}",
                "number": number,
                "num_bytes": share,
                "offset": offsets[line],
            }
            if line in bad:
                yield Item(**item, reason=bad[line].reason, excerpt=bad[line].excerpt)
            else:
                yield _row_item(item, by_line[line], column, beside, is_json=known.is_json)


def _row_item(
    item: Mapping[str, Any],
    row: Mapping[str, Any],
    column: str,
    beside: Surroundings,
    *,
    is_json: bool,
) -> Item:
    if column not in row:
        keys = ", ".join(row) or "none"
        reason = f"no column {column!r} (keys: {keys}); set --column"
        return Item(**item, reason=reason, excerpt=excerpt_of(row))
    try:
        parts = parts_of(row[column], beside, is_json=is_json)
    except ValueError as error:
        return Item(**item, reason=f"column {column!r} {error}", excerpt=excerpt_of(row))
    columns = {key: value for key, value in row.items() if key != column}
    return Item(**item, parts=parts, columns=columns)
