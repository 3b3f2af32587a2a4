"""Turn the rows of Arrow record batches into records, for Parquet and Arrow files alike.

Values become Python values, null becomes None, and lists of codes become arrays. A value that
Python cannot represent (text that is not UTF-8, a date before year 1) is an error of its row; data
that breaks Arrow's own rules is an error of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import CODE_KEYS, Holds, IntegerLists
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.reasons import invalid_utf8_reason
from dataprep.pipeline.types import Offsets, RecordError, Records


@contextmanager
def table_errors(path: str, format_name: str) -> Iterator[None]:
    """Turn errors of pyarrow into InputErrors that name the file. Use only around pyarrow calls."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise broken_table(path, format_name, str(error).partition("\n")[0]) from error


def broken_table(path: str, format_name: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as {format_name}: {cause}; the file is damaged, cut off or not"
        f" {format_name} at all: copy or write it again"
    )


def check_columns(keys: frozenset[str] | None, names: Sequence[str], path: str) -> None:
    """Raise an InputError unless every wanted column (None: all) exists exactly once."""
    for key in sorted(set(names) if keys is None else keys):
        if key not in names:
            raise InputError(
                f"column {key!r} not in {path} (columns: {', '.join(names)}); set --fields"
            )
        if list(names).count(key) > 1:
            raise InputError(f"column {key!r} appears twice in {path}; rename one of them")


def rows_before(sizes: Sequence[tuple[int, int]], starts: Sequence[int]) -> list[int]:
    """Count the rows before each of the groups `starts`; `sizes` has (rows, bytes) of all groups.

    >>> rows_before([(5, 0), (7, 0)], [0, 1, 2])
    [0, 5, 12]
    """
    totals = [0, *accumulate(rows for rows, _ in sizes)]
    return [totals[start] for start in starts]


def slices(batch: Any, batch_bytes: int) -> Iterator[Any]:
    """Yield slices of a record batch with about `batch_bytes` each."""
    num_rows = batch.num_rows
    step = max(1, num_rows * batch_bytes // max(1, batch.nbytes))
    for start in range(0, num_rows, step):
        yield batch.slice(start, step)


def table_records(
    batch: Any,
    wanted: Wanted,
    *,
    first_line: int,
    num_bytes: int,
    path: str,
) -> Records:
    names = batch.schema.names if wanted.keys is None else sorted(wanted.keys)
    columns: dict[str, Sequence[Any]] = {}
    reasons: dict[int, str] = {}  # by row; that of the first bad column
    for name in names:
        columns[name], bad = _values(batch.column(name), name, path, wanted.held_by(name))
        reasons = bad | reasons
    good = np.delete(np.arange(batch.num_rows), list(reasons)).astype(np.int64)
    if reasons:
        columns = {name: _chosen(values, good) for name, values in columns.items()}
    return Records(
        lines=good + first_line,
        offsets=np.full(len(good), -1, np.int64),
        next_line=first_line + batch.num_rows,
        num_bytes=num_bytes,
        columns=columns,
        errors=tuple(
            RecordError(line=first_line + i, offset=-1, reason=reasons[i]) for i in sorted(reasons)
        ),
    )


def _chosen(values: Sequence[Any], rows: Offsets) -> Sequence[Any]:
    if isinstance(values, IntegerLists):
        return values.take(rows)
    return [values[i] for i in rows]


def _values(
    column: Any, name: str, path: str, holds: Holds
) -> tuple[Sequence[Any], dict[int, str]]:
    """Return (values, the reasons by index of those that cannot be read)."""
    import pyarrow as pa

    try:
        # Arrow trusts the offsets in a file: wrong ones would crash the process, not raise.
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF" not in str(error):
            raise broken_table(path, "Arrow", f"column {name!r}: {error}") from error
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
}


def _integer_lists(column: Any) -> IntegerLists | None:
    """Return lists of integers without a null, not copied; None for any other column."""
    from pyarrow import types

    kind = column.type
    in_lists = _is_list(kind)
    if not in_lists and not types.is_fixed_size_list(kind):
        return None
    if not types.is_integer(kind.value_type) or column.null_count:
        return None
    values = column.flatten()  # of this slice only
    if values.null_count:
        return None
    if in_lists:
        offsets = column.offsets.to_numpy().astype(np.int64)
        offsets -= offsets[0]
    else:
        offsets = np.arange(len(column) + 1) * kind.list_size
    return IntegerLists(values.to_numpy(), offsets)


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
