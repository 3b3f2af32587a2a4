"""Open, read and count sources that are cut into blocks of lines.

    ByteStream ─► chunks ─► `lines` or `json.array` cuts ─► blocks ─► a decoder ─► records
                            {"a":1}\\n{"a":2}\\n                        columns {"a": [1, 2]}

The formats decide what ends a line and what a line holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np

from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import empty_batch
from dataprep.pipeline.sources.format import Cut, Wanted
from dataprep.pipeline.sources.lines import LineBlock, find_separators, seek_position, split_lines
from dataprep.pipeline.sources.stream import ByteStream, check_encoding, open_stream
from dataprep.pipeline.types import Piece, Records, Source

_COUNT_BYTES = 1 << 20

Opened = AbstractContextManager[tuple[ByteStream, Iterator[LineBlock]]]
Decode = Callable[[LineBlock, int], Records]  # a block and the number of its first line


@contextmanager
def open_blocks(
    source: Source, wanted: Wanted, split: Callable[..., Iterator[LineBlock]]
) -> Iterator[tuple[ByteStream, Iterator[LineBlock]]]:
    """Open a whole source; yield its stream and its blocks, cut by `split`."""
    with open_stream(source, chunk_bytes=wanted.batch_bytes) as stream:
        yield (
            stream,
            split(
                iter(stream),
                path=source.path,
                batch_bytes=wanted.batch_bytes,
                max_record_bytes=wanted.max_record_bytes,
            ),
        )


@contextmanager
def open_lines(
    source: Source, piece: Piece, separator: bytes, wanted: Wanted
) -> Iterator[tuple[ByteStream, Iterator[LineBlock]]]:
    """Open a range of bytes, or the whole of a compressed source; yield its stream and blocks."""
    is_whole = bool(source.compression)
    start, stop = (0, sys.maxsize) if is_whole else (piece.start, piece.stop)
    with open_stream(
        source,
        start=seek_position(start, separator),
        chunk_bytes=wanted.batch_bytes,
    ) as stream:
        yield (
            stream,
            split_lines(
                iter(stream),
                path=source.path,
                start=start,
                stop=stop,
                separator=separator,
                batch_bytes=wanted.batch_bytes,
                max_record_bytes=wanted.max_record_bytes,
            ),
        )


def read_blocks(
    source: Source, wanted: Wanted, opened: Opened, decode: Decode
) -> Iterator[Records]:
    line = 0
    taken = 0  # stored bytes that earlier batches have counted
    with opened as (stream, blocks):
        for block in blocks:
            skipped = min(len(block.starts), max(0, wanted.from_line - line))
            next_line = line + len(block.starts)
            if skipped == len(block.starts):
                batch = empty_batch(next_line=next_line, num_bytes=block.num_bytes)
            else:
                batch = decode(block.after(skipped) if skipped else block, line + skipped)
            if source.compression:
                stored = stream.stored_bytes - taken
                batch = replace(batch, num_bytes=stored, content_bytes=block.num_bytes)
                taken = stream.stored_bytes
            line = next_line
            yield batch
        rest = stream.stored_bytes - taken if source.compression else 0
    if rest or not line:
        yield empty_batch(next_line=line, num_bytes=rest)


def count_blocks(opened: Opened, count: Callable[[LineBlock], int], stop_after: int) -> int:
    """Return the sum of `count` over the blocks; stop once it is at least `stop_after`."""
    total = 0
    with opened as (_, blocks):
        for block in blocks:
            total += count(block)
            if total >= stop_after:
                break
    return total


def split_lines_apart(source: Source, separator: bytes, target_bytes: int) -> list[Cut]:
    """Cut into byte ranges if lines can be found from the middle of the file, else not at all."""
    if source.compression:
        return cuts.whole(source)
    if overlaps_itself(separator):
        target_bytes = max(1, source.num_bytes)
    ranges = cuts.byte_ranges(source.num_bytes, target_bytes, source.start)
    if len(ranges) > 1:  # only the reader of the first range would see the mark of an encoding
        with open_stream(source, chunk_bytes=4) as chunks:
            check_encoding(next(iter(chunks), b""), source.path)
    return ranges


def overlaps_itself(separator: bytes) -> bool:
    """Return whether the separator ends as it starts: in `\\n\\n\\n` the place of `\\n\\n` depends
    on where the search begins, so two ranges could find different lines.

    >>> overlaps_itself(b"\\n\\n"), overlaps_itself(b"<|end|>")
    (True, False)
    """
    return any(separator.startswith(separator[i:]) for i in range(1, len(separator)))


def count_lines(source: Source, separator: bytes, starts: Sequence[int]) -> list[int]:
    """Count the lines that start before each of `starts`, which ascend from 0.

    Before s > 0 these are line 0, and one line for each separator that ends before s.
    """
    width = len(separator)
    later = np.array(starts[1:], np.int64)
    counts = np.ones(len(later), np.int64)
    edge = b""  # the last bytes, which may be the start of a separator
    position = 0  # of the next chunk
    with open_stream(source, chunk_bytes=_COUNT_BYTES) as chunks:
        for chunk in chunks:
            data = edge + chunk if edge else chunk
            ends = find_separators(data, separator) + (position - len(edge) + width)
            counts += np.searchsorted(ends, later)
            position += len(chunk)
            if position >= later[-1]:
                break
            edge = data[len(data) - min(len(data), width - 1) :]
    return [0, *counts.tolist()]
