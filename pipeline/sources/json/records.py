"""Turn lines of JSON into records.

There are two ways, with the same result for every line:

    all lines at once   one call for the block, 400 to 500 MB/s; used if it is certain that every
                        line is one object with all needed keys, and none of the wanted twice
    line by line        half as fast; finds out what is wrong with which line

Only the first way returns codes as arrays: `raw` decodes blocks that may hold codes, and whole
records.

Only the wanted keys of a record are decoded and checked; the rest is skipped if it is JSON, or
nearly (`lenient`). A record that lacks a needed key is returned whole, so that an error can list
the keys it has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from dataprep.pipeline.guards.excerpts import excerpt_of_bytes
from dataprep.pipeline.ragged import HeldBy
from dataprep.pipeline.sources.batches import as_columns
from dataprep.pipeline.sources.json.array import JSON_SPACE
from dataprep.pipeline.sources.json.layout import lay_out_elements, lay_out_lines
from dataprep.pipeline.sources.json.lenient import decode_leniently
from dataprep.pipeline.sources.json.raw import DecodedObjects, decode_raw
from dataprep.pipeline.sources.json.repeats import RawTops, check_inside_text
from dataprep.pipeline.sources.keys import Keys, tops_of
from dataprep.pipeline.sources.lines import LineBlock
from dataprep.pipeline.sources.reasons import DuplicateKeyError, explain, too_long_reason
from dataprep.pipeline.types import ABSENT, Record, RecordError, Records

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
    makes a column too long. A key that an object may lack has a default, which tells where it does.
    """

    def __init__(self, wanted: Keys) -> None:
        self._wanted = wanted
        self._inside = RawTops(wanted)
        fixed = sorted(wanted.fixed)
        self.keys = (*fixed, *sorted(wanted.tops - wanted.fixed))
        types = [type(f"_Wanted{i}", (), {}) for i in range(len(self.keys))]
        self._values: list[list[Any]] = [[] for _ in types]
        names = [f"field{i}" for i in range(len(self.keys))]
        # Of the keys that an object may lack: None is what it has then, even if its value is null.
        readers = [attrgetter(name) for name in names[len(fixed) :]]
        self._readers = [*repeat(None, len(fixed)), *readers]
        struct = msgspec.defstruct(
            "_WantedFields",
            [
                (name, kind) if read is None else (name, kind, None)
                for name, kind, read in zip(names, types, self._readers, strict=True)
            ],
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
        """Return all objects, or None unless each has every needed key, and none a key twice.
        Raises msgspec's errors."""
        self._forget()
        objects = self._decoder.decode_lines(data)
        columns: dict[str, list[Any]] = {}
        for key, values, read in zip(self.keys, self._values, self._readers, strict=True):
            there = None if read is None else [read(item) is not None for item in objects]
            columns[key] = values.copy() if there is None else _spread(values, there)
        self._forget()  # the caller's columns are the only ones that hold the values
        if any(len(column) != len(objects) for column in columns.values()):
            return None
        if _lack(columns, self._wanted) or self._inside.may_repeat(data, columns):
            return None
        return DecodedObjects(count=len(objects), columns=columns)

    def one(self, data: bytes) -> dict[str, Any]:
        self._forget()
        self._decoder.decode(data)
        for key, values in zip(self.keys, self._values, strict=True):
            if len(values) > 1:
                raise DuplicateKeyError(key)
        pairs = zip(self.keys, self._values, strict=True)
        found = {key: values[0] for key, values in pairs if values}
        if self._wanted.lacking(found):
            raise msgspec.ValidationError("a needed key is missing")
        return found

    def _forget(self) -> None:
        for values in self._values:
            values.clear()


def _spread(values: list[Any], there: list[bool]) -> list[Any]:
    """Return the values at the places of their objects; too many of them if a key came twice."""
    if len(values) != sum(there):
        return [*values, *there, ABSENT]
    each = iter(values)
    return [next(each) if is_there else ABSENT for is_there in there]


def _lack(columns: Mapping[str, list[Any]], wanted: Keys) -> bool:
    """Return whether an object has a needed path neither as a key nor as an object."""
    return any(
        key is ABSENT and top is ABSENT
        for name in wanted.needed - wanted.fixed
        for key, top in zip(columns[name], columns[wanted.top_of(name)], strict=True)
    )


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


class JsonRecords:
    """Turns blocks into records; `in_lines`: records are lines, and blank lines hold none."""

    def __init__(
        self,
        keys: Keys | None,
        *,
        held_by: HeldBy,
        in_lines: bool,
        max_record_bytes: int,
    ) -> None:
        self._keys = keys
        tops = tops_of(keys)
        usable = tops is not None and not any(map(_UNUSABLE.search, tops))
        self._wanted = WantedDecoder(keys) if keys is not None and usable else None
        self._whole = WholeDecoder(tops)
        self._held_by = held_by
        self._may_have_codes = tops is None or (usable and any(map(held_by, tops)))
        # Whether keys of objects inside a record are read.
        self._reads_inside = (
            keys is None or bool(keys.ways) or any(held_by(top) == "segments" for top in keys.tops)
        )
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
                errors.append(
                    RecordError(
                        line=line,
                        offset=block.position + start,
                        reason=reason,
                        excerpt=excerpt_of_bytes(memoryview(block.data)[start:end]),
                    )
                )
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
                excerpt = excerpt_of_bytes(content)
                errors.append(RecordError(line=line, offset=offset, reason=reason, excerpt=excerpt))
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
            if self._reads_inside:
                check_inside_text(data, self._keys, self._held_by)
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
