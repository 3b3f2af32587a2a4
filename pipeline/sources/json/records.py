"""Turn lines of JSON into records.

There are two ways, with the same result for every line:

    all lines at once   one call for the block, 400 to 500 MB/s; used if it is certain that every
                        line is one object with all wanted keys, each once
    line by line        half as fast; finds out what is wrong with which line

Only the first way returns codes as arrays: `raw` decodes blocks that may hold codes, and whole
records.

Only the wanted keys of a record are decoded and checked; the rest is skipped if it is JSON, or
nearly (`lenient`). A record that lacks a wanted key is returned whole, so that an error can list
the keys it has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from dataprep.pipeline.ragged import HeldBy
from dataprep.pipeline.sources.batches import as_columns
from dataprep.pipeline.sources.json.array import JSON_SPACE
from dataprep.pipeline.sources.json.layout import lay_out_elements, lay_out_lines
from dataprep.pipeline.sources.json.lenient import decode_leniently
from dataprep.pipeline.sources.json.raw import DecodedObjects, decode_raw
from dataprep.pipeline.sources.lines import LineBlock
from dataprep.pipeline.sources.reasons import DuplicateKeyError, explain, too_long_reason
from dataprep.pipeline.types import Record, RecordError, Records

# Characters that msgspec does not allow in the name of a field. For such a key, whole records are
# decoded.
_UNUSABLE = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')


class _MatchesAll(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True


class _Key(metaclass=_MatchesAll):
    """Stands for `str` as the type of a key, so that the decoder passes every key to a hook."""


class WantedDecoder:
    """Decodes some keys of an object.

    Each key has its own type, unknown to msgspec, which therefore passes every value to a hook.
    The hook keeps the values: these are the columns, and a key that appears twice in an object
    makes a column too long.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        types = [type(f"_Wanted{i}", (), {}) for i in range(len(self.keys))]
        self._values: list[list[Any]] = [[] for _ in types]
        names = [f"field{i}" for i in range(len(self.keys))]
        struct = msgspec.defstruct(
            "_WantedFields",
            list(zip(names, types, strict=True)),
            rename=dict(zip(names, self.keys, strict=True)),
            gc=False,
        )
        appends = {kind: values.append for kind, values in zip(types, self._values, strict=True)}
        placeholders = {kind: kind() for kind in types}

        def keep(kind: type, value: object) -> object:
            appends[kind](value)
            return placeholders[kind]

        self._decoder = msgspec.json.Decoder(struct, dec_hook=keep)

    def lines(self, data: memoryview) -> DecodedObjects | None:
        """Return all objects, or None unless each has every key once. Raises msgspec's errors."""
        self._forget()
        count = len(self._decoder.decode_lines(data))
        columns = {key: values.copy() for key, values in zip(self.keys, self._values, strict=True)}
        self._forget()  # the caller's columns are the only ones that hold the values
        if any(len(column) != count for column in columns.values()):
            return None
        return DecodedObjects(count=count, columns=columns)

    def one(self, data: bytes) -> dict[str, Any]:
        self._forget()
        self._decoder.decode(data)
        for key, values in zip(self.keys, self._values, strict=True):
            if len(values) > 1:
                raise DuplicateKeyError(key)
        return {key: values[0] for key, values in zip(self.keys, self._values, strict=True)}

    def _forget(self) -> None:
        for values in self._values:
            values.clear()


class WholeDecoder:
    """Decodes whole objects; `watched` keys (None: all) must not appear twice in one."""

    def __init__(self, watched: frozenset[str] | None) -> None:
        self._watched = watched
        self._seen: list[str] = []
        self._decoder = msgspec.json.Decoder(dict[_Key, Any], dec_hook=self._see)

    def _see(self, kind: type, key: Any) -> Any:
        self._seen.append(key)
        return key

    def one(self, data: bytes) -> dict[str, Any]:
        self._seen = []
        record: dict[Any, Any] = self._decoder.decode(data)
        if len(record) < len(self._seen):
            counts = Counter(self._seen)
            for key in record:
                if counts[key] > 1 and (self._watched is None or key in self._watched):
                    raise DuplicateKeyError(key)
        return record


