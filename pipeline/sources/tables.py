"""Turn the rows of Arrow record batches into records, for Parquet and Arrow files alike.

Values become Python values, null becomes None, and lists of codes become arrays. A value that
Python cannot represent (text that is not UTF-8, a date before year 1) is an error of its row; data
that breaks Arrow's own rules is an error of the file. `table_columns` says which columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.excerpts import excerpt_of
from dataprep.pipeline.ragged import CODE_KEYS, Holds, IntegerLists, taken
from dataprep.pipeline.sources.batches import empty_batch, too_long_batch
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.reasons import invalid_utf8_reason
from dataprep.pipeline.sources.sizes import Sizes, row_sizes
from dataprep.pipeline.sources.table_columns import Columns, Way, column_at, type_at
from dataprep.pipeline.types import RecordError, Records

# Rows that are measured at once; there may be very many in one batch.
MAX_ROWS = 8192


@contextmanager
def table_errors(path: str, format_name: str) -> Iterator[None]:
    """Turn errors of pyarrow into InputErrors that name the file. Use only around pyarrow calls."""
    import pyarrow as pa

    try:
        yield
    except (
        pa.ArrowException,
        OSError,
        UnicodeDecodeError,
    ) as error:  # the last: a name of a column
        raise broken_table(path, format_name, str(error).partition("\n")[0]) from error


def broken_table(path: str, format_name: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as {format_name}: {cause}; the file is damaged, cut off or not"
        f" {format_name} at all: copy or write it again"
    )


def rows_before(sizes: Sequence[tuple[int, int]], starts: Sequence[int]) -> list[int]:
    """Count the rows before each of the groups `starts`; `sizes` has (rows, bytes) of all groups.

    >>> rows_before([(5, 0), (7, 0)], [0, 1, 2])
    [0, 5, 12]
    """
    totals = [0, *accumulate(rows for rows, _ in sizes)]
    return [totals[start] for start in starts]


class TableRows:
    """Turns the rows of record batches that follow each other in a file into records."""

    def __init__(self, wanted: Wanted, columns: Columns, path: str) -> None:
        self.line = 0  # the next one
        self._wanted = wanted
        self._columns = columns
        self._path = path

    def read(
        self, batches: Iterable[Any], *, growth: Growth, bytes_of_row: float, schema: Any = None
    ) -> Iterator[Records]:
        """Yield the records of batches that are stored together.

        `schema`: what columns are read as, where a batch has them as dictionaries.
        """
        grown = 0.0
        limit = self._wanted.max_record_bytes
        for batch in batches:
            skipped = min(batch.num_rows, max(0, self._wanted.from_line - self.line))
            self.line += skipped
            if skipped:
                yield empty_batch(next_line=self.line, num_bytes=int(skipped * bytes_of_row))
            for start in range(skipped, batch.num_rows, MAX_ROWS):
                rows = batch.slice(start, MAX_ROWS)
                sizes = self._measure(rows)
                grown += float(sizes[sizes <= limit].sum())
                growth.check(grown)
                for first, stop in cut_rows(sizes, self._wanted):
                    if sizes[first] > limit:
                        yield too_long_batch(self.line, int(sizes[first]), limit)
                    else:
                        yield self._records(
                            rows.slice(first, stop - first),
                            schema,
                            num_bytes=int((stop - first) * bytes_of_row),
                            content_bytes=int(sizes[first:stop].sum()),
                        )
                    self.line += stop - first

    @property
    def leaves(self) -> list[str]:
        """Return the columns that are read, those inside structs by their paths."""
        return sorted({".".join(way) for ways in self._columns.values() for way in ways})

    def _measure(self, batch: Any) -> Sizes:
        sizes = np.zeros(batch.num_rows)
        for name, ways in self._columns.items():
            for top in {way[0] for way in ways}:
                _validate(batch.column(top), name, self._path)
            # Of several, each counts: which of them a row has is not known yet.
            sizes += sum(row_sizes(column_at(batch, way)) for way in ways)
        return sizes

    def _records(self, batch: Any, schema: Any, *, num_bytes: int, content_bytes: int) -> Records:
        columns: dict[str, Sequence[Any]] = {}
        reasons: dict[int, str] = {}  # by row; that of the first bad column
        for name, ways in self._columns.items():
            column = self._first_given(name, [self._plain(batch, way, schema) for way in ways])
            columns[name], bad = _values(column, name, self._wanted.held_by(name))
            reasons = bad | reasons
        good = np.delete(np.arange(batch.num_rows), list(reasons)).astype(np.int64)
        excerpts = {i: excerpt_of({k: v[i] for k, v in columns.items()}) for i in reasons}
        if reasons:
            columns = {name: taken(values, good) for name, values in columns.items()}
        return Records(
            lines=good + self.line,
            offsets=np.full(len(good), -1, np.int64),
            next_line=self.line + batch.num_rows,
            num_bytes=num_bytes,
            content_bytes=content_bytes,
            columns=columns,
            errors=tuple(
                RecordError(line=self.line + i, offset=-1, reason=reasons[i], excerpt=excerpts[i])
                for i in sorted(reasons)
            ),
        )

    def _plain(self, batch: Any, way: Way, schema: Any) -> Any:
        """Return a column as the schema has it, if it was read as a dictionary."""
        column = column_at(batch, way)
        kind = None if schema is None else type_at(schema, way)
        if kind is not None and column.type != kind:
            with table_errors(self._path, "Parquet"):
                column = column.cast(kind)
        return column

    def _first_given(self, name: str, columns: Sequence[Any]) -> Any:
        """Return one column, with the first value of each row that is not null."""
        if not columns[0].null_count or len(columns) == 1:
            return columns[0]
        import pyarrow.compute as pc
        from pyarrow import types

        typed = [column for column in columns if not types.is_null(column.type)] or columns[:1]
        if len({str(column.type) for column in typed}) > 1:
            kinds = " and ".join(str(column.type) for column in typed)
            raise InputError(
                f"column {name!r} of {self._path} stands there twice, with types that do not go "
                f"together ({kinds}); rename one of them"
            )
        with table_errors(self._path, "Parquet or Arrow"):
            return pc.coalesce(*map(_without_views, typed))


def _without_views(column: Any) -> Any:
    """Return a column of which `coalesce` knows the type: views of texts as texts."""
    import pyarrow as pa

    for view, plain in (("string_view", pa.large_string), ("binary_view", pa.large_binary)):
        if str(column.type) == view:
            return column.cast(plain())
    return column.storage if hasattr(column.type, "storage_type") else column


def cut_rows(sizes: Sizes, wanted: Wanted) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about `batch_bytes` each; a row that is too long is alone."""
    totals = np.cumsum(sizes)
    too_long = np.flatnonzero(sizes > wanted.max_record_bytes).tolist()
    start = 0
    for end in (*too_long, len(sizes)):
        while start < end:
            before = totals[start - 1] if start else 0.0
            full = int(np.searchsorted(totals, before + wanted.batch_bytes, side="right"))
            stop = min(max(full, start + 1), end)
            yield start, stop
            start = stop
        if end < len(sizes):
            yield end, end + 1
            start = end + 1


