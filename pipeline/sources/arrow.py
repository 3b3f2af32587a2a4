"""Arrow IPC files, in the stream or the file format: pieces are record batches, lines are rows.

Local files are memory-mapped, so only the headers of skipped batches are read. A stream must have
its end mark, because a stream that was cut off between two batches otherwise looks complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.arrow_messages import (
    ArrowMessage,
    MessageBlock,
    blocks_of,
    message_at,
)
from dataprep.pipeline.sources.batches import empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.stream import is_url, open_file
from dataprep.pipeline.sources.table_columns import Columns, find_columns
from dataprep.pipeline.sources.tables import TableRows, broken_table, rows_before, table_errors
from dataprep.pipeline.types import Piece, Records, Source

_FILE_MAGIC = b"ARROW1"
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_NO_COLUMN = Keys(needed=frozenset())


class Arrow(Format):
    """Pieces are record batches."""

    kind = "arrow"
    knows_rows = True
    endings = (".arrow",)
    names_files = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        return cuts.groups(batch_sizes(source, keys), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        index = piece.start
        with _open_batches(source, wanted.keys, piece.start) as (columns, batches):
            rows = TableRows(wanted, columns, source.path)
            for batch, stored in batches:
                if index == piece.stop:
                    break  # only now, so that the last piece has checked the end mark
                index += 1
                place = f"record batch {index - 1} of {source.path}"
                yield from rows.read(
                    [batch],
                    growth=Growth(place=place, stored=stored, max_ratio=source.max_ratio),
                    bytes_of_row=batch.nbytes / max(1, batch.num_rows),
                )
        if index < piece.stop:
            cause = f"record batch {piece.stop - 1} no longer exists"
            raise broken_table(source.path, "Arrow", cause)
        yield empty_batch(next_line=rows.line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        sizes = batch_sizes(source, _NO_COLUMN)
        return sum(rows for rows, _ in sizes[piece.start : piece.stop])

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        return rows_before(batch_sizes(source, _NO_COLUMN), starts)

    def schema(self, source: Source) -> Any:
        with _open(source.path) as (reader, _):
            return reader.schema


@contextmanager
def _open(path: str) -> Iterator[tuple[Any, Any]]:
    """Open a file; yield (a reader of all columns, the file that it reads)."""
    import pyarrow as pa

    with ExitStack() as stack:
        raw = stack.enter_context(closing(open_file(path))) if is_url(path) else None
        with table_errors(path, "Arrow"):
            file = pa.memory_map(path) if raw is None else pa.PythonFile(raw, "r")
            stack.callback(file.close)
            reader = _reader(file, None)
            assert reader.schema.names is not None  # read here: one may not be UTF-8
        yield reader, file


@contextmanager
def _open_batches(
    source: Source, keys: Keys | None, start: int = 0
) -> Iterator[tuple[Columns, Iterator[tuple[Any, int]]]]:
    """Open a file; yield where the wanted columns are, and an iterator over the batches from
    `start` on, with only these, and over how many bytes are stored for each."""
    import pyarrow as pa

    path = source.path
    with _open(path) as (reader, file):
        columns = find_columns(keys, reader.schema, path)
        if keys is not None:
            tops = {way[0] for ways in columns.values() for way in ways}
            with table_errors(path, "Arrow"):
                reader = _reader(file, sorted(map(reader.schema.names.index, tops)))
        is_stream = isinstance(reader, pa.ipc.RecordBatchStreamReader)
        yield columns, (_streamed if is_stream else _indexed)(reader, file, source, start)


def _reader(file: Any, columns: list[int] | None) -> Any:
    import pyarrow as pa

    file.seek(0)
    is_stream = file.read(len(_FILE_MAGIC)) != _FILE_MAGIC
    file.seek(0)
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    return (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(file, options=options)


def _indexed(reader: Any, file: Any, source: Source, start: int) -> Iterator[tuple[Any, int]]:
    dictionaries, blocks = blocks_of(file, source.path)

    def stored(block: MessageBlock) -> int:
        message = message_at(file, block.position, source.path, block.metadata_bytes)
        return _checked(message, source)

    shared = sum(map(stored, dictionaries))
    for index in range(start, reader.num_record_batches):
        own = stored(blocks[index])
        with table_errors(source.path, "Arrow"):
            batch = reader.get_batch(index)
        yield batch, shared + own


def _streamed(reader: Any, file: Any, source: Source, start: int) -> Iterator[tuple[Any, int]]:
    path = source.path
    index = shared = 0
    while True:
        with table_errors(path, "Arrow"):
            position = file.tell()
        message = message_at(file, position, path)
        while message is not None and not message.is_batch:  # dictionaries that are new from here
            shared += _checked(message, source)
            message = message_at(file, message.stop, path)
        own = _checked(message, source)
        with table_errors(path, "Arrow"):
            file.seek(position)
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                file.seek(position)
                if file.read(len(_STREAM_END)) != _STREAM_END:
                    batches = "1 record batch" if index == 1 else f"{index} record batches"
                    cause = f"the stream has no end mark after {batches}"
                    raise broken_table(path, "Arrow", cause) from None
                return
        if index >= start:
            yield batch, shared + own
        index += 1


def _checked(message: ArrowMessage | None, source: Source) -> int:
    """Return the stored bytes of a message; an InputError if they grow to more than they may."""
    if message is None:
        return 0
    place = f"a message of {source.path}"
    Growth(place=place, stored=message.stored, max_ratio=source.max_ratio).check(message.grown)
    return message.stored


def batch_sizes(source: Source, keys: Keys | None) -> list[tuple[int, int]]:
    """Return (rows, bytes of the wanted columns) of each record batch."""
    with _open_batches(source, keys) as (_, batches):
        return [(batch.num_rows, batch.nbytes) for batch, _ in batches]
