"""Read tables of text: `.csv` (commas) and `.tsv` (tabs), as RFC 4180 defines them.

    text,label\\n            row 1 names the columns
    "one, ""two""\\n…",a\\n  row 2: {"text": 'one, "two"\\n…', "label": "a"}

All values are texts. Rows end in LF or CRLF; a quoted field may hold line breaks and doubled
quotes; a blank line is not a row. Rows are found by quotes and line breaks only (csv_rows.py) and
decoded by the `csv` module in strict mode, many at once: what it refuses is an error of the row,
and the next row begins where a lenient reader would begin it.

Pieces are byte ranges that start with a row. Row starts can only be found by reading from the start
of the file, so a large file is scanned when it is cut, and a file behind a URL is not cut.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from dataprep.pipeline.errors import InputError, short
from dataprep.pipeline.guards.excerpts import excerpt_of_bytes
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.blocks import count_blocks, read_blocks
from dataprep.pipeline.sources.csv_rows import RowFinder
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.lines import BlockBuilder, LineBlock, without_bom
from dataprep.pipeline.sources.reasons import invalid_utf8_reason, too_long_reason
from dataprep.pipeline.sources.stream import ByteStream, is_url, open_stream
from dataprep.pipeline.sources.table_columns import check_columns
from dataprep.pipeline.types import Offsets, Piece, RecordError, Records, Source

_DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_ENDINGS = {",": ".csv", "\t": ".tsv"}
_SCAN_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16
_LONGEST_FIELD = (1 << 31) - 1  # the highest limit that the csv module takes on every platform


class Csv(Format):
    """Pieces are byte ranges from the start of one row to the start of another."""

    may_be_compressed = True
    tells_of_media = True
    names_files = True
    has_offsets = True

    def __init__(self, kind: str, delimiter: str) -> None:
        self.kind = kind
        self.endings = (f".{kind}",)
        self._delimiter = delimiter

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        self._header(source, keys)  # so that a bad header is an error before any work is done
        if source.compression:
            return cuts.whole(source)
        if is_url(source.path) or source.num_bytes <= target_bytes:
            return cuts.byte_ranges(source.num_bytes, max(1, source.num_bytes))
        return list(self._ranges(source, target_bytes))

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        decode = CsvRecords(self._header(source, wanted.keys), wanted, self._delimiter)
        if piece.start == 0:  # the header is a line, but not a record
            wanted = replace(wanted, from_line=max(1, wanted.from_line))
        return read_blocks(source, wanted, self._open(source, piece, wanted), decode)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        header = int(piece.start == 0)
        opened = self._open(source, piece, Wanted())
        return max(0, count_blocks(opened, _num_filled, stop_after + header) - header)

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        counts = np.zeros(len(starts), np.int64)
        for rows in self._row_starts(source):
            counts += np.searchsorted(rows, starts, side="right")
            if rows[-1] >= starts[-1]:
                break
        return [int(count) for count in counts]

    def _header(self, source: Source, keys: Keys | None) -> list[str]:
        """Return the column names; refuse a wanted column (None: all) that lacks its own name."""
        piece = Piece(source=0, start=0, stop=1)
        with self._open(source, piece, Wanted(batch_bytes=_HEAD_BYTES)) as (_, blocks):
            block = next(blocks, None)
        if block is None:
            raise InputError(
                f"{source.path} is empty, but row 1 must name the columns; leave the file out"
            )
        try:
            names = _decode_row(block.data[: block.ends[0]], self._delimiter)
            _check_names(names, names if keys is None else keys.names)
        except ValueError as error:
            raise InputError(f"row 1 of {source.path} (byte {block.position}) {error}") from None
        if keys is not None and keys.lacking(Counter(names)):
            self._check_delimiter(names, source.path)
        check_columns(keys, names, source.path)
        return names

    def _check_delimiter(self, names: Sequence[str], path: str) -> None:
        """Raise if the header, which lacks a column, looks separated by something else."""
        header = self._delimiter.join(names)
        other = max(_DELIMITERS, key=header.count)
        if header.count(other) <= header.count(self._delimiter):
            return
        fix = (
            f"rename it to end in {_ENDINGS[other]}"
            if other in _ENDINGS
            else "convert it: python3 -c 'import csv, sys; csv.writer(sys.stdout).writerows("
            f'csv.reader(sys.stdin, delimiter="{other}"))\' < IN > OUT'
        )
        raise InputError(
            f"{path} seems to be separated by {_DELIMITERS[other]}, but .{self.kind} means "
            f"{_DELIMITERS[self._delimiter]} (row 1: {short(header, 100)!r}); {fix}"
        )

    @contextmanager
    def _open(
        self, source: Source, piece: Piece, wanted: Wanted
    ) -> Iterator[tuple[ByteStream, Iterator[LineBlock]]]:
        stop = sys.maxsize if source.compression else piece.stop
        with open_stream(source, start=piece.start, chunk_bytes=wanted.batch_bytes) as stream:
            yield stream, self._rows(iter(stream), source.path, piece.start, stop, wanted)

    def _rows(
        self, chunks: Iterator[bytes], path: str, start: int, stop: int, wanted: Wanted
    ) -> Iterator[LineBlock]:
        """Yield the rows that start before `stop`; the chunks start with a row."""
        position = start
        if start == 0:
            position, chunks = without_bom(chunks, path)
        builder = BlockBuilder(
            position, batch_bytes=wanted.batch_bytes, max_record_bytes=wanted.max_record_bytes
        )
        rows = RowFinder(self._delimiter, position)
        for chunk in chunks:
            ends = rows.ends(chunk)
            used = 0
            if len(ends):
                later = ends[:-1] + (position + 1)  # starts of all rows that end here but the first
                num_rows = 1 + int(np.searchsorted(later, stop))
                yield from builder.close(chunk, ends[:num_rows], 1)
                used = int(ends[-1]) + 1
                if num_rows < len(ends) or position + used >= stop:
                    return
            builder.extend(chunk[used:])
            position += len(chunk)
        rows.check_closed(path)
        yield from builder.finish()

    def _row_starts(self, source: Source) -> Iterator[Offsets]:
        """Yield, some at a time, where the rows after the first one start."""
        with open_stream(source, chunk_bytes=_SCAN_BYTES) as stream:
            position, chunks = without_bom(iter(stream), source.path)
            rows = RowFinder(self._delimiter, position)
            for chunk in chunks:
                starts = rows.ends(chunk) + (position + 1)
                position += len(chunk)
                starts = starts[starts < source.num_bytes]
                if len(starts):
                    yield starts
        rows.check_closed(source.path)

    def _ranges(self, source: Source, target_bytes: int) -> Iterator[Cut]:
        """Cut before the first row that starts at or after a multiple of `target_bytes`."""
        start = first_line = line = 0
        target = target_bytes
        for rows in self._row_starts(source):
            while target <= rows[-1]:
                place = int(np.searchsorted(rows, target))
                stop = int(rows[place])
                yield Cut(start=start, stop=stop, num_bytes=stop - start, first_line=first_line)
                start, first_line = stop, line + place + 1
                target = (stop // target_bytes + 1) * target_bytes
            line += len(rows)
        stop = source.num_bytes
        yield Cut(start=start, stop=stop, num_bytes=stop - start, first_line=first_line)


class CsvRecords:
    """Turn blocks of rows into records."""

    def __init__(self, names: Sequence[str], wanted: Wanted, delimiter: str) -> None:
        keys = names if wanted.keys is None else sorted(wanted.keys.tops)
        places = {name: place for place, name in enumerate(names)}
        self._places = {key: places[key] for key in keys if key in places}
        self._num_columns = len(names)
        self._delimiter = delimiter
        self._max_record_bytes = wanted.max_record_bytes

    def __call__(self, block: LineBlock, first_line: int) -> Records:
        limit = self._max_record_bytes
        if block.num_bytes <= limit or not (block.ends - block.starts > limit).any():
            records = self._all_at_once(block, first_line)
            if records is not None:
                return records
        return self._one_by_one(block, first_line)

    def _all_at_once(self, block: LineBlock, first_line: int) -> Records | None:
        """Decode all rows in one call; return None if rows must be decoded one by one."""
        data = block.data[int(block.starts[0]) : int(block.ends[-1]) + 1]
        if b"\0" in data:
            return None
        try:
            lines = io.StringIO(data.decode("utf-8"), newline="\n")
            rows = list(_reader(lines, self._delimiter))
        except (UnicodeDecodeError, csv.Error):
            return None
        lengths = set(map(len, rows))
        if len(rows) != len(block.starts) or not lengths <= {0, self._num_columns}:
            return None
        filled = np.arange(len(rows))
        if 0 in lengths:
            filled = np.flatnonzero(np.fromiter(map(len, rows), np.int64, len(rows)))
            rows = [row for row in rows if row]
        return self._records(block, first_line, filled, rows)

    def _one_by_one(self, block: LineBlock, first_line: int) -> Records:
        filled: list[int] = []
        rows: list[list[str]] = []
        errors: list[RecordError] = []
        ranges = zip(block.starts.tolist(), block.ends.tolist(), strict=True)
        for i, (start, end) in enumerate(ranges):
            try:
                row = self._row(block, start, end)
            except ValueError as error:
                errors.append(
                    RecordError(
                        line=first_line + i,
                        offset=block.position + start,
                        reason=str(error),
                        excerpt=excerpt_of_bytes(memoryview(block.data)[start:end]),
                    )
                )
                continue
            if row:
                filled.append(i)
                rows.append(row)
        places = np.array(filled, np.int64)
        return replace(self._records(block, first_line, places, rows), errors=tuple(errors))

    def _row(self, block: LineBlock, start: int, end: int) -> list[str]:
        if end - start > self._max_record_bytes:
            raise ValueError(too_long_reason(end - start, self._max_record_bytes))
        row = _decode_row(block.data[start:end], self._delimiter)
        if row and len(row) != self._num_columns:
            raise ValueError(
                f"has {_counted(len(row))}, but row 1 names {_counted(self._num_columns)}; "
                f"put quotes around fields that hold {self._delimiter!r} or line breaks"
            )
        return row

    def _records(
        self, block: LineBlock, first_line: int, filled: Offsets, rows: Sequence[Sequence[str]]
    ) -> Records:
        return Records(
            lines=filled + first_line,
            offsets=block.starts[filled] + block.position,
            next_line=first_line + len(block.starts),
            num_bytes=block.num_bytes,
            columns={key: [row[place] for row in rows] for key, place in self._places.items()},
        )


def _reader(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    if csv.field_size_limit() < _LONGEST_FIELD:  # for the whole process, so it is never lowered
        csv.field_size_limit(_LONGEST_FIELD)
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _decode_row(data: bytes, delimiter: str) -> list[str]:
    """Return the fields of a row, none for a blank one; ValueError says what is wrong."""
    if b"\0" in data:
        raise ValueError(f"has a NUL at byte {data.index(0)} of the row; write the file as text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise ValueError(f"{invalid_utf8_reason(fault, 'row')}; write it as UTF-8") from None
    try:
        (row,) = _reader([text], delimiter)
    except csv.Error as error:
        raise ValueError(
            f"not valid CSV: {error}; put quotes around fields that hold quotes or line breaks, "
            "and double the quotes inside"
        ) from None
    return row


def _check_names(names: Sequence[str], wanted: Collection[str]) -> None:
    if not names:
        raise ValueError("is blank; begin with the row that names the columns")
    if "" in wanted:
        raise ValueError(f"has no name for column {names.index('') + 1}; name it")
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1 and name in wanted), None)
    if twice is not None:
        raise ValueError(f"names column {twice!r} twice; rename one of them")


def _counted(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _num_filled(block: LineBlock) -> int:
    """Count the rows that are not blank."""
    if not block.is_kept:
        return len(block.starts)
    ranges = zip(block.starts.tolist(), block.ends.tolist(), strict=True)
    return sum(1 for start, end in ranges if block.data[start:end].strip(b"\r"))
