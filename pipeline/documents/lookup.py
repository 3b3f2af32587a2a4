"""Look up the values of a record's fields; a ValueError says what is wrong with which field.

    a.b     the key "a.b" if the record has it and it is not null, else the key b in the object a

Numbers and truth values are text as JSON writes them: 3, 0.5, true. LWM knows neither (`lwm`).
"""

from __future__ import annotations

import base64
import binascii
import math
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.codes import NotCodesError, integers_of
from dataprep.pipeline.errors import counted, short
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.sources.keys import did_you_mean, what_to_set
from dataprep.pipeline.types import MODALITIES, Ids, Record

# By the type of a segment, the keys of which one has its value.
VALUE_KEYS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    **{m: ("codes", m) for m in MODALITIES},
}
# Values that tables may hold and JSON does not; `datetime` is a `date`.
_NOT_IN_JSON = (date, time, timedelta, Decimal)
SEGMENT_KEYS = frozenset({"type", "loss"}.union(*VALUE_KEYS.values()))


def find_value(record: Record, key: str) -> Any:
    """Return the value of a key or a path; None if there is none or it is null."""
    value = record.get(key)
    if value is not None or "." not in key:
        return value
    inside: Any = record
    rest = key
    while "." in rest:
        top, _, rest = rest.partition(".")
        inside = inside.get(top)
        if inside is None:
            return None
        if not isinstance(inside, dict):
            way = key[: -len(rest) - 1] if rest else key[:-1]
            raise ValueError(
                f"field {key!r} leads through {way!r}, which is {_what(inside)}, not an object; "
                "set --fields"
            )
        if inside.get(rest) is not None:
            return inside[rest]
    return None


def value_of(record: Record, key: str, flag: str = "--fields", *, lwm: bool) -> Any:
    """Return the value of a key or a path, which may be null, but not missing."""
    value = record.get(key) if lwm else find_value(record, key)
    if value is not None or key in record:
        return value
    found, name = (None, key) if lwm else _last_object(record, key)
    if isinstance(found, dict) and found is not record:
        if name in found:
            return None
        place = f"keys of {key[: -len(name) - 1]!r}: {_some(found)}"
    else:
        found, place = record, f"keys: {_some(record)}"
    near = did_you_mean(name, found) or did_you_mean(name.partition(".")[0], found)
    joined = ", and note that + joins only texts" if "+" in key else ""
    quoted = ", and end a text with a quote" if "'" in (key[:1], key[-1:]) else ""
    fix = what_to_set(key, record, flag)
    raise ValueError(f"field {key!r} is missing ({place}); {near}{fix}{joined}{quoted}")


def _last_object(record: Record, key: str) -> tuple[Record, str]:
    """Return the innermost object that a path leads to, and the name that is looked for in it."""
    top, _, rest = key.partition(".")
    inside = record.get(top)
    return _last_object(inside, rest) if rest and isinstance(inside, dict) else (record, key)


def _given(record: Record, key: str, *, lwm: bool) -> Any:
    """Return a value that must not be null either."""
    value = value_of(record, key, lwm=lwm)
    if value is None and not lwm:
        raise ValueError(f"field {key!r} is null; write {key}? to leave it out where it is")
    return value


def text_of(record: Record, key: str, *, lwm: bool) -> str:
    value = _given(record, key, lwm=lwm)
    if isinstance(value, str):
        return value
    text = None if lwm else text_of_scalar(value)
    if text is not None:
        return text
    raise ValueError(f"field {key!r} must be text, got {_what(value)}{_hint(key, value)}")


def text_of_scalar(value: Any) -> str | None:
    """Return a number or a truth value as JSON writes it; None for anything else.

    >>> [text_of_scalar(value) for value in (3, -0.5, 1e16, True, float("nan"), None)]
    ['3', '-0.5', '1e+16', 'true', None, None]
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float) and math.isfinite(value):
        return float.__repr__(value)  # also of NumPy's float64, which shows itself otherwise
    return None


def _what(value: Any) -> str:
    if isinstance(value, list | np.ndarray):
        # Only its length: some readers give lists of codes as arrays, which print otherwise.
        return f"a list of {counted(len(value), 'value')}"
    shown = str(value) if isinstance(value, _NOT_IN_JSON) else repr(value)
    return f"{type(value).__name__} {short(shown)}"


def _is_conversation(value: Any) -> bool:
    """Return whether it looks like a list of messages: objects, each with some text."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return False
    return any(isinstance(item, str) for item in value[0].values())


