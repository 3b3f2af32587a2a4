"""Bounds on what a template may make: characters, objects and turns of loops.

    spend(12)     before or as a text of 12 characters is made; objects count for some, too
    weigh([x, x]) what a value takes if it is written, however often it holds the same thing
    count_step()  a loop goes round, or something is called

All of one rendering is added up, so that no template fills memory, neither by one text nor by many,
and none goes on for ever, on any machine alike. Conversations may be long: each of their characters
allows for more.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from jinja2 import Undefined

MOST = 1 << 27  # characters that a template may make of nothing
FOR_EACH = 128  # and for each that it is given
MAX_STEPS = 200_000  # of loops and calls; a conversation of a thousand messages needs thousands
SECONDS = 20.0  # of the processor; a template takes a few milliseconds for a conversation
TOO_SLOW = f"the template takes longer than {SECONDS:g} seconds"
MAX_BITS = 1 << 15  # of a number
MAX_WIDTH = 1 << 12  # of what a pattern formats, if it names a width
OBJECT = 64  # characters that an object counts for
ITEM = 8  # and that a place in a list does
_WIDTH_GIVEN = {"%": re.compile(r"\*"), "{": re.compile(r"\{[^{}]*\{")}  # by the values

T = TypeVar("T")


class TemplateFailedError(Exception):
    """The template refused a conversation, or failed on it; the message says how."""


class _Left(threading.local):
    """What the rendering of this thread may still make."""

    characters = MOST
    steps = MAX_STEPS
    until = math.inf  # seconds of the thread


_LEFT = _Left()


@contextmanager
def allowance(given: int) -> Iterator[None]:
    """Let a template that is given so many characters make as much as is allowed, from new."""
    _LEFT.characters, _LEFT.steps = MOST + FOR_EACH * given, MAX_STEPS + given
    _LEFT.until = time.thread_time() + SECONDS
    try:
        yield
    finally:  # what one conversation took is no other's loss
        _LEFT.characters, _LEFT.steps, _LEFT.until = MOST, MAX_STEPS, math.inf


def spend(size: int) -> None:
    """Count characters that are made now; TemplateFailedError if they are too many."""
    _LEFT.characters -= size
    if _LEFT.characters < 0:
        raise TemplateFailedError("the template makes too much text")


def count_step() -> None:
    """Count a turn of a loop, or a call: a template that never ends is stopped."""
    _LEFT.steps -= 1
    if _LEFT.steps < 0:
        raise TemplateFailedError("the template goes round its loops without end")
    if time.thread_time() > _LEFT.until:
        raise TemplateFailedError(TOO_SLOW)


def size_of(value: Any) -> int:
    """Return how many characters the texts in some value have."""
    if isinstance(value, str):
        return str.__len__(value)
    if isinstance(value, dict):
        return sum(size_of(key) + size_of(inner) for key, inner in value.items())
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 1


def weigh(value: Any) -> int:
    """Spend and return what a value takes if it is written: all that it holds, as often as it does.

    Lists that hold a list twice, which holds another twice, take little memory, but ages to read.
    """
    if isinstance(value, str):
        size = str.__len__(value)
        spend(size)
        return size
    if isinstance(value, dict):
        value = [inner for item in value.items() for inner in item]
    if not isinstance(value, list | tuple):
        return 1
    spend(ITEM * len(value))
    return ITEM * len(value) + sum(map(weigh, value))


def made(value: Any) -> Any:
    """Count what was made, of a size that was bounded before."""
    if isinstance(value, str):
        spend(str.__len__(value))
    elif isinstance(value, list | tuple | dict):
        spend(ITEM * len(value))
    elif isinstance(value, int):
        _check_bits(value.bit_length())
    return value


def held(value: T) -> T:
    """Count a list or object that was made of other values, with all that it holds."""
    weigh(value)
    return value


def check_operands(operator: str, left: Any, right: Any) -> None:
    """Raise before an operation that would take all memory, or hours."""
    bits = [v.bit_length() for v in (left, right) if isinstance(v, int)]
    if operator == "**" and len(bits) == 2:
        _check_bits(bits[0] * abs(right))
    elif operator == "*":
        sized = [v for v in (left, right) if isinstance(v, str | list | tuple)]
        counts = [v for v in (left, right) if isinstance(v, int)]
        if sized and counts:
            spend(weigh(sized[0]) * max(counts[0], 0))
        else:
            _check_bits(sum(bits))
    elif operator == "+":
        weigh((left, right))
    elif operator == "%" and isinstance(left, str):
        spend_on_pattern(left, right, "%")


def check_written(value: Any) -> None:
    """Raise unless a value has a text of its own: of a function it would be an address in memory,
    of what a filter gives one by one, too, and nobody would know of the texts in it."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for inner in value:
            check_written(inner)
    elif not isinstance(value, str | int | float | None | Undefined):
        raise TemplateFailedError(f"the template writes an object of type {type(value).__name__}")


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise TemplateFailedError("the template computes a number that is too large")


def spend_on_pattern(pattern: str, values: Any, field: str) -> None:
    """Spend what a pattern may make, whose fields begin with % or {: each may write all of the
    values, and be as wide as a number in the pattern, or among the values if it asks for that."""
    text = str.__str__(pattern)
    check_written(values)
    digits = re.findall(r"\d+", text)  # of any script, as Python reads them
    asked = _numbers_in(values) if _WIDTH_GIVEN[field].search(text) else []
    widest = max((*(int(number[:12]) for number in digits), *asked), default=0)
    if widest > MAX_WIDTH:
        raise TemplateFailedError("the template makes too much text")
    spend(str.count(text, field) * (weigh(values) + widest))


def _numbers_in(value: Any) -> list[int]:
    if isinstance(value, dict):
        return _numbers_in([*value.values()])
    if isinstance(value, list | tuple):
        return [number for inner in value for number in _numbers_in(inner)]
    if isinstance(value, str):
        return [int(number[:12]) for number in re.findall(r"\d+", str.__str__(value))]
    return [value] if isinstance(value, int) else []
