"""Many JSON objects with lists of codes in them, decoded without a Python int for any code.

    {"vision": [754, 12], "caption": "a cat"}
    {"segments": [{"type": "text", "text": "a cat"}, {"type": "audio", "codes": [[7, 5], [3, 1]]}]}
    every object to its keys and the texts of its values     skipping: 850 MB/s
    texts of codes to arrays, by `digits`                     of all objects at once
    texts of other values to values                           of all objects at once

For blocks that are right in every line: whatever is wrong, `jsonrecords` looks for it line by line.
Skipping refuses what decoding refuses, but for invalid UTF-8 in strings and numbers out of range;
lists of digits have neither, and every other value that is wanted is decoded after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from operator import not_
from typing import Any

import msgspec
import numpy as np

from dataprep.pipeline.integer_lists import IsCodes
from dataprep.pipeline.sources.digits import parse_digit_lists
from dataprep.pipeline.types import Record

_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PLAIN = msgspec.json.Decoder(dict[str, Any])
_ANY = msgspec.json.Decoder()
_RAW_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_RAW_LISTS = msgspec.json.Decoder(list[msgspec.Raw])
_COLON, _BACKSLASH = b":\\"

RawObject = Mapping[str, Any]  # values are msgspec.Raw: bytes-like


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Objects, as columns or as rows."""

    count: int
    columns: Mapping[str, Sequence[Any]] | None = None
    rows: Sequence[Record] | None = None


def decode_raw(data: memoryview, keys: Sequence[str] | None, is_codes: IsCodes) -> Decoded | None:
    """The wanted keys (None: all) of all objects, with lists of codes as arrays; None where an
    object lacks one, or may have a key twice. Raises what msgspec raises."""
    objects: Sequence[RawObject] = _RAW.decode_lines(data)
    if _may_repeat_a_key(objects, data):
        return None
    if keys is None:
        return Decoded(count=len(objects), rows=_rows(objects, data, is_codes))
    try:
        raws = {key: [found[key] for found in objects] for key in keys}
    except KeyError:
        return None
    columns = {key: _codes(raws[key]) if is_codes(key) else _values(raws[key]) for key in keys}
    return Decoded(count=len(objects), columns=columns)


def _may_repeat_a_key(objects: Sequence[RawObject], data: memoryview) -> bool:
    """Whether any object may have a key twice, of which the decoder keeps the last.

    By count: a colon of the text is in one of the values, in a key, or between the two. If a pair
    was left out, there are more. Colons in keys cannot be counted where they may be escaped.
    """
    raws = list(chain.from_iterable(found.values() for found in objects))
    expected = len(raws) + _count(b"".join(raws), _COLON)
    if any(":" in key for key in set(chain.from_iterable(objects))):
        if _count(data, _BACKSLASH):
            return True
        expected += sum(key.count(":") for key in chain.from_iterable(objects))
    return _count(data, _COLON) > expected


def _count(data: bytes | memoryview, byte: int) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte))


def _rows(objects: Sequence[RawObject], data: memoryview, is_codes: IsCodes) -> Sequence[Record]:
    names = {key for key in set(chain.from_iterable(objects)) if is_codes(key)}
    if not names:
        return _PLAIN.decode_lines(data)
    are_codes = [key in names for key in chain.from_iterable(objects)]
    raws = list(chain.from_iterable(found.values() for found in objects))
    codes = iter(_codes(list(compress(raws, are_codes))))
    others = iter(_values(compress(raws, map(not_, are_codes))))
    values = (next(codes if is_code else others) for is_code in are_codes)
    return [dict(zip(found, values, strict=False)) for found in objects]


def _values(raws: Iterable[Any]) -> list[Any]:
    return _ANY.decode_lines(b"\n".join(raws))


def _codes(raws: Sequence[Any]) -> Sequence[Any]:
    """Lists of digits as arrays, also within lists and lists of objects; the rest as it is."""
    are_deep = [bytes(memoryview(raw)[:2]) in (b"[[", b"[{") for raw in raws]
    if any(are_deep):
        deep = iter(_deep(list(compress(raws, are_deep))))
        others = iter(_codes(list(compress(raws, map(not_, are_deep)))))
        return [next(deep if is_deep else others) for is_deep in are_deep]
    lists, taken = parse_digit_lists(raws)
    if taken.all():
        return lists
    codes: list[Any] = list(lists)
    left = np.flatnonzero(~taken).tolist()
    for i, value in zip(left, _values([raws[i] for i in left]), strict=True):
        codes[i] = value
    return codes


def _deep(raws: Sequence[Any]) -> list[Any]:
    """Lists of objects, or of lists of digits, if all are such; else as they are."""
    text = b"\n".join(raws)
    try:
        documents = _RAW_OBJECTS.decode_lines(text)
    except msgspec.ValidationError:
        inner = _RAW_LISTS.decode_lines(text)
        lists, taken = parse_digit_lists(list(chain.from_iterable(inner)))
        if not taken.all():
            return _ANY.decode_lines(text)
        each = iter(lists)
        return [list(islice(each, len(found))) for found in inner]
    objects = chain.from_iterable(documents)
    values = iter(_codes(list(chain.from_iterable(found.values() for found in objects))))
    return [[dict(zip(found, values, strict=False)) for found in each] for each in documents]
