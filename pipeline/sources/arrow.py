"""Arrow IPC files, in the stream or the file format: pieces are record batches, lines are rows.

Local files are memory-mapped, so only the headers of skipped batches are read. A stream must have
its end mark, because a stream that was cut off between two batches otherwise looks complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import empty_batch
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.stream import is_url, open_file
from dataprep.pipeline.sources.tables import (
    broken_table,
    check_columns,
    rows_before,
    slices,
    table_errors,
    table_records,
)
from dataprep.pipeline.types import Piece, Records, Source

_FILE_MAGIC = b"ARROW1"
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_NO_COLUMN: frozenset[str] = frozenset()


class Arrow(Format):
    """Pieces are record batches."""

    kind = "arrow"
    endings = (".arrow",)
    names_files = True

    def split(self, source: Source, target_bytes: int, keys: frozenset[str] | None) -> list[Cut]:
        return cuts.groups(batch_sizes(source.path, keys), target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        line = 0
        index = piece.start
        with _open_batches(source.path, wanted.keys, piece.start) as batches:
            for batch in batches:
                if index == piece.stop:
                    break  # only now, so that the last piece has checked the end mark
                index += 1
                skipped = min(batch.num_rows, max(0, wanted.from_line - line))
                line += skipped
                yield empty_batch(next_line=line, num_bytes=batch.slice(0, skipped).nbytes)
                for part in slices(batch.slice(skipped), wanted.batch_bytes):
                    yield table_records(
                        part,
                        wanted,
                        first_line=line,
                        num_bytes=part.nbytes,
                        path=source.path,
                    )
                    line += part.num_rows
        if index < piece.stop:
            cause = f"record batch {piece.stop - 1} no longer exists"
            raise broken_table(source.path, "Arrow", cause)
        yield empty_batch(next_line=line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        sizes = batch_sizes(source.path, _NO_COLUMN)
        return sum(rows for rows, _ in sizes[piece.start : piece.stop])

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        return rows_before(batch_sizes(source.path, _NO_COLUMN), starts)

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
        yield reader, file


@contextmanager
def _open_batches(
    path: str, keys: frozenset[str] | None, start: int = 0
) -> Iterator[Iterator[Any]]:
    """Open a file; yield an iterator over the batches from `start` on, with only wanted columns."""
    import pyarrow as pa

    with _open(path) as (reader, file):
        check_columns(keys, reader.schema.names, path)
        if keys:
            with table_errors(path, "Arrow"):
                reader = _reader(file, sorted(map(reader.schema.names.index, keys)))
        if isinstance(reader, pa.ipc.RecordBatchStreamReader):
            yield _streamed(reader, file, path, start)
        else:
            yield _indexed(reader, path, start)


def _reader(file: Any, columns: list[int] | None) -> Any:
    import pyarrow as pa

    file.seek(0)
    is_stream = file.read(len(_FILE_MAGIC)) != _FILE_MAGIC
    file.seek(0)
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    return (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(file, options=options)


def _indexed(reader: Any, path: str, start: int) -> Iterator[Any]:
    for index in range(start, reader.num_record_batches):
        with table_errors(path, "Arrow"):
            batch = reader.get_batch(index)
        yield batch


def _streamed(reader: Any, file: Any, path: str, start: int) -> Iterator[Any]:
    index = 0
    while True:
        with table_errors(path, "Arrow"):
            position = file.tell()
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
            yield batch
        index += 1


def batch_sizes(path: str, keys: frozenset[str] | None) -> list[tuple[int, int]]:
    """Return (rows, bytes of the wanted columns) of each record batch."""
    with _open_batches(path, keys) as batches:
        return [(batch.num_rows, batch.nbytes) for batch in batches]