class SegmentChecker:
    """Finds a key that appears twice in one of the objects of a list."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._values = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._objects = msgspec.json.Decoder(list[dict[_Key, Any]], dec_hook=self._see)

    def _see(self, kind: type, key: Any) -> Any:
        self._seen.append(key)
        return key

    def check(self, data: bytes, keys: Sequence[str]) -> None:
        """Check the lists under `keys`; values of other types are refused elsewhere."""
        values = self._values.decode(data)
        for key in keys:
            self._seen = []
            try:
                objects: list[dict[Any, Any]] = self._objects.decode(values[key])
            except msgspec.ValidationError:
                continue
            kept = Counter(chain.from_iterable(objects))
            for name, count in Counter(self._seen).items():
                if count > kept[name]:
                    raise DuplicateKeyError(name)


class JsonRecords:
    """Turns blocks into records; `in_lines`: records are lines, and blank lines hold none."""

    def __init__(
        self,
        keys: frozenset[str] | None,
        *,
        held_by: HeldBy,
        in_lines: bool,
        max_record_bytes: int,
    ) -> None:
        self._keys = None if keys is None else sorted(keys)
        usable = keys is not None and not any(map(_UNUSABLE.search, keys))
        self._wanted = WantedDecoder(self._keys or ()) if usable else None
        self._whole = WholeDecoder(keys)
        self._segments = SegmentChecker()
        self._held_by = held_by
        self._may_have_codes = keys is None or (usable and any(map(held_by, keys)))
        self._in_lines = in_lines
        self._max_record_bytes = max_record_bytes

    def __call__(self, block: LineBlock, first_line: int) -> Records:
        limit = self._max_record_bytes
        if block.num_bytes <= limit or not (block.ends - block.starts > limit).any():
            records = self._all_at_once(block, first_line)
            if records is not None:
                return records
        return self._one_by_one(block, first_line)

    def _all_at_once(self, block: LineBlock, first_line: int) -> Records | None:
        layout = lay_out_lines(block) if self._in_lines else lay_out_elements(block)
        if layout is None:
            return None
        try:
            decoded = self._decode_all(layout.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if decoded is None or decoded.count != len(layout.lines):
            return None
        return Records(
            lines=layout.lines + first_line,
            offsets=layout.starts + block.position,
            next_line=first_line + len(block.starts),
            num_bytes=block.num_bytes,
            columns=decoded.columns,
            rows=decoded.rows,
        )

    def _decode_all(self, content: memoryview) -> DecodedObjects | None:
        """Return all objects, or None unless each has every wanted key once."""
        if self._may_have_codes:
            return decode_raw(content, self._keys, self._held_by)
        return None if self._wanted is None else self._wanted.lines(content)

    def _one_by_one(self, block: LineBlock, first_line: int) -> Records:
        found: list[tuple[int, int]] = []  # (line, offset)
        rows: list[Record] = []
        errors: list[RecordError] = []
        ranges = zip(block.starts.tolist(), block.ends.tolist(), strict=True)
        for line, (start, end) in enumerate(ranges, first_line):
            if end - start > self._max_record_bytes:
                reason = too_long_reason(end - start, self._max_record_bytes)
                errors.append(RecordError(line=line, offset=block.position + start, reason=reason))
                continue
            data = block.data[start:end]
            content = data.lstrip(JSON_SPACE)
            if self._in_lines and not content:
                continue
            offset = block.position + start + (0 if self._in_lines else len(data) - len(content))
            try:
                rows.append(self._decode(content))
                found.append((line, offset))
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                reason = explain(content, error)
                errors.append(RecordError(line=line, offset=offset, reason=reason))
        places = np.array(found, np.int64).reshape(-1, 2)
        columns = None if self._keys is None else as_columns(rows, self._keys)
        return Records(
            lines=places[:, 0],
            offsets=places[:, 1],
            next_line=first_line + len(block.starts),
            num_bytes=block.num_bytes,
            columns=columns,
            rows=rows if columns is None else None,
            errors=tuple(errors),
        )

    def _decode(self, data: bytes) -> Record:
        try:
            record = self._decode_strictly(data)
            segments = [key for key in record if self._held_by(key) == "segments"]
            if segments:
                self._segments.check(data, segments)
            return record
        except DuplicateKeyError:
            raise
        except (msgspec.DecodeError, ValueError) as error:
            if self._keys is None:
                raise
            try:
                return decode_leniently(data, self._keys, self._held_by)
            except DuplicateKeyError:
                raise
            except ValueError:
                raise error from None  # it says what is wrong, and where

    def _decode_strictly(self, data: bytes) -> Record:
        if self._wanted is not None:
            try:
                return self._wanted.one(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass  # a key is missing, or the whole decoder has a better message
        return self._whole.one(data)
