r"""Decode a record that is JSON but for values that many writers let through.

    {"text": "a", "score": NaN}            also Infinity and -Infinity: `json.dumps` writes them
    {"text": "a", "name": "\ud83d"}        half of a surrogate pair
    {"text": "a", "size": 1e999}           a number that no float holds

They do no harm under keys that nobody wants, and are errors under the others. `records` comes here
with records that its decoder refuses, so this need not be fast.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from dataprep.pipeline.ragged import HeldBy
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.reasons import DuplicateKeyError

_MAX_DIGITS = 4000  # of an integer; Python refuses 4,300


class _Repeating(dict[str, Any]):
    """An object that has keys twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else _Repeating(pairs)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer)


def decode_leniently(data: bytes, keys: Keys, held_by: HeldBy) -> dict[str, Any]:
    """Return the wanted keys of a record, or all if it lacks a needed one; ValueError if it is not
    JSON.

    >>> keys = Keys(needed=frozenset({"text"}))
    >>> decode_leniently(b'{"text": "a", "score": [NaN, 1e999]}', keys, lambda key: "")
    {'text': 'a'}
    """
    # Bytes that are not UTF-8 become surrogates.
    record = _DECODER.decode(data.decode("utf-8", "surrogateescape"))
    if not isinstance(record, dict):
        raise ValueError("not an object")
    tops = keys.tops
    _check_keys(record, tops)
    if keys.lacking(record):
        return record
    found = {key: record[key] for key in sorted(tops) if key in record}
    for key, value in found.items():
        if not all(map(_is_sound, _wanted_in(key, value, keys))):
            raise ValueError(f"the value of {key!r} is not JSON")
        if held_by(key) == "segments" and isinstance(value, list):
            for item in value:
                _check_keys(item, item)
    return found


def _wanted_in(top: str, value: Any, keys: Keys) -> Iterator[Any]:
    """Yield what is wanted of the value of a key: all of it, or what paths may lead to."""
    paths = [name for name in keys.names if name != top and keys.top_of(name) == top]
    if top in keys.names or not isinstance(value, dict):
        yield value
        return
    for path in paths:
        inside: Any = value
        rest = path
        while "." in rest and isinstance(inside, dict):
            rest = rest.partition(".")[2]
            if rest in inside:
                yield inside[rest]
            inside = inside.get(rest.partition(".")[0])


def _check_keys(item: Any, watched: Iterable[str]) -> None:
    if isinstance(item, _Repeating):
        for key in item.twice:
            if key in watched:
                raise DuplicateKeyError(key)


def _is_sound(value: Any) -> bool:
    """Return whether a value is JSON: its texts are Unicode, its numbers finite."""
    if isinstance(value, str):
        return value.isascii() or value.encode("utf-8", "replace").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_sound(key) and _is_sound(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_is_sound, value))