def _hint(key: str, value: Any) -> str:
    if _is_conversation(value):
        return f"; if it is a conversation, say --chat {key} instead of --fields"
    if isinstance(value, list | np.ndarray):
        return "; if they are codes, name the field vision or audio"
    if isinstance(value, dict) and value:
        return f"; name what is in it: {key}.{next(iter(value))}"
    if isinstance(value, (*_NOT_IN_JSON, bytes)):
        return "; make the column text before it is read"
    return ""


def codes_of(record: Record, key: str, block: Block, hint: str, *, lwm: bool) -> NDArray[Any]:
    """Return the codes of one block, frame by frame; `hint` helps if the value is not codes."""
    value = _given(record, key, lwm=lwm)
    try:
        return block.flatten(integers_of(value, block.raw_dtype, may_nest=block.may_nest))
    except NotCodesError as error:
        raise ValueError(f"field {key!r} {error}{hint}") from None
    except ValueError as error:
        # A list or a broken .npy was meant as codes, so no hint.
        raise ValueError(f"field {key!r} {error}") from None


def base64_ids(record: Record, key: str, vocab_size: int, *, lwm: bool) -> Ids:
    value = _given(record, key, lwm=lwm)
    try:
        ids = np.frombuffer(base64.b64decode(value, validate=True), "<i4")
    except (TypeError, ValueError, binascii.Error):
        raise ValueError(f"field {key!r} must be base64 of little-endian i32 ids") from None
    if len(ids) and (ids.min() < 0 or ids.max() >= vocab_size):
        bad = ids[(ids < 0) | (ids >= vocab_size)][0]
        raise ValueError(f"field {key!r} has id {bad}, outside the vocabulary of {vocab_size}")
    return ids.astype(np.uint32)


def segments_of(record: Record, key: str, *, lwm: bool) -> list[tuple[str, bool, Any]]:
    """Return (text or a modality, loss, value) of each segment.

    In a table every segment has every key, so a null counts as a missing key.
    """
    value = _given(record, key, lwm=lwm)
    if not isinstance(value, list):
        raise ValueError(
            f"field {key!r} must be a list of segments, got {type(value).__name__} "
            f"{short(repr(value))}; set modalities.segments if it is something else"
        )
    return [_segment(item, f"field '{key}[{i}]'") for i, item in enumerate(value)]


def _segment(item: Any, label: str) -> tuple[str, bool, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"{label} must be an object with a type, got {short(repr(item))}")
    given = {name: value for name, value in item.items() if value is not None}
    if not given.keys() <= SEGMENT_KEYS:
        name = next(name for name in given if name not in SEGMENT_KEYS)
        raise ValueError(f"{label} has an unknown key {name!r}; known: type, text, codes, loss")
    kind, loss = given.pop("type", None), given.pop("loss", True)
    names = VALUE_KEYS.get(kind) if isinstance(kind, str) else None
    if names is None:
        known = ", ".join(VALUE_KEYS)
        raise ValueError(f"{label} has type {short(repr(kind))}; use {known}")
    if not isinstance(loss, bool):
        raise ValueError(f"{label} has loss {short(repr(loss))}; use true or false")
    if len(given) != 1 or not given.keys() <= set(names):
        found = ", ".join(given) or "nothing"
        raise ValueError(f"{label} is {kind}, so it needs {names[0]!r} and no more; it has {found}")
    (value,) = given.values()
    if "text" in given and not isinstance(value, str):
        raise ValueError(f"{label} must be text, got {_what(value)}")
    return kind, loss, value


def _some(record: Record) -> str:
    """Return the first keys of a record in order, each cut to 40 characters.

    In the order of the alphabet: readers of one column or of all have the keys in another order.
    """
    keys = sorted(record)
    names = [key if key.isprintable() and len(key) <= 40 else short(repr(key)) for key in keys]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more or "none"
