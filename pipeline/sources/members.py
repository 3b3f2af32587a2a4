"""Turn the contents of a tar's members into the fields of a record.

    txt    "a cat\\n"               text: "a cat"             NAME.txt    NAME: "a cat"
    json   {"id": 7, "tags": []}   id: 7, tags: []           NAME.json   NAME: {"id": 7, "tags": []}
    npy    array([754, 1512])      npy: array([754, 1512])   NAME.npy    NAME: array([754, 1512])
    cls    "3\\n"                   cls: "3"                  NAME.cls    NAME: "3"

The key is the field `__key__`. A member that gives no wanted field is not read; a .json may give
any field. JSON is read like a line of a .jsonl; arrays hold integers and are never unpickled.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import short
from dataprep.pipeline.sources.bundles import KEY, Bundle, Member
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.json.array import JSON_SPACE
from dataprep.pipeline.sources.json.records import JsonRecords
from dataprep.pipeline.sources.keys import Keys, tops_of
from dataprep.pipeline.sources.lines import LineBlock
from dataprep.pipeline.sources.npy_header import integers_in
from dataprep.pipeline.sources.reasons import explain, invalid_utf8_reason, too_long_reason
from dataprep.pipeline.sources.tars import PACK_AGAIN, read_content
from dataprep.pipeline.types import Record

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class BundleDecoder:
    """Turn a bundle into a record; a ValueError says why that fails."""

    def __init__(self, file: Any, path: str, wanted: Wanted) -> None:
        self._file = file
        self._path = path
        self._wanted = wanted
        self._tops = tops_of(wanted.keys)

    def __call__(self, bundle: Bundle) -> Record:
        keys, tops = self._wanted.keys, self._tops
        members = bundle.wanted(tops)
        _check_extensions(bundle)
        size = sum(member.size for member in members)
        if size > self._wanted.max_record_bytes:
            raise ValueError(too_long_reason(size, self._wanted.max_record_bytes))
        record: dict[str, Any] = {KEY: bundle.key}
        given_by = {KEY: "its name"}
        for member in members:
            for field, value in self._fields(member).items():
                if field not in record:
                    record[field], given_by[field] = value, member.name
                elif (tops is None or field in tops) and not _is_same_text(record[field], value):
                    raise ValueError(
                        f"field {field!r} is given by {given_by[field]} and, with another value, "
                        f"by {member.name}; keep one"
                    )
        if keys is not None and keys.lacking(record):
            # The caller's error lists the fields that exist, so add those that were not read.
            record = dict.fromkeys(m.field for m in bundle.members if m.field) | record
        return record

    def _fields(self, member: Member) -> Record:
        try:
            if member.what:
                raise ValueError(f"{member.what}, not a file; {PACK_AGAIN}")
            data = read_content(self._file, self._path, member.content, member.size)
            if member.kind == "json":
                return self._json(member.field, data)
            return {member.field: _VALUES[member.kind](data)}
        except ValueError as error:
            raise ValueError(f"{member.name}: {error}") from None

    def _json(self, field: str, data: bytes) -> Record:
        if not data.strip(JSON_SPACE):
            raise ValueError("not valid JSON: it is empty")
        if not field:
            return _object(self._own_object, data)
        try:
            msgspec.json.decode(data)  # `1, "b": 2` is no value, but would fit into an object
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ValueError(explain(data, error)) from None
        return _object(self._any_object, b"{%b: %b}" % (json.dumps(field).encode(), data))

    @cached_property
    def _own_object(self) -> JsonRecords:
        keys = self._wanted.keys
        if keys is None:
            return self._objects(None)
        own = replace(keys, needed=keys.needed - {KEY}, maybe=keys.maybe - {KEY})
        return self._objects(own)

    @cached_property
    def _any_object(self) -> JsonRecords:
        return self._objects(None)

    def _objects(self, keys: Keys | None) -> JsonRecords:
        held_by = self._wanted.held_by
        return JsonRecords(keys, held_by=held_by, in_lines=False, max_record_bytes=sys.maxsize)


def _check_extensions(bundle: Bundle) -> None:
    names: dict[str, str] = {}  # by extension
    for member in bundle.members:
        if member.extension in names:
            first = names[member.extension]
            raise ValueError(f"{first} and {member.name} have the same key and extension; keep one")
        if member.kind:
            names[member.extension] = member.name


def _is_same_text(one: Any, other: Any) -> bool:
    return isinstance(one, str) and isinstance(other, str) and one == other


def _text(data: bytes) -> str:
    try:
        # One newline at the end was added by an editor and is not part of the text.
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as fault:
        raise ValueError(invalid_utf8_reason(fault, "text")) from None


def _number(data: bytes) -> str:
    """Return a class number as text, so that it can be a text field.

    >>> _number(b"007\\n")
    '7'
    """
    text = data.strip().decode("utf-8", "replace")
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"must be a class number, got {short(text)!r}")
    return str(int(text))


def _codes(data: bytes) -> NDArray[Any]:
    values = integers_in(data)
    if not values.ndim:
        raise ValueError("a single number; save an array")
    return values


_VALUES: Mapping[str, Callable[[bytes], Any]] = {"txt": _text, "cls": _number, "npy": _codes}


def _object(records: JsonRecords, data: bytes) -> Record:
    """Decode `data`, which is one object."""
    starts, ends = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    block = LineBlock(data=data, position=0, starts=starts, ends=ends, num_bytes=len(data))
    found = records(block, 0)
    if found.errors:
        raise ValueError(found.errors[0].reason)
    return found.as_rows()[0]
