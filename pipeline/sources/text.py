"""Texts to records: each is `{"text": ...}`.

Nothing between two separators is like a blank line: no record. Anything else is a text, blanks
included, and is kept to the byte.
"""

from __future__ import annotations

import numpy as np

from dataprep.pipeline.sources.lines import Block
from dataprep.pipeline.sources.reasons import invalid_utf8_reason, too_long_reason
from dataprep.pipeline.types import RecordError, Records

KEY = "text"


class TextRecords:
    def __init__(self, keys: frozenset[str] | None, *, max_record_bytes: int) -> None:
        self._as_columns = keys is not None and keys <= {KEY}
        self._keys = keys
        self._max_record_bytes = max_record_bytes

    def __call__(self, block: Block, first_line: int) -> Records:
        found: list[tuple[int, int]] = []  # (line, offset)
        texts: list[str] = []
        errors: list[RecordError] = []
        ranges = zip(block.starts.tolist(), block.ends.tolist(), strict=True)
        for line, (start, end) in enumerate(ranges, first_line):
            offset = block.position + start
            if end - start > self._max_record_bytes:
                reason = too_long_reason(end - start, self._max_record_bytes)
                errors.append(RecordError(line=line, offset=offset, reason=reason))
                continue
            if start == end:
                continue
            try:
                texts.append(block.data[start:end].decode("utf-8"))
                found.append((line, offset))
            except UnicodeDecodeError as fault:
                reason = invalid_utf8_reason(fault, "text")
                errors.append(RecordError(line=line, offset=offset, reason=reason))
        places = np.array(found, np.int64).reshape(-1, 2)
        columns = dict.fromkeys(self._keys or (), texts)
        return Records(
            lines=places[:, 0],
            offsets=places[:, 1],
            next_line=first_line + len(block.starts),
            num_bytes=block.num_bytes,
            columns=columns if self._as_columns else None,
            rows=None if self._as_columns else [{KEY: text} for text in texts],
            errors=tuple(errors),
        )
