"""The field grammar: `[prompt],answer` -> fields with their loss, as LWM writes them.

    spec          split on "," first, but not in quotes; nothing is stripped
    [x]           x without loss
    x*0.5         x with half the loss
    x?            x, left out where the key is absent or null
    a.b           the key "a.b", or else b in the object a
    a+b           the values of a and b, joined by the separator; a+b? leaves out b alone
    'text'        the text itself, as a field of its own; \\' \\\\ \\n \\t inside
    <|bos|>       the BOS id; likewise <|eos|>
    <|123|>       the id 123
    {x}           base64 of little-endian i32 token ids
    vision…       a block of codes, where the name matches a modality's globs
    segments      an interleaved document: a list of {type: text|vision|audio, …, loss}

A key that is spelled like the field, `x?` or `'text'`, wins where a record has it. Under `compat:
lwm` only LWM's forms are known: then `?`, `.` and quotes are characters of a key like any other.

Knows names, not values: `lookup` finds those in records, `settle` which fields a record has.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dataprep.pipeline.documents.field import Field, Grammar
from dataprep.pipeline.documents.kinds import FIELD_KINDS
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.storage.masks import WEIGHT_DTYPE

_TEXT = r"'(?:[^'\\]|\\[\s\S])*'"
QUOTED = re.compile(_TEXT)
# ['text'], 'text'*0.5; also with a mistake after it, as in 'text'?, so that it can be told.
QUOTED_FIELD = re.compile(rf"(?:\[{_TEXT}\]|{_TEXT})(?:\*[^,']*)?\??(?=,|\Z)")
ESCAPED = re.compile(r"\\([\s\S])")
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'"}
# Characters that make reading a key slow: a text in quotes that has one is never taken for a key.
RARE_IN_KEYS = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
# answer*0.5; also what was meant as a weight and is none: answer*-1, answer*nan
WEIGHTED = re.compile(rf"({_TEXT}|.+)\*([-+]?(?:[0-9.][\w.]*(?:[-+][0-9]+)?|nan|inf))")
_NAMES_NOTHING = "fields {!r} names an empty field; write a,b or [a],b or a+b"
# What may stand before a `?` and yet not be left out, and what to write.
MISPLACED = (
    (re.compile(r"<\|(?:bos|eos|[0-9]{1,10})\|>"), "an id is always there; leave out the ?"),
    (QUOTED, "a text in quotes is always there; leave out the ?"),
    (re.compile(r"\{.*\}"), "write {x?}"),
    (re.compile(r"\[.*\]"), "write [x?]"),
    (WEIGHTED, "write x?*0.5"),
)


def parse_spec(spec: str, grammar: Grammar) -> tuple[Field, ...]:
    """Parse `[a+b],c` to (Field(a, b; no loss), Field(c; loss)); ValueError says what is wrong."""
    names = spec.split(",") if grammar.lwm else _split(spec)
    return tuple(_parse_field(name, grammar) for name in names)


def _split(spec: str) -> Iterator[str]:
    """Split on commas outside quotes.

    >>> list(_split("a,'b, c',[d]"))
    ['a', "'b, c'", '[d]']
    """
    start = 0
    while start <= len(spec):
        quoted = QUOTED_FIELD.match(spec, start)
        comma = spec.find(",", quoted.end() if quoted else start)
        stop = len(spec) if comma < 0 else comma
        yield spec[start:stop]
        start = stop + 1


def _parse_field(name: str, grammar: Grammar) -> Field:
    name, weight = _weight_of(name, grammar)
    field = replace(_parse_plain(name, grammar), weight=weight)
    return field if grammar.lwm else _parse_new(name, field, grammar)


def _parse_plain(name: str, grammar: Grammar) -> Field:
    """Parse a name without the forms that LWM and EasyLM do not know."""
    found = (kind.parse(name, grammar) for kind in FIELD_KINDS.values())
    return next(field for field in found if field is not None)


def _parse_new(name: str, plain: Field, grammar: Grammar) -> Field:
    """Parse the forms of a name that are ours: 'text' and x?; `plain` is the field without them."""
    if QUOTED.fullmatch(name):
        may_be_key = FIELD_KINDS[plain.kind].is_text and not RARE_IN_KEYS.search(name)
        text = ESCAPED.sub(partial(_unescaped, name), name[1:-1])
        other = plain if may_be_key else None
        return Field(kind="literal", weight=plain.weight, text=text, plain=other)
    if any(map(QUOTED.fullmatch, plain.keys)):
        raise ValueError(
            f"field {name!r} joins a text in quotes; write it as a field of its own: a,'text',b"
        )
    if name.endswith("?"):
        for form, fix in MISPLACED:
            if form.fullmatch(name[:-1]):
                raise ValueError(f"field {name!r} has its ? in the wrong place: {fix}")
    names = plain.keys
    if not any(map(_is_optional, names)):
        return plain
    keys = tuple(key[:-1] if _is_optional(key) else key for key in names)
    field = _parse_plain(FIELD_KINDS[plain.kind].spell(keys), grammar)
    if not FIELD_KINDS[field.kind].is_text and "+" in name:
        raise ValueError(f"field {name!r} joins {field.mask or field.kind}, but + joins only texts")
    optional = frozenset(key[:-1] for key in names if _is_optional(key))
    other = plain if plain.kind == field.kind else None
    return replace(field, weight=plain.weight, optional=optional - set(names), plain=other)


def _is_optional(name: str) -> bool:
    return name.endswith("?") and name != "?"


def _unescaped(name: str, escaped: re.Match[str]) -> str:
    if escaped[1] not in ESCAPES:
        raise ValueError(
            f"field {name!r} has {escaped[0]!r} in quotes; write \\\\ for a backslash (known: "
            "\\n, \\t, \\', \\\\)"
        )
    return ESCAPES[escaped[1]]


def _weight_of(name: str, grammar: Grammar) -> tuple[str, float]:
    """Return the name of a field without brackets and weight, and the weight."""
    weighted = None if grammar.only_vision else WEIGHTED.fullmatch(name)
    if name.startswith("[") and name.endswith("]"):
        inside = name[1:-1]
        if not grammar.only_vision and WEIGHTED.fullmatch(inside):
            raise ValueError(f"field {name!r} has a weight but no loss; write {inside} or [x]")
        return inside, 0.0
    if weighted is None:
        return name, 1.0
    if weighted[1].startswith("[") and weighted[1].endswith("]"):
        raise ValueError(f"field {name!r} has a weight but no loss; write {weighted[1]} or x*0.5")
    return weighted[1], _checked_weight(weighted[2], name)


def _checked_weight(text: str, name: str) -> float:
    """Return a weight that float16 can hold; ValueError says what is wrong with it."""
    try:
        weight = float(text)
    except ValueError:
        raise ValueError(f"field {name!r} has weight {text}, which is not a number") from None
    if weight == 0:
        raise ValueError(f"field {name!r} has weight {text}; write [x] for a field without loss")
    with np.errstate(over="ignore"):
        stored = float(WEIGHT_DTYPE.type(weight))
    if not 0 < stored < math.inf:
        raise ValueError(f"field {name!r} has weight {text}, which is not within 6e-8..65504")
    return weight


def check_spec(spec: str, grammar: Grammar) -> tuple[Field, ...]:
    """Parse a spec from flags or config, whose mistakes can be named before any file is read."""
    try:
        fields = parse_spec(spec, grammar)
    except ValueError as error:
        raise ConfigError(f"fields {spec!r}: {error}") from None
    if _names_nothing(fields):
        raise ConfigError(_NAMES_NOTHING.format(spec))
    for field in fields:
        for key in field.keys:
            if key[0] in "[]" or key[-1] in "[]":
                raise ConfigError(
                    f"fields {spec!r}: {key!r} has a stray bracket; a spec is split on ',' first, "
                    "so write [a],[b] and not [a,b]"
                )
            if FIELD_KINDS[field.kind].is_text and grammar.holds(key):
                raise ConfigError(
                    f"fields {spec!r} joins {key!r} to text, but by its name it holds codes; write "
                    "a,b and not a+b, or set modalities"
                )
    return fields


def parse_own_spec(spec: str, grammar: Grammar) -> tuple[Field, ...]:
    """Parse the spec that a record brings; ValueError says what is wrong."""
    fields = parse_spec(spec, grammar)
    if _names_nothing(fields):
        raise ValueError(_NAMES_NOTHING.format(spec))
    return fields


def _names_nothing(fields: Sequence[Field]) -> bool:
    return not all(key for field in fields for key in field.keys)


def choose_spec(value: Any, line: int, fields_index: int | None) -> str:
    """Return the spec of a record: the value itself, or one of a list, chosen by line number.

    >>> [choose_spec(["A", "B"], line, None) for line in range(5)]
    ['B', 'A', 'A', 'A', 'A']
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ValueError(f"must be a spec or a list of specs, got {short(repr(value), 60)}")
    if fields_index is None:
        chosen: str = random.Random(line).choice(value)
        return chosen
    if fields_index >= len(value):
        raise ValueError(f"has {len(value)} specs, so fields_index {fields_index} is out of range")
    picked: str = value[fields_index]
    return picked
