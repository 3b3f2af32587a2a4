"""Measure the rows of an Arrow array without making them: what is stored once may stand in many.

    dictionary ["x" * 1000]  indices [0, 0, 0]        sizes [1000, 1000, 1000], stored 1012 bytes
    list view  values [1, 2]  all of them, twice       sizes [16, 16]

Each value counts with its bytes, at least one. A size is the sum of what a value holds, and is
found without following it as often as it is repeated, so that nested repetition costs nothing. The
array must be valid: wrong offsets would be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sizes = NDArray[np.float64]  # of rows, in bytes; floats do not overflow

_VIEW = np.dtype([("length", np.int32), ("rest", np.int32, 3)])
_MOST = float(1 << 40)  # more than any limit; sums of more would lose the smaller ones


def row_sizes(array: Any) -> Sizes:
    """Return how many bytes each row has."""
    sizes = _measure(array.type)(array)
    if array.null_count:
        sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), sizes, 1)
    return np.clip(sizes, 1, _MOST)


def _measure(kind: Any) -> Callable[[Any], Sizes]:
    from pyarrow import types

    for name, measure in _MEASURES:
        is_kind = getattr(types, f"is_{name}", None)  # older versions lack some types
        if is_kind is not None and is_kind(kind):
            return measure
    return _extension if hasattr(kind, "storage_type") else _fixed


def _fixed(array: Any) -> Sizes:
    width = _width(array.type)
    if width is None:  # a type that is newer than this
        width = array.nbytes / max(1, len(array))
    return np.full(len(array), width)


def _width(kind: Any) -> float | None:
    """Return the bytes of a value of this type; None if they differ."""
    from pyarrow import types

    if types.is_null(kind):
        return 1.0
    if types.is_nested(kind) or types.is_dictionary(kind):
        return None
    try:
        return max(1.0, float(kind.bit_width) / 8)
    except ValueError:
        return None


def _binary(array: Any) -> Sizes:
    # By its offsets: `pyarrow.compute` takes 0.2 s and 45 MB to import.
    from pyarrow import types

    if not len(array):
        return np.zeros(0)
    is_large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    dtype = np.int64 if is_large else np.int32
    return np.diff(_in_buffer(array, 1, dtype, more=1)).astype(np.float64)


def _view(array: Any) -> Sizes:
    """The length of a value is the first number of its view."""
    return _in_buffer(array, 1, _VIEW)["length"].astype(np.float64)


def _list(array: Any) -> Sizes:
    offsets = _numbers(array.offsets).astype(np.int64)
    return _between(array.values, offsets[:-1], offsets[1:])


def _map(array: Any) -> Sizes:
    offsets = _numbers(array.offsets).astype(np.int64)
    ends = offsets[:-1], offsets[1:]
    return _between(array.keys, *ends) + _between(array.items, *ends)


def _list_view(array: Any) -> Sizes:
    starts = _numbers(array.offsets).astype(np.int64)
    return _between(array.values, starts, starts + _numbers(array.sizes).astype(np.int64))


def _fixed_list(array: Any) -> Sizes:
    width = array.type.list_size
    starts = np.arange(len(array)) * width + array.offset * width
    return _between(array.values, starts, starts + width)


def _struct(array: Any) -> Sizes:
    children = (array.field(i) for i in range(array.type.num_fields))
    return sum(map(row_sizes, children), np.zeros(len(array)))


def _dictionary(array: Any) -> Sizes:
    if not len(array.dictionary):
        return np.zeros(len(array))
    return row_sizes(array.dictionary)[_numbers(array.indices).astype(np.int64)]


def _runs(array: Any) -> Sizes:
    rows = np.arange(array.offset, array.offset + len(array))
    places = np.searchsorted(_numbers(array.run_ends), rows, side="right")
    return row_sizes(array.values)[places]


def _union(array: Any) -> Sizes:
    # Not `type_codes` and `offsets`, which do not follow a slice.
    kinds = _in_buffer(array, 1, np.int8)
    sizes = np.zeros(len(array))
    for i, code in enumerate(array.type.type_codes):
        chosen = np.flatnonzero(kinds == code)
        if len(chosen):
            is_dense = array.type.mode == "dense"
            rows = _in_buffer(array, 2, np.int32)[chosen] if is_dense else chosen
            sizes[chosen] = row_sizes(array.field(i))[rows]
    return sizes


def _extension(array: Any) -> Sizes:
    return row_sizes(array.storage)


def _in_buffer(array: Any, buffer: int, dtype: Any, more: int = 0) -> NDArray[Any]:
    """Return what a buffer has for the rows of an array, and `more` numbers after them.

    The buffer itself may be longer, by any number of bytes.
    """
    stop = array.offset + len(array) + more
    return np.frombuffer(array.buffers()[buffer], dtype, stop)[array.offset :]


def _between(values: Any, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Sizes:
    """Return the sizes of ranges of `values`."""
    width = _width(values.type)
    if width is not None:  # long lists of codes are not looked at one by one
        return np.asarray(np.maximum(0, stops - starts) * width)
    low, high = (int(starts.min()), int(stops.max())) if len(starts) else (0, 0)
    totals = np.zeros(max(0, high - low) + 1)
    np.cumsum(row_sizes(values.slice(low, max(0, high - low))), out=totals[1:])
    stops = np.maximum(starts, stops)
    return totals[stops - low] - totals[starts - low]


def _numbers(array: Any) -> NDArray[Any]:
    filled = array.fill_null(0) if array.null_count else array
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


# The first that applies; the names are those of `pyarrow.types`.
_MEASURES: tuple[tuple[str, Callable[[Any], Sizes]], ...] = (
    ("string", _binary),
    ("large_string", _binary),
    ("binary", _binary),
    ("large_binary", _binary),
    ("string_view", _view),
    ("binary_view", _view),
    ("list", _list),
    ("large_list", _list),
    ("map", _map),
    ("list_view", _list_view),
    ("large_list_view", _list_view),
    ("fixed_size_list", _fixed_list),
    ("struct", _struct),
    ("dictionary", _dictionary),
    ("run_end_encoded", _runs),
    ("union", _union),
)
