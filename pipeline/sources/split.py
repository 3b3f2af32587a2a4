"""Cut a source into pieces that can be read apart.

    jsonl, separated text      byte ranges [k*T, (k+1)*T)
    parquet, arrow             row groups, record batches, put together up to T bytes
    npy                        rows
    synthetic, streamed        records, shards
    compressed, JSON array,    one piece
    whole text

Pieces depend on the content and on T alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from dataprep.pipeline.sources import arrow, npy, parquet, streamed, synthetic
from dataprep.pipeline.sources.lines import find_separators
from dataprep.pipeline.sources.stream import ByteStream, check_encoding
from dataprep.pipeline.types import Piece, Source

_COUNT_BYTES = 1 << 20

Sized = tuple[Piece, int]  # with its bytes of input, -1 where they are not known


def split_source(
    source: Source, index: int, target_bytes: int, keys: frozenset[str] | None, count_lines: bool
) -> list[Sized]:
    """At least one piece, in order; `index` is the source's place in the plan."""
    assert target_bytes > 0
    if source.kind in ("jsonl", "text"):
        pieces = _split_bytes(source, index, target_bytes)
    elif source.kind == "json":
        pieces = [_one_piece(source, index)]
    elif source.kind in ("parquet", "arrow"):
        return _split_table(source, index, target_bytes, keys, count_lines)
    elif source.kind == "npy":
        pieces = _split_records(index, target_bytes, *npy.row_size(source, keys))
    elif source.kind == "synthetic":
        count, size = synthetic.num_records(source), synthetic.mean_bytes(source)
        pieces = _split_records(index, target_bytes, count, size)
    else:
        assert source.kind == "hf"
        pieces = _split_streamed(source, index, target_bytes)
    if not count_lines:
        return pieces
    firsts = _first_lines(source, [piece for piece, _ in pieces])
    return [
        (replace(piece, first_line=first), num_bytes)
        for (piece, num_bytes), first in zip(pieces, firsts, strict=True)
    ]


def lines_before(source: Source, piece: Piece, keys: frozenset[str] | None) -> int:
    """Lines (or rows) of the source before a piece, reading no further than its start."""
    if piece.start == 0:
        return 0
    if source.kind in ("parquet", "arrow"):
        sizes = (parquet.group_sizes if source.kind == "parquet" else arrow.batch_sizes)(
            source.path, keys
        )
        return sum(rows for rows, _ in sizes[: piece.start])
    if source.kind == "hf":
        return sum(
            streamed.count_rows(source, replace(piece, start=i, stop=i + 1))
            for i in range(piece.start)
        )
    if source.kind in ("npy", "synthetic"):
        return piece.start
    return _count_lines(source, [0, piece.start])[1]


def record_separator(source: Source) -> bytes:
    """What ends a line; empty where the source is not read in lines."""
    return b"\n" if source.kind == "jsonl" else source.separator.encode()


def overlaps_itself(separator: bytes) -> bool:
    """Whether some start of it is also its end: in `\\n\\n\\n` the place of `\\n\\n` depends on
    where one begins to look, so that ranges cannot agree.

    >>> overlaps_itself(b"\\n\\n"), overlaps_itself(b"<|end|>")
    (True, False)
    """
    return any(separator.startswith(separator[i:]) for i in range(1, len(separator)))


def _one_piece(source: Source, index: int) -> Sized:
    return Piece(source=index, start=0, stop=1), source.num_bytes


def _split_bytes(source: Source, index: int, target_bytes: int) -> list[Sized]:
    separator = record_separator(source)
    if source.compression or not separator:
        return [_one_piece(source, index)]
    with ByteStream(source.path, "", chunk_bytes=4) as chunks:
        check_encoding(next(iter(chunks), b""), source.path)
    if source.num_bytes < 0:
        return [(Piece(source=index, start=0, stop=sys.maxsize), -1)]
    if overlaps_itself(separator):
        target_bytes = max(1, source.num_bytes)
    return [
        (Piece(source=index, start=start, stop=stop), stop - start)
        for start in range(0, max(1, source.num_bytes), target_bytes)
        for stop in (min(start + target_bytes, source.num_bytes),)
    ]


def _split_table(
    source: Source, index: int, target_bytes: int, keys: frozenset[str] | None, count_lines: bool
) -> list[Sized]:
    if source.kind == "parquet":
        sizes = parquet.group_sizes(source.path, keys)
    else:
        sizes = arrow.batch_sizes(source.path, keys)
    first_lines = [0, *accumulate(rows for rows, _ in sizes)]
    return [
        (
            Piece(
                source=index,
                start=start,
                stop=stop,
                first_line=first_lines[start] if count_lines else -1,
            ),
            sum(num_bytes for _, num_bytes in sizes[start:stop]),
        )
        for start, stop in merge([num_bytes for _, num_bytes in sizes], target_bytes)
    ]


def merge(sizes: Sequence[int], target_bytes: int) -> list[tuple[int, int]]:
    """Ranges of neighbours that are at most `target_bytes` together, or one alone.

    >>> merge([3, 3, 3, 9, 1], 6)
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    ranges = []
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and total + size > target_bytes:
            ranges.append((start, i))
            start, total = i, 0
        total += size
    return [*ranges, (start, len(sizes))]


def _split_records(index: int, target_bytes: int, count: int, size: int) -> list[Sized]:
    """`count` records of `size` bytes each."""
    step = max(1, target_bytes // max(1, size))
    return [
        (Piece(source=index, start=start, stop=stop), (stop - start) * size)
        for start in range(0, max(1, count), step)
        for stop in (min(start + step, count),)
    ]


def _split_streamed(source: Source, index: int, target_bytes: int) -> list[Sized]:
    count = streamed.num_shards(source)
    size = source.num_bytes // count if source.num_bytes >= 0 else target_bytes
    return [(Piece(source=index, start=i, stop=i + 1), size) for i in range(count)]


def _first_lines(source: Source, pieces: Sequence[Piece]) -> list[int]:
    """For each piece, the lines of the source before it."""
    if len(pieces) == 1:
        return [0]
    if source.kind in ("npy", "synthetic"):
        return [piece.start for piece in pieces]
    if source.kind == "hf":
        counts = [streamed.count_rows(source, piece) for piece in pieces]
        return [0, *accumulate(counts[:-1])]
    return _count_lines(source, [piece.start for piece in pieces])


def _count_lines(source: Source, starts: Sequence[int]) -> list[int]:
    """Lines that start before each of `starts`, which ascend from 0.

    Before s > 0: line 0, and one for each separator that ends before s.
    """
    separator = record_separator(source)
    width = len(separator)
    later = np.array(starts[1:], np.int64)
    counts = np.ones(len(later), np.int64)
    edge = b""  # might be the start of a separator
    position = 0  # of the next chunk
    with ByteStream(source.path, "", chunk_bytes=_COUNT_BYTES) as chunks:
        for chunk in chunks:
            data = edge + chunk if edge else chunk
            ends = find_separators(data, separator) + (position - len(edge) + width)
            counts += np.searchsorted(ends, later)
            position += len(chunk)
            if position >= later[-1]:
                break
            edge = data[len(data) - min(len(data), width - 1) :]
    return [0, *counts.tolist()]
