"""The keys of some records, nested ones by their paths, and what stands under each.

    {"id": 7, "meta": {"title": "A", "tags": ["x"]}, "body": "It was …"}
    id other · meta.title texts · meta.tags other · body texts

A column is of a kind if nearly all of its values are; nulls are no values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from dataprep.pipeline.types import Record

ValueKind = Literal["texts", "integers", "objects", "bytes", "other"]

NEARLY_ALL = 0.95
MAX_DEPTH = 3  # of nested keys
MAX_COLUMNS = 500  # of one table: more are not worth a look
LOOKED_AT = 64  # items of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What stands under a key of some records."""

    key: str  # a.b for b in the object a
    kind: ValueKind
    records: int  # that were looked at
    values: tuple[Any, ...]  # not null

    @property
    def is_everywhere(self) -> bool:
        return len(self.values) == self.records

    @property
    def mean_length(self) -> float:
        """Return the mean length of its texts, over all records."""
        return sum(len(value) for value in self.values if isinstance(value, str)) / self.records


def columns_of(records: Sequence[Record]) -> dict[str, Column]:
    """Return the columns by their keys, in the order in which they are met.

    >>> found = columns_of([{"a": {"b": "x"}, "n": 1}, {"a": None, "n": 2}])
    >>> [(c.key, c.kind, c.is_everywhere) for c in found.values()]
    [('a.b', 'texts', False), ('n', 'other', True)]
    """
    values: dict[str, list[Any]] = {}
    for record in records:
        for key, value in _values(record, "", MAX_DEPTH):
            if key in values or len(values) < MAX_COLUMNS:
                values.setdefault(key, []).append(value)
    return {
        key: Column(key=key, kind=_kind_of(found), records=len(records), values=tuple(found))
        for key, found in values.items()
    }


def _values(record: Mapping[str, Any], above: str, depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if value is None or not isinstance(key, str):
            continue
        if isinstance(value, Mapping) and depth > 1:
            yield from _values(value, f"{above}{key}.", depth - 1)
        else:
            yield f"{above}{key}", value


def _kind_of(values: Sequence[Any]) -> ValueKind:
    kinds = Counter(_kind(value) for value in values)
    kind, count = kinds.most_common(1)[0]
    return kind if count >= NEARLY_ALL * len(values) else "other"


def _kind(value: Any) -> ValueKind:
    if isinstance(value, str):
        return "texts"
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, np.ndarray):
        return "integers" if value.dtype.kind in "iu" else "other"
    if isinstance(value, list) and value:
        if all(isinstance(item, Mapping) for item in islice(value, LOOKED_AT)):
            return "objects"
        kinds = {_kind_of_item(item) for item in islice(value, LOOKED_AT)}
        return "integers" if kinds == {"integers"} else "other"
    return "other"


def _kind_of_item(item: Any) -> ValueKind:
    is_list = isinstance(item, list | np.ndarray)
    if is_list:
        return _kind(item)
    return "integers" if isinstance(item, int) and not isinstance(item, bool) else "other"
