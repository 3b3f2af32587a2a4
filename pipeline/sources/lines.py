"""Cut a stream of bytes into lines.

    bytes   {"a":1}\\n\\n{"a":2}\\n{"a"     range [0, 9) of the source
    lines   0:7  8:8  9:16                  starts and ends in a buffer, separators left out
    in it   line 0 and line 1; the line at 9 starts after the range

A line belongs to the range in which it starts. What follows the last separator is a line unless
it is empty. Lines are found only by their separator (a newline, or --text-separator); the formats
decide whether a line holds a record. Of a line longer than `max_record_bytes` only the length is
kept, not the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from dataprep.pipeline.sources.stream import UTF8_BOM, check_encoding
from dataprep.pipeline.types import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBlock:
    """Whole lines, in order.

    A line that was too long to keep has ends - starts > max_record_bytes and no bytes in `data`.
    """

    data: bytes
    position: int  # of data[0] in the uncompressed source
    starts: Offsets  # i64[n] in data
    ends: Offsets  # i64[n] in data, without the separator
    num_bytes: int  # of content, separators included

    @property
    def is_kept(self) -> bool:
        return int(self.ends[-1]) <= len(self.data)

    def after(self, num_lines: int) -> LineBlock:
        return replace(self, starts=self.starts[num_lines:], ends=self.ends[num_lines:])


class BlockBuilder:
    """Collects an open line across chunks and yields blocks when lines are complete."""

    def __init__(self, position: int, *, batch_bytes: int, max_record_bytes: int) -> None:
        self._start = position  # of the open line in the source
        self._length = 0  # of the open line so far
        self._parts: list[bytes] = []  # its bytes; none once it is too long
        self._is_first = True
        self._batch_bytes = batch_bytes
        self._max_record_bytes = max_record_bytes

    def extend(self, data: bytes) -> None:
        """Add `data` to the open line."""
        self._length += len(data)
        if self._length > self._max_record_bytes:
            self._parts.clear()
        elif data:
            self._parts.append(data)

    def close(self, data: bytes, cuts: Offsets, width: int) -> Iterator[LineBlock]:
        """End a line at each of `cuts` in `data`, where a separator of `width` bytes begins.

        The open line is the first of them. What follows the last separator is not used.
        """
        first = int(cuts[0])
        if self._length + first > min(self._max_record_bytes, self._batch_bytes):
            self.extend(data[:first])
            yield self._close_alone(width)
            data, cuts = data[first + width :], cuts[1:] - (first + width)
            if not len(cuts):
                return
        stop = int(cuts[-1]) + width
        shift = self._length
        ends = cuts + shift
        starts = np.empty_like(ends)
        starts[0] = 0
        np.add(ends[:-1], width, out=starts[1:])
        joined = b"".join((*self._parts, memoryview(data)[:stop]))
        block = LineBlock(
            data=joined, position=self._start, starts=starts, ends=ends, num_bytes=len(joined)
        )
        self._open_next(len(joined))
        yield block

    def finish(self) -> Iterator[LineBlock]:
        """End the source: an empty rest is no line, but a byte order mark alone is a blank line."""
        only_a_mark = self._is_first and self._start > 0
        if self._length or only_a_mark:
            yield self._close_alone(0)

    def _close_alone(self, width: int) -> LineBlock:
        block = LineBlock(
            data=b"".join(self._parts),
            position=self._start,
            starts=np.zeros(1, np.int64),
            ends=np.array([self._length], np.int64),
            num_bytes=self._length + width,
        )
        self._open_next(self._length + width)
        return block

    def _open_next(self, num_bytes: int) -> None:
        self._start += num_bytes
        self._length = 0
        self._parts.clear()
        self._is_first = False


def find_separators(data: bytes, separator: bytes) -> Offsets:
    """Return where separators start in `data`, from left to right, without overlaps.

    >>> find_separators(b"a--b---", b"--").tolist()
    [1, 4]
    """
    if len(separator) == 1:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == separator[0])
    found = (match.start() for match in re.finditer(re.escape(separator), data))
    return np.fromiter(found, np.int64)


def without_bom(chunks: Iterator[bytes], path: str) -> tuple[int, Iterator[bytes]]:
    """Return (position of the first byte, chunks) of a source without its byte order mark."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 4:
            break
    check_encoding(head, path)
    position = len(UTF8_BOM) if head.startswith(UTF8_BOM) else 0
    head = head[position:]
    return position, chain((head,) if head else (), chunks)


def _after_first_separator(
    chunks: Iterator[bytes], position: int, stop: int, separator: bytes
) -> tuple[int, Iterator[bytes]]:
    """Return (position, chunks) of the first line that starts after a separator; if none starts
    before `stop`, the position is >= stop."""
    width = len(separator)
    edge = b""
    for chunk in chunks:
        data = edge + chunk
        found = data.find(separator)
        if found >= 0:
            return position + found + width, chain((data[found + width :],), chunks)
        kept = min(len(data), width - 1)
        edge = data[len(data) - kept :]
        position += len(data) - kept
        if position + width >= stop:
            break
    return stop, iter(())


def seek_position(start: int, separator: bytes) -> int:
    """Return where to start reading to see if a line starts at `start`: one separator before it."""
    return max(0, start - len(separator))


def split_lines(
    chunks: Iterator[bytes],
    *,
    path: str,
    start: int,  # where the range starts; the chunks start at `seek_position` of it
    stop: int,
    separator: bytes,
    batch_bytes: int,
    max_record_bytes: int,
) -> Iterator[LineBlock]:
    width = len(separator)
    if start == 0:
        # Line 0 belongs to this range even if a byte order mark is before it.
        position, chunks = without_bom(chunks, path)
    else:
        position = seek_position(start, separator)
        position, chunks = _after_first_separator(chunks, position, stop, separator)
        if position >= stop:
            return
    builder = BlockBuilder(position, batch_bytes=batch_bytes, max_record_bytes=max_record_bytes)
    edge = b""  # the last bytes, which may be the start of a separator
    for chunk in chunks:
        data = edge + chunk if edge else chunk
        origin = position - len(edge)  # of data[0] in the source
        position += len(chunk)
        cuts = find_separators(data, separator)
        used = 0
        if len(cuts):
            used = int(cuts[-1]) + width
            num_lines = len(cuts)
            if origin + used > stop:  # some lines may start after the range
                num_lines = 1 + int(np.searchsorted(cuts[:-1] + (origin + width), stop))
            yield from builder.close(data, cuts[:num_lines], width)
            if num_lines < len(cuts) or origin + used >= stop:
                return
        kept = min(len(data) - used, width - 1)
        builder.extend(data[used : len(data) - kept])
        edge = data[len(data) - kept :]
    builder.extend(edge)
    yield from builder.finish()


def whole(chunks: Iterator[bytes], builder: BlockBuilder) -> Iterator[LineBlock]:
    """Yield everything as one line, or nothing if there are no bytes."""
    for chunk in chunks:
        builder.extend(chunk)
    yield from builder.finish()


def split_whole(
    chunks: Iterator[bytes], *, path: str, batch_bytes: int, max_record_bytes: int
) -> Iterator[LineBlock]:
    position, chunks = without_bom(chunks, path)
    return whole(
        chunks,
        BlockBuilder(position, batch_bytes=batch_bytes, max_record_bytes=max_record_bytes),
    )
