"""The field grammar: `[prompt],answer` -> fields with their loss, as LWM writes them.

    spec          split on "," first; nothing is stripped or escaped
    [x]           x without loss
    x*0.5         x with half the loss
    a+b           the values of a and b, joined by the separator
    <|bos|>       the BOS id; likewise <|eos|>
    <|123|>       the id 123
    {x}           base64 of little-endian i32 token ids
    vision…       a block of codes, where the name matches a modality's globs
    segments      an interleaved document: a list of {type: text|vision|audio, …, loss}

Knows names, not values: `lookup` finds those in records.
"""

from __future__ import annotations

import fnmatch
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.ragged import Holds
from dataprep.pipeline.storage.masks import WEIGHT_DTYPE

Kind = Literal["text", "bos", "eos", "id", "base64", "codes", "segments"]
LITERAL_ID = re.compile(r"<\|([0-9]{1,10})\|>")
MEANT_AS_ID = re.compile(r"<\|\s*[-+]?\s*[0-9][0-9._\s]*\|>")  # and is none: <|-1|>, <|1.5|>
# answer*0.5; also what was meant as a weight and is none: answer*-1, answer*nan
WEIGHTED = re.compile(r"(.+)\*([-+]?(?:[0-9.][\w.]*(?:[-+][0-9]+)?|nan|inf))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    kind: Kind
    keys: tuple[str, ...]  # of the record; several only for text
    weight: float = 1.0  # of its tokens in the loss; 0: they have none
    id: int = 0  # kind "id" only
    mask: str = ""  # that marks its tokens, besides loss; of codes: their modality


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The globs of names that decide the kind of a field, besides its spelling."""

    codes: tuple[tuple[str, tuple[str, ...]], ...]  # (modality, its globs); the first match counts
    segments: tuple[str, ...]
    only_vision: bool = False  # LWM: a field holds codes if its name has "vision" in it

    def modality_of(self, name: str) -> str:
        """Return the modality of the codes in a field, or ''."""
        if self.only_vision:
            return "vision" if "vision" in name else ""
        return next((modality for modality, globs in self.codes if _matches(name, globs)), "")

    def holds(self, name: str) -> Holds:
        if self.modality_of(name):
            return "codes"
        return "segments" if self.is_segments(name) else ""

    def is_segments(self, name: str) -> bool:
        return not self.only_vision and _matches(name, self.segments)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def parse_spec(spec: str, grammar: Grammar) -> tuple[Field, ...]:
    """Parse `[a+b],c` to (Field(a, b; no loss), Field(c; loss)); ValueError for a bad weight."""
    return tuple(_parse_field(name, grammar) for name in spec.split(","))


def _parse_field(name: str, grammar: Grammar) -> Field:
    name, weight = _weight_of(name, grammar)
    if name == "<|bos|>":
        return Field(kind="bos", keys=(), weight=weight)
    if name == "<|eos|>":
        return Field(kind="eos", keys=(), weight=weight)
    literal = LITERAL_ID.fullmatch(name)
    if literal:
        return Field(kind="id", keys=(), weight=weight, id=int(literal[1]))
    if MEANT_AS_ID.fullmatch(name):
        raise ValueError(f"field {name!r} is not an id; ids are <|0|> to <|2147483647|>")
    if name.startswith("{") and name.endswith("}"):
        return Field(kind="base64", keys=(name[1:-1],), weight=weight)
    modality = grammar.modality_of(name)
    if modality:
        return Field(kind="codes", keys=(name,), weight=weight, mask=modality)
    if grammar.is_segments(name):
        return Field(kind="segments", keys=(name,), weight=weight)
    return Field(kind="text", keys=tuple(name.split("+")), weight=weight)


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


def keys_of(fields: Sequence[Field]) -> frozenset[str]:
    return frozenset(key for field in fields for key in field.keys)


def check_spec(spec: str, grammar: Grammar) -> tuple[Field, ...]:
    """Parse a spec from flags or config, whose mistakes can be named before any file is read."""
    try:
        fields = parse_spec(spec, grammar)
    except ValueError as error:
        raise ConfigError(f"fields {spec!r}: {error}") from None
    for field in fields:
        for key in field.keys:
            if not key:
                raise ConfigError(
                    f"fields {spec!r} names an empty field; write a,b or [a],b or a+b"
                )
            if key[0] in "[]" or key[-1] in "[]":
                raise ConfigError(
                    f"fields {spec!r}: {key!r} has a stray bracket; a spec is split on ',' first, "
                    "so write [a],[b] and not [a,b]"
                )
            if field.kind == "text" and grammar.holds(key):
                raise ConfigError(
                    f"fields {spec!r} joins {key!r} to text, but by its name it holds codes; write "
                    "a,b and not a+b, or set modalities"
                )
    return fields


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
