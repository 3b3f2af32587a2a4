"""Say in plain English what pydantic finds wrong with a config.

    ('limit',) greater_than_equal         ─►  limit must be at least 1, got 0
    ('eos_token', 'str') string_type      ┐
    ('eos_token', 'constrained-int') …    ┴►  eos_token must be less than 2147483648, got …

Where a key takes values of several types, pydantic reports a problem for each type.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from dataprep.configs.base import PATTERNS
from dataprep.pipeline.errors import short

_NEAR = 0.65  # how alike two names are, so that one may be meant by the other
_WHOLE, _NUMBER, _YES_NO, _LIST = "a whole number", "a number", "true or false", "a list"
# What a value must be, by the type of the problem.
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _YES_NO),
    **dict.fromkeys(("tuple_type", "list_type"), _LIST),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table of keys"),
    "string_type": "text",
    "literal_error": "{expected}",
}
_BOUNDS: Mapping[str, str] = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "int_parsing_size": "must have fewer digits",
    "finite_number": "must be a finite number",
    "string_unicode": "must be Unicode text",
    "string_pattern_mismatch": "must be {pattern}",
    "missing": "is missing",
    "value_error": "{error}",
}


Place = tuple[int | str, ...]  # the keys that lead to a value


def problems_of(model: type[BaseModel], error: ValidationError) -> str:
    """Return all problems of a config, one for each key."""
    return "; ".join(problems_by_place(model, error).values())


def problems_by_place(model: type[BaseModel], error: ValidationError) -> dict[Place, str]:
    """Return what is wrong with a config, by the place of each problem."""
    by_place: dict[Place, list[Any]] = {}
    for problem in error.errors():
        by_place.setdefault(_place(model, problem), []).append(problem)
    # Of a list that might have been a text, only what is wrong in the list.
    outer = {place[:i] for place in by_place for i in range(1, len(place))}
    return {at: _told(model, at, found) for at, found in by_place.items() if at not in outer}


def _place(model: type[BaseModel], problem: Any) -> Place:
    """Return the keys that lead to a value, without the types that pydantic adds to them."""
    loc: Place = problem["loc"]
    if problem["type"] == "extra_forbidden":
        return loc
    place: list[int | str] = []
    current: Any = model
    for part in loc:
        inner = model_in(current)
        if isinstance(part, int) or typing.get_origin(current) is dict:
            place.append(part)
            current = None if isinstance(part, str) else current
        elif inner is not None and part in inner.model_fields:
            place.append(part)
            current = inner.model_fields[part].annotation
    return tuple(place)


def _told(model: type[BaseModel], place: Sequence[int | str], problems: Sequence[Any]) -> str:
    key = ".".join(map(str, place))
    first = problems[0]
    if first["type"] == "extra_forbidden":
        known = _keys_beside(model, place)
        if model.__name__.lower() == f"{key}config":
            return f"unknown key {key!r}: all keys are of {key} here; leave out {key!r} before them"
        near = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=_NEAR)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        return f"unknown key {key!r}, {hint}"
    # A value of the right type that is out of bounds is told as such.
    bounds = [_filled(_BOUNDS, problem) for problem in problems if problem["type"] in _BOUNDS]
    kinds = [_filled(_TYPES, problem) for problem in problems if problem["type"] in _TYPES]
    said = bounds[0] if bounds else f"must be {' or '.join(dict.fromkeys(kinds))}"
    if not bounds and not kinds:
        said = f"is not valid: {first['msg'].lower()}"
    if first["type"] == "missing" or isinstance(first["input"], dict):
        return f"{key} {said}".lstrip()
    is_one = kinds == [_LIST] and isinstance(first["input"], str)
    hint = f"; write [{first['input']}]" if is_one else _near_choice(problems)
    return f"{key} {said}, got {_shown(first['input'])}{hint}"


def _near_choice(problems: Sequence[Any]) -> str:
    """Return the choice that is meant, if one is near."""
    choices = [
        name
        for problem in problems
        if problem["type"] == "literal_error"
        for name in re.findall(r"'([^']*)'", problem["ctx"]["expected"])
    ]
    given = problems[0]["input"]
    near = [] if not isinstance(given, str) else difflib.get_close_matches(given, choices, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _filled(texts: Mapping[str, str], problem: Any) -> str:
    context = dict(problem.get("ctx", {}))
    if "pattern" in context:
        context["pattern"] = PATTERNS.get(context["pattern"], f"like {context['pattern']}")
    return texts[problem["type"]].format(**context)


def _shown(value: Any) -> str:
    try:
        return short(repr(value), 200)
    except ValueError:  # Python does not print integers of more than 4,300 digits
        return "a huge number"


def _keys_beside(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """Return the keys of the model that `loc` ends in: ('modalities', 'visoin') -> vision, …"""
    current: type[BaseModel] = model
    for part in loc[:-1]:
        if isinstance(part, str) and part in current.model_fields:
            current = model_in(current.model_fields[part].annotation) or current
    return list(current.model_fields)


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation: tuple[Annotated[InputConfig, …], …] -> InputConfig."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        for inner in typing.get_args(annotation):
            found = model_in(inner)
            if found is not None:
                return found
    return None
