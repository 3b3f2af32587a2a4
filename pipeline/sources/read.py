"""Read a piece of a source: batches of records, with the line and the byte where each stands.

The bytes come from `stream`, are cut by `lines` or `array` and decoded by `jsonrecords` or
`textrecords`; tables, arrays, streamed datasets and synthetic data have readers of their own. All
give the same batches; the rules for empty ones are in `batches`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from dataprep.pipeline.ragged import HeldBy, nothing_held
from dataprep.pipeline.sources import streamed
from dataprep.pipeline.sources.arrow import batch_sizes, read_arrow
from dataprep.pipeline.sources.batches import nothing, settle
from dataprep.pipeline.sources.json.array import split_json
from dataprep.pipeline.sources.json.layout import find_filled
from dataprep.pipeline.sources.json.records import JsonRecords
from dataprep.pipeline.sources.lines import Block, seek_position, split_lines, split_whole
from dataprep.pipeline.sources.npy import read_npy
from dataprep.pipeline.sources.parquet import group_sizes, read_parquet
from dataprep.pipeline.sources.split import record_separator
from dataprep.pipeline.sources.stream import ByteStream
from dataprep.pipeline.sources.synthetic import read_synthetic
from dataprep.pipeline.sources.text import TextRecords
from dataprep.pipeline.types import Piece, Records, Source

_BATCH_BYTES = 1 << 20
_MAX_RECORD_BYTES = 1 << 30


def read_piece(
    source: Source,
    piece: Piece,
    keys: frozenset[str] | None,
    *,
    from_line: int = 0,
    batch_bytes: int = _BATCH_BYTES,
    max_record_bytes: int = _MAX_RECORD_BYTES,
    held_by: HeldBy = nothing_held,
) -> Iterator[Records]:
    """Batches of about `batch_bytes`, at least one; the last tells the piece's line count.

    `keys`: the top-level keys that are wanted; None: all. Lines before `from_line` are passed
    over, their bytes counted in the first batch. A column of keys that hold codes comes as
    `IntegerLists` where every value of the batch is a list of integers; where some are, these are
    arrays. In rows lists of codes are arrays. Readers that have Python lists give them as they are.
    """
    limits = {"from_line": from_line, "batch_bytes": batch_bytes}
    if source.kind in ("parquet", "arrow", "synthetic"):
        readers = {"parquet": read_parquet, "arrow": read_arrow, "synthetic": read_synthetic}
        batches = readers[source.kind](source, piece, keys, held_by=held_by, **limits)
    elif source.kind == "npy":
        batches = read_npy(source, piece, keys, **limits)
    elif source.kind == "hf":
        batches = streamed.read_streamed(source, piece, keys, **limits)
    else:
        limits["max_record_bytes"] = max_record_bytes
        batches = _read_bytes(source, piece, keys, held_by, **limits)
    return settle(batches)


def count_records(source: Source, piece: Piece, stop_after: int) -> int:
    """Records in a piece, readable or not, at most `stop_after`; nothing is decoded."""
    if source.kind in ("parquet", "arrow"):
        sizes = (group_sizes if source.kind == "parquet" else batch_sizes)(source.path, None)
        count = sum(rows for rows, _ in sizes[piece.start : piece.stop])
    elif source.kind in ("npy", "synthetic"):
        count = piece.stop - piece.start
    elif source.kind == "hf":
        count = streamed.count_rows(source, piece, stop_after)
    else:
        count = _count_filled(source, piece, stop_after)
    return min(count, stop_after)


def _read_bytes(
    source: Source,
    piece: Piece,
    keys: frozenset[str] | None,
    held_by: HeldBy,
    *,
    from_line: int,
    batch_bytes: int,
    max_record_bytes: int,
) -> Iterator[Records]:
    decode: Callable[[Block, int], Records]
    if source.kind == "text":
        decode = TextRecords(keys, max_record_bytes=max_record_bytes)
    else:
        assert source.kind in ("jsonl", "json")
        decode = JsonRecords(
            keys,
            held_by=held_by,
            in_lines=source.kind == "jsonl",
            max_record_bytes=max_record_bytes,
        )
    line = 0
    taken = 0  # stored bytes that were reported
    with _open_blocks(source, piece, batch_bytes, max_record_bytes) as (stream, blocks):
        for block in blocks:
            skipped = min(len(block.starts), max(0, from_line - line))
            next_line = line + len(block.starts)
            if skipped == len(block.starts):
                batch = nothing(next_line=next_line, num_bytes=block.num_bytes)
            else:
                batch = decode(block.after(skipped) if skipped else block, line + skipped)
            if source.compression:
                batch = replace(batch, num_bytes=stream.stored_bytes - taken)
                taken = stream.stored_bytes
            line = next_line
            yield batch
        rest = stream.stored_bytes - taken if source.compression else 0
    yield nothing(next_line=line, num_bytes=rest)


@contextmanager
def _open_blocks(
    source: Source, piece: Piece, batch_bytes: int, max_record_bytes: int
) -> Iterator[tuple[ByteStream, Iterator[Block]]]:
    separator = record_separator(source)
    start, stop = piece.start, piece.stop
    if source.compression:
        start, stop = 0, sys.maxsize
    limits = {"batch_bytes": batch_bytes, "max_record_bytes": max_record_bytes}
    path = source.path
    with ByteStream(
        path,
        source.compression,
        start=seek_position(start, separator) if separator else 0,
        chunk_bytes=batch_bytes,
    ) as stream:
        chunks = iter(stream)
        if source.kind == "json":
            yield stream, split_json(chunks, path=path, **limits)
        elif separator:
            yield (
                stream,
                split_lines(
                    chunks, path=path, start=start, stop=stop, separator=separator, **limits
                ),
            )
        else:
            yield stream, split_whole(chunks, path=path, **limits)


def _count_filled(source: Source, piece: Piece, stop_after: int) -> int:
    count = 0
    with _open_blocks(source, piece, _BATCH_BYTES, _MAX_RECORD_BYTES) as (_, blocks):
        for block in blocks:
            if source.kind == "jsonl" and block.is_kept:
                count += len(find_filled(block)[0])
            elif source.kind == "text":
                count += int((block.ends > block.starts).sum())
            else:
                count += len(block.starts)
            if count >= stop_after:
                break
    return count
