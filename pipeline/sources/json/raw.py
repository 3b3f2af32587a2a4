"""Decode many JSON objects that hold lists of codes, without making a Python int of any code.

    {"vision": [754, 12], "caption": "a cat"}
    {"segments": [{"type": "text", "text": "a cat"}, {"type": "audio", "codes": [[7, 5], [3, 1]]}]}
    every object to its keys and the texts of its values     skipping: 850 MB/s
    texts of codes to arrays, by `digits`                     of all objects at once
    texts of other values to values                           of all objects at once

Works on blocks without a fault; if there is one, `records` looks for it line by line. Skipping
refuses what decoding refuses, except invalid UTF-8 in strings and numbers out of range; lists of
digits have neither, and every other value that is wanted is decoded afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from operator import not_
from typing import Any

import msgspec
import numpy as np

from dataprep.pipeline.ragged import CODE_KEYS, HeldBy, Holds, IntegerLists
from dataprep.pipeline.sources.json.digits import parse_digit_lists
from dataprep.pipeline.sources.json.repeats import (
    RAW,
    RAW_LISTS,
    RAW_OBJECTS,
    RawObject,
    may_repeat,
    may_repeat_inside,
)
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.types import ABSENT, Record

_PLAIN = msgspec.json.Decoder(dict[str, Any])
_ANY = msgspec.json.Decoder()
# The label of a token without loss, and the digits that stand for it while lists are parsed: with
# another digit behind, -1000, they are too many to be parsed.
NO_LOSS, _STAND_IN = b"-100", b"99999999"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedObjects:
    """Objects, as columns or as rows."""

    count: int
    columns: Mapping[str, Sequence[Any]] | None = None
    rows: Sequence[Record] | None = None


def decode_raw(data: memoryview, keys: Keys | None, held_by: HeldBy) -> DecodedObjects | None:
    """Decode the wanted keys (None: all) of all objects, with lists of codes as arrays; return None
    if an object lacks a needed key or may have a key twice. Raises what msgspec raises."""
    objects: Sequence[RawObject] = RAW.decode_lines(data)
    if may_repeat(objects, data) or may_repeat_inside(objects, data, keys):
        return None
    if keys is None:
        names = list(objects[0]) if objects else []
        # In the same order too, because an error lists the keys of its record in their order.
        if not names or any(list(found) != names for found in objects):
            return DecodedObjects(count=len(objects), rows=_rows(objects, data, held_by))
    else:
        names = sorted(keys.tops)
        if any(map(keys.lacking, objects)):
            return None
    columns = {key: _column([o.get(key) for o in objects], held_by(key)) for key in names}
    return DecodedObjects(count=len(objects), columns=columns)


def _column(raws: list[Any], holds: Holds) -> Sequence[Any]:
    """Decode the values of one key; None stands for an object that lacks it."""
    if None not in raws:
        return _DECODE[holds](raws)
    decoded = iter(_DECODE[holds]([raw for raw in raws if raw is not None]))
    return [ABSENT if raw is None else next(decoded) for raw in raws]


def _rows(objects: Sequence[RawObject], data: memoryview, held_by: HeldBy) -> Sequence[Record]:
    kinds = {key: held_by(key) for key in set(chain.from_iterable(objects))}
    if not any(kinds.values()):
        return _PLAIN.decode_lines(data)
    return _by_kind(objects, kinds)


def _by_kind(objects: Sequence[RawObject], kinds: Mapping[str, Holds]) -> list[dict[str, Any]]:
    """Decode the values of objects by what their keys hold, all values of a kind at once."""
    raws = list(chain.from_iterable(found.values() for found in objects))
    held = [kinds[key] for key in chain.from_iterable(objects)]
    decoded = {
        kind: iter(_DECODE[kind](list(compress(raws, [h == kind for h in held]))))
        for kind in set(held)
    }
    values = (next(decoded[kind]) for kind in held)
    return [dict(zip(found, values, strict=False)) for found in objects]


def _values(raws: Iterable[Any]) -> list[Any]:
    return _ANY.decode_lines(b"\n".join(raws))


def _codes(raws: Sequence[Any]) -> Sequence[Any]:
    """Return lists of digits, also those inside lists, as arrays; other values as Python values."""
    nested = [bytes(memoryview(raw)[:2]) == b"[[" for raw in raws]
    if any(nested):
        deep = iter(_nested(list(compress(raws, nested))))
        others = iter(_codes(list(compress(raws, map(not_, nested)))))
        return [next(deep if is_nested else others) for is_nested in nested]
    lists, taken = parse_digit_lists(raws)
    if taken.all():
        return lists
    codes: list[Any] = list(lists)
    left = np.flatnonzero(~taken).tolist()
    for i, value in zip(left, _values([raws[i] for i in left]), strict=True):
        codes[i] = value
    return codes


def _numbers(raws: Sequence[Any]) -> Sequence[Any]:
    """Return lists of whole numbers as arrays, -100 among them; other values as Python values."""
    text = b"".join(raws)
    if b'"' in text or _STAND_IN in text:
        return _values(raws)
    if b"-" not in text:
        return _codes(raws) if b"[[" not in text else _values(raws)
    lists, taken = parse_digit_lists([bytes(raw).replace(NO_LOSS, _STAND_IN) for raw in raws])
    if not taken.all():
        return _values(raws)
    values = lists.values.astype(np.int64)
    values[values == int(_STAND_IN)] = int(NO_LOSS)
    return IntegerLists(values, lists.offsets)


def _nested(raws: Sequence[Any]) -> list[Any]:
    """Return lists of arrays if all are lists of lists of digits, else Python values."""
    inner = RAW_LISTS.decode_lines(b"\n".join(raws))
    lists, taken = parse_digit_lists(list(chain.from_iterable(inner)))
    if not taken.all():
        return _values(raws)
    each = iter(lists)
    return [list(islice(each, len(found))) for found in inner]


def _segments(raws: Sequence[Any]) -> list[Any]:
    """Return lists of objects with their codes as arrays; raises for anything else, which is then
    decoded line by line."""
    text = b"\n".join(raws)
    documents = RAW_OBJECTS.decode_lines(text)
    objects = list(chain.from_iterable(documents))
    if may_repeat(objects, text):
        raise msgspec.DecodeError("a segment may have a key twice")
    names = set(chain.from_iterable(objects))
    kinds: dict[str, Holds] = {name: "codes" if name in CODE_KEYS else "" for name in names}
    each = iter(_by_kind(objects, kinds))
    return [list(islice(each, len(document))) for document in documents]


_DECODE: Mapping[Holds, Callable[[Sequence[Any]], Sequence[Any]]] = {
    "": _values,
    "codes": _codes,
    "segments": _segments,
    "numbers": _numbers,
}
