"""Read text files: each text becomes a record `{"text": ...}`.

An empty text between two separators is like a blank line: not a record. Any other text is kept to
the byte, even if it is only white space. Without a separator the whole file is one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dataprep.pipeline.guards.excerpts import excerpt_of_bytes
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.blocks import (
    Opened,
    count_blocks,
    count_lines,
    open_blocks,
    open_lines,
    read_blocks,
    split_lines_apart,
)
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.lines import LineBlock, split_whole
from dataprep.pipeline.sources.reasons import invalid_utf8_reason, too_long_reason
from dataprep.pipeline.types import Piece, RecordError, Records, Source

KEY = "text"


class PlainText(Format):
    """Pieces are byte ranges; without a separator, the whole file."""

    kind = "text"
    endings = (".txt",)
    unit = "document"
    may_be_compressed = True
    has_separator = True
    holds_media = False
    has_offsets = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        if not source.separator:
            return cuts.whole(source)
        return split_lines_apart(source, source.separator.encode(), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        decode = TextRecords(wanted.keys, max_record_bytes=wanted.max_record_bytes)
        return read_blocks(source, wanted, _open(source, piece, wanted), decode)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return count_blocks(_open(source, piece, Wanted()), _num_filled, stop_after)

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        return count_lines(source, source.separator.encode(), starts)


def _open(source: Source, piece: Piece, wanted: Wanted) -> Opened:
    if source.separator:
        return open_lines(source, piece, source.separator.encode(), wanted)
    return open_blocks(source, wanted, split_whole)


def _num_filled(block: LineBlock) -> int:
    return int((block.ends > block.starts).sum())


class TextRecords:
    def __init__(self, keys: Keys | None, *, max_record_bytes: int) -> None:
        self._as_columns = keys is not None and not keys.lacking({KEY})
        self._is_wanted = keys is None or KEY in keys.tops
        self._max_record_bytes = max_record_bytes

    def __call__(self, block: LineBlock, first_line: int) -> Records:
        found: list[tuple[int, int]] = []  # (line, offset)
        texts: list[str] = []
        errors: list[RecordError] = []
        ranges = zip(block.starts.tolist(), block.ends.tolist(), strict=True)
        for line, (start, end) in enumerate(ranges, first_line):
            offset, content = block.position + start, memoryview(block.data)[start:end]
            if end - start > self._max_record_bytes:
                reason = too_long_reason(end - start, self._max_record_bytes)
                excerpt = excerpt_of_bytes(content)
                errors.append(RecordError(line=line, offset=offset, reason=reason, excerpt=excerpt))
                continue
            if start == end:
                continue
            try:
                texts.append(block.data[start:end].decode("utf-8"))
                found.append((line, offset))
            except UnicodeDecodeError as fault:
                reason = invalid_utf8_reason(fault, "text")
                excerpt = excerpt_of_bytes(content)
                errors.append(RecordError(line=line, offset=offset, reason=reason, excerpt=excerpt))
        places = np.array(found, np.int64).reshape(-1, 2)
        return Records(
            lines=places[:, 0],
            offsets=places[:, 1],
            next_line=first_line + len(block.starts),
            num_bytes=block.num_bytes,
            columns=({KEY: texts} if self._is_wanted else {}) if self._as_columns else None,
            rows=None if self._as_columns else [{KEY: text} for text in texts],
            errors=tuple(errors),
        )
