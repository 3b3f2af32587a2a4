"""Keys that appear twice in an object, of which decoders keep the last without a word.

    read: meta.url    {"meta": {"url": "a", "url": "b"}}            an error
                      {"meta": {"id": 1, "id": 2, "url": "a"}}      nobody reads `id`
    read: segments    [{"type": "text", "text": "a", "text": "b"}]  an error
    read: all keys    every object counts, however deep

There are two ways, as in `records`: `may_repeat…` looks at the values of a whole block at once and
may say yes without need; `check_inside` is exact, and for one record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from dataprep.pipeline.ragged import HeldBy
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.reasons import DuplicateKeyError
from dataprep.pipeline.types import ABSENT

RawObject = Mapping[str, Any]  # values are msgspec.Raw: bytes-like

RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
RAW_LISTS = msgspec.json.Decoder(list[msgspec.Raw])
RAW_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ANY = msgspec.json.Decoder()
_COLON, _BACKSLASH, _OPEN = b":\\{"
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")
_MAX_DIGITS = 4000  # of an integer; Python refuses 4,300


# --- the values of a block ---


def may_repeat(objects: Sequence[RawObject], data: bytes | memoryview) -> bool:
    """Return whether one of the objects in this text may have a key twice.

    Found by counting: each colon of the text is in a value, in a key, or between key and value. If
    a pair was dropped, there are more. Colons in keys cannot be counted if they may be escaped.
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


def may_repeat_inside(objects: Sequence[RawObject], data: memoryview, keys: Keys | None) -> bool:
    """Return whether a key may be twice in an object inside these, where one is read."""
    if _count(data, _OPEN) == len(objects):
        return False  # there is none
    if keys is None:
        raws = list(chain.from_iterable(found.values() for found in objects))
    else:
        raws = [found[top] for top in keys.ways for found in objects if top in found]
    text = b"\n".join(raw for raw in raws if bytes(memoryview(raw)[:1]) in (b"{", b"["))
    return b"{" in text and _has_more_pairs(text, _ANY.decode_lines(text))


class RawTops:
    """Finds out whether a key may be twice in an object that paths lead through, beside a decoder
    that has the values already."""

    def __init__(self, keys: Keys) -> None:
        self._tops = keys.ways
        names = [f"field{i}" for i in range(len(self._tops))]
        self._readers = [attrgetter(name) for name in names]
        struct = msgspec.defstruct(
            "_RawTops",
            [(name, msgspec.Raw, msgspec.Raw()) for name in names],
            rename=dict(zip(names, self._tops, strict=True)),
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(struct)

    def may_repeat(self, data: memoryview, columns: Mapping[str, Sequence[Any]]) -> bool:
        if not self._tops:
            return False
        objects = self._decoder.decode_lines(data)
        text = b"\n".join(raw for read in self._readers for raw in map(read, objects))
        values = chain.from_iterable(columns[top] for top in self._tops)
        return _has_more_pairs(text, [value for value in values if value is not ABSENT])


def _has_more_pairs(text: bytes, values: list[Any]) -> bool:
    """Return whether this text may have more pairs of keys and values than its decoded `values`.

    Written again, they have as many colons, unless one was an escape or went with a pair.
    """
    if _ESCAPED_COLON.search(text):
        return True
    try:
        again = msgspec.json.encode(values)
    except OverflowError:  # a number that can be read, but not written
        return True
    return _count(text, _COLON) > _count(again, _COLON)


# --- one record ---


class Repeating(dict[str, Any]):
    """An object that has keys twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else Repeating(pairs)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer)


def decode_repeating(data: bytes) -> Any:
    """Return a value whose objects are `Repeating` if they have a key twice; NaN is a number.

    Bytes that are not UTF-8 become surrogates.
    """
    return _DECODER.decode(data.decode("utf-8", "surrogateescape"))


def check_inside_text(data: bytes, keys: Keys | None, held_by: HeldBy) -> None:
    """Do what `check_inside` does for the text of a record that is JSON."""
    values = {
        key: decode_repeating(bytes(raw))
        for key, raw in RAW.decode(data).items()
        if keys is None or held_by(key) == "segments" or keys.paths_through(key)
        if b"{" in bytes(raw)
    }
    check_inside(values, keys, held_by)


def check_inside(record: Mapping[str, Any], keys: Keys | None, held_by: HeldBy) -> None:
    """Raise DuplicateKeyError if a key that is read appears twice in an object inside a record,
    which `decode_repeating` decoded."""
    for top, value in record.items():
        if keys is None:
            _check_all(value)
            continue
        if held_by(top) == "segments":
            _check_segments(value)
        for path in keys.paths_through(top):
            _check_way(value, path.partition(".")[2], is_list=held_by(path) == "segments")


def _check_way(value: Any, path: str, *, is_list: bool) -> None:
    while isinstance(value, dict):
        top, dot, rest = path.partition(".")
        check_keys(value, (path, top))
        if is_list:
            _check_segments(value.get(path))
        if not dot:
            return
        value, path = value.get(top), rest


def _check_segments(value: Any) -> None:
    for item in value if isinstance(value, list) else ():
        check_keys(item, item)


def _check_all(value: Any) -> None:
    if isinstance(value, dict):
        check_keys(value, value)
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        _check_all(item)


def check_keys(item: Any, watched: Iterable[str]) -> None:
    """Raise DuplicateKeyError if a watched key appears twice in this object."""
    if isinstance(item, Repeating):
        for key in item.twice:
            if key in watched:
                raise DuplicateKeyError(key)
