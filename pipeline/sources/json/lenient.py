r"""Decode a record that is JSON but for values that many writers let through.

    {"text": "a", "score": NaN}            also Infinity and -Infinity: `json.dumps` writes them
    {"text": "a", "name": "\ud83d"}        half of a surrogate pair
    {"text": "a", "size": 1e999}           a number that no float holds

They do no harm under keys that nobody wants, and are errors under the others. `records` comes here
with records that its decoder refuses, so this need not be fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dataprep.pipeline.ragged import HeldBy
from dataprep.pipeline.sources.json.repeats import check_inside, check_keys, decode_repeating
from dataprep.pipeline.sources.keys import Keys


def decode_leniently(data: bytes, keys: Keys, held_by: HeldBy) -> dict[str, Any]:
    """Return the wanted keys of a record, or all if it lacks a needed one; ValueError if it is not
    JSON.

    >>> keys = Keys(needed=frozenset({"text"}))
    >>> decode_leniently(b'{"text": "a", "score": [NaN, 1e999]}', keys, lambda key: "")
    {'text': 'a'}
    """
    record = decode_repeating(data)
    if not isinstance(record, dict):
        raise ValueError("not an object")
    tops = keys.tops
    check_keys(record, tops)
    check_inside({key: record[key] for key in tops if key in record}, keys, held_by)
    if keys.lacking(record):
        return record
    found = {key: record[key] for key in sorted(tops) if key in record}
    for key, value in found.items():
        if not all(map(_is_sound, _wanted_in(key, value, keys))):
            raise ValueError(f"the value of {key!r} is not JSON")
    return found


def _wanted_in(top: str, value: Any, keys: Keys) -> Iterator[Any]:
    """Yield what is wanted of the value of a key: all of it, or what paths may lead to."""
    if top in keys.names or not isinstance(value, dict):
        yield value
        return
    for path in keys.paths_through(top):
        inside: Any = value
        rest = path
        while "." in rest and isinstance(inside, dict):
            rest = rest.partition(".")[2]
            if rest in inside:
                yield inside[rest]
            inside = inside.get(rest.partition(".")[0])


def _is_sound(value: Any) -> bool:
    """Return whether a value is JSON: its texts are Unicode, its numbers finite."""
    if isinstance(value, str):
        return value.isascii() or value.encode("utf-8", "replace").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_sound(key) and _is_sound(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_is_sound, value))
