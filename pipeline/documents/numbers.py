"""Lists of numbers of records as flat arrays, however a source gives them.

    input_ids   [5, 9, 2]  [7]        a column of arrays as it is; Python lists one by one
    values      5 9 2 7
    offsets     0 3 4

A ValueError, or a reason for each record that is bad, says what is wrong with which key. What the
numbers mean is for others: `pretokenized`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.batch import BatchColumns
from dataprep.pipeline.documents.lookup import value_of
from dataprep.pipeline.documents.rule_set import TokenKeys
from dataprep.pipeline.errors import short
from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.types import Offsets, Record, Records

WHOLE = frozenset(
    ("tokens", "labels", "lengths")
)  # lists of whole numbers; others may be floats or bools
FLAGS = {"tokens": "--pretokenized"}  # the others are set as pretokenized.KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumns:
    """The lists of some records of a batch, by their role."""

    lists: Mapping[str, IntegerLists]
    kept: Offsets  # i64[n]: which records of the batch
    reasons: Mapping[int, str]  # why others are bad, by their place in the batch

    def without(self, reasons: Mapping[int, str]) -> NumberColumns:
        """Return the columns without some records; `reasons` are by their place among these."""
        if not reasons:
            return self
        left = np.delete(np.arange(len(self.kept)), list(reasons))
        bad = {int(self.kept[i]): reason for i, reason in reasons.items()}
        return NumberColumns(
            lists={role: column.take(left) for role, column in self.lists.items()},
            kept=self.kept[left],
            reasons={**self.reasons, **bad},
        )


def number_columns(records: Records, keys: TokenKeys, *, lwm: bool) -> NumberColumns:
    """Return the lists of a batch; records whose values are none have a reason instead."""
    found = _whole_columns(records, keys, lwm=lwm)
    if found is not None:
        kept = np.arange(len(records.lines))
        return NumberColumns(lists=found, kept=kept, reasons={})
    reasons: dict[int, str] = {}
    rows: list[int] = []
    arrays: dict[str, list[NDArray[Any]]] = {role: [] for role, _ in keys.roles}
    for i, record in enumerate(records.as_rows()):
        try:
            values = record_numbers(record, keys, lwm=lwm)
        except ValueError as error:
            reasons[i] = str(error)
            continue
        rows.append(i)
        for role, value in values.items():
            arrays[role].append(value)
    lists = {role: _joined(each, role) for role, each in arrays.items()}
    return NumberColumns(lists=lists, kept=np.array(rows, np.int64), reasons=reasons)


def record_numbers(record: Record, keys: TokenKeys, *, lwm: bool) -> dict[str, NDArray[Any]]:
    """Return the lists of one record; ValueError says what is wrong with which key."""
    return {
        role: numbers_of(value_of(record, key, _flag(role), lwm=lwm), key, role)
        for role, key in keys.roles
    }


def numbers_of(value: Any, key: str, role: str) -> NDArray[Any]:
    """Return a list as an array: int64 where the numbers must be whole, else as NumPy takes it.

    >>> numbers_of([5, 9], "input_ids", "tokens"), numbers_of([1, 0.5], "w", "weights")
    (array([5, 9]), array([1. , 0.5]))
    """
    if isinstance(value, list):
        kinds = set(map(type, value))
        allowed: set[type] = {int} if role in WHOLE else {int, float, bool}
        if not kinds <= allowed:
            raise ValueError(_wrong_item(value, key, role, allowed))
        try:
            return np.array(value, np.int64 if kinds <= {int} else np.float64)
        except OverflowError:
            raise ValueError(f"field {key!r} holds a number that does not fit 64 bits") from None
    if not isinstance(value, np.ndarray):
        got = "null" if value is None else f"{type(value).__name__} {short(repr(value))}"
        fix = "; if they are raw ids in MDS, set records to their type" if role == "tokens" else ""
        hint = fix if isinstance(value, bytes) else ""
        raise ValueError(f"field {key!r} must be a list of {_noun(role)}, got {got}{hint}")
    if value.ndim != 1:
        raise ValueError(_nested(key, role))
    if role not in WHOLE:
        return value
    if value.dtype.kind not in "iu":
        if not len(value):
            return value.astype(np.int64)
        raise ValueError(not_whole(key, role, value.dtype))
    if value.dtype == np.uint64 and len(value) and int(value.max()) >> 63:
        raise ValueError(f"field {key!r} holds a number that does not fit 63 bits")
    return value.astype(np.int64)


def not_whole(key: str, role: str, dtype: np.dtype[Any]) -> str:
    """Return what is wrong with an array of numbers that are not whole."""
    return f"field {key!r} holds {dtype.name} numbers; {_noun(role)} are whole numbers"


def flat(column: IntegerLists) -> tuple[NDArray[Any], Offsets]:
    """Return the values of all lists, and how many each has."""
    start, stop = int(column.offsets[0]), int(column.offsets[-1])
    return column.values[start:stop], np.diff(column.offsets)


def _whole_columns(
    records: Records, keys: TokenKeys, *, lwm: bool
) -> dict[str, IntegerLists] | None:
    """Return the columns if all of them are arrays, else None."""
    if records.columns is None:
        return None
    columns = BatchColumns(records.columns, lwm=lwm)
    found = {role: columns.of(key) for role, key in keys.roles}
    lists = {role: column for role, column in found.items() if isinstance(column, IntegerLists)}
    return lists if len(lists) == len(found) else None


def _joined(arrays: Sequence[NDArray[Any]], role: str) -> IntegerLists:
    dtype = np.int64 if role in WHOLE else np.float64
    values = np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)
    return IntegerLists(values, offsets_of([len(array) for array in arrays]))


def _wrong_item(value: list[Any], key: str, role: str, allowed: set[type]) -> str:
    place, item = next((i, v) for i, v in enumerate(value) if type(v) not in allowed)
    if isinstance(item, list | np.ndarray):
        return _nested(key, role)
    got = "null" if item is None else f"{type(item).__name__} {short(repr(item))}"
    whole = "whole numbers" if role in WHOLE else "numbers"
    return f"field {key!r} holds {got} at position {place}; {_noun(role)} are {whole}"


def _nested(key: str, role: str) -> str:
    return f"field {key!r} is a nested list; give the {_noun(role)} of a record as one flat list"


def _noun(role: str) -> str:
    nouns = {"tokens": "token ids", "loss_mask": "loss mask values"}
    return nouns.get(role, role.replace("_", " ") + ("" if role.endswith("s") else " values"))


def _flag(role: str) -> str:
    return FLAGS.get(role, f"pretokenized.{role}")