def _validate(column: Any, name: str, path: str) -> None:
    """Raise an InputError if the column breaks Arrow's rules.

    Arrow trusts the offsets in a file: wrong ones would crash the process, not raise.
    """
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF" not in str(error):
            raise broken_table(path, "Arrow", f"column {name!r}: {error}") from error


def _values(column: Any, name: str, holds: Holds) -> tuple[Sequence[Any], dict[int, str]]:
    """Return (values, the reasons by index of those that cannot be read)."""
    try:
        return _DECODE[holds](column), {}
    except (ValueError, OverflowError):
        return _one_by_one(column, name)


def _plain(column: Any) -> Sequence[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _codes(column: Any) -> Sequence[Any]:
    """Return lists of integers, also those inside lists, as arrays; other values unchanged."""
    lists = _integer_lists(column)
    if lists is not None:
        return lists
    filled = _integer_lists(column.drop_null()) if column.null_count else None
    if filled is not None:
        each = iter(filled)
        return [next(each) if valid else None for valid in column.is_valid().to_pylist()]
    kind = column.type
    if column.null_count or not _is_list(kind) or not _is_list(kind.value_type):
        return _plain(column)
    inner = _integer_lists(column.flatten())
    return _plain(column) if inner is None else _in_lists(inner, column)


def _numbers(column: Any) -> Sequence[Any]:
    """Return lists of integers, floats or truth values as arrays; other values unchanged."""
    lists = _number_lists(column)
    if lists is not None:
        return lists
    filled = _number_lists(column.drop_null()) if column.null_count else None
    if filled is None:
        return _plain(column)
    each = iter(filled)
    return [next(each) if valid else None for valid in column.is_valid().to_pylist()]


def _segments(column: Any) -> Sequence[Any]:
    """Return lists of objects with their codes as arrays; other values unchanged."""
    from pyarrow import types

    kind = column.type
    if column.null_count or not _is_list(kind) or not types.is_struct(kind.value_type):
        return _plain(column)
    objects = column.flatten()
    if objects.null_count:
        return _plain(column)
    names = [kind.value_type.field(i).name for i in range(kind.value_type.num_fields)]
    children = [
        (_codes if name in CODE_KEYS else _plain)(child)
        for name, child in zip(names, objects.flatten(), strict=True)
    ]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*children, strict=True)]
    return _in_lists(rows, column)


def _in_lists(inner: Sequence[Any], column: Any) -> list[list[Any]]:
    bounds = column.offsets.to_numpy() - column.offsets[0].as_py()
    return [list(inner[start:stop]) for start, stop in pairwise(bounds.tolist())]


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind))


_DECODE: Mapping[Holds, Callable[[Any], Sequence[Any]]] = {
    "": _plain,
    "codes": _codes,
    "segments": _segments,
    "numbers": _numbers,
}


def _integer_lists(column: Any) -> IntegerLists | None:
    """Return lists of integers without a null, not copied; None for any other column."""
    from pyarrow import types

    return _lists_of(column, types.is_integer)


def _number_lists(column: Any) -> IntegerLists | None:
    """Return lists of numbers without a null; None for any other column."""
    from pyarrow import types

    return _lists_of(
        column,
        lambda kind: types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind),
    )


def _lists_of(column: Any, is_wanted: Callable[[Any], bool]) -> IntegerLists | None:
    from pyarrow import types

    kind = column.type
    in_lists = _is_list(kind)
    if not in_lists and not types.is_fixed_size_list(kind):
        return None
    if not is_wanted(kind.value_type) or column.null_count:
        return None
    values = column.flatten()  # of this slice only
    if values.null_count:
        return None
    if in_lists:
        offsets = column.offsets.to_numpy().astype(np.int64)
        offsets -= offsets[0]
    else:
        offsets = np.arange(len(column) + 1) * kind.list_size
    return IntegerLists(values.to_numpy(zero_copy_only=False), offsets)


def _one_by_one(column: Any, name: str) -> tuple[list[Any], dict[int, str]]:
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for i, scalar in enumerate(column):
        value = None
        try:
            value = scalar.as_py()
        except UnicodeDecodeError as fault:
            reasons[i] = invalid_utf8_reason(fault, f"column {name!r}")
        except (ValueError, OverflowError) as error:
            reasons[i] = f"column {name!r} holds a value that cannot be read: {error}"
        values.append(value)
    return values, reasons
