"""Bounds on what a template may make: texts and numbers of a size that no conversation needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MAX_CHARACTERS = 1 << 26  # most of any text that a template makes
MAX_BITS = 1 << 15  # of a number
WIDE = ("center", "ljust", "rjust", "zfill", "expandtabs")  # methods that make a text wider


class TemplateFailedError(Exception):
    """The template refused a conversation, or failed on it; the message says how."""


def checked(value: Any) -> Any:
    size = str.__len__(value) if isinstance(value, str) else 0
    if isinstance(value, list | tuple | bytes):
        size = len(value)
    if size > MAX_CHARACTERS:
        raise TemplateFailedError("the template makes a text that is too long")
    return value


def check_width(values: Iterable[Any]) -> None:
    if any(isinstance(value, int) and value > MAX_CHARACTERS for value in values):
        raise TemplateFailedError("the template makes a text that is too long")


def check_operands(operator: str, left: Any, right: Any) -> None:
    """Raise before an operation that would take all memory, or hours."""
    bits = [v.bit_length() for v in (left, right) if isinstance(v, int)]
    if operator == "**" and len(bits) == 2:
        if bits[0] * abs(right) > MAX_BITS:
            raise TemplateFailedError("the template computes a number that is too large")
    elif operator == "*":
        sized = [v for v in (left, right) if isinstance(v, str | list | tuple)]
        counts = [v for v in (left, right) if isinstance(v, int)]
        if sized and counts:
            size = str.__len__(sized[0]) if isinstance(sized[0], str) else len(sized[0])
            check_width([size * counts[0]])
        elif sum(bits) > MAX_BITS:
            raise TemplateFailedError("the template computes a number that is too large")
    elif operator == "%" and isinstance(left, str):
        check_pattern(left)
        check_width(right if isinstance(right, tuple) else (right,))


def check_pattern(pattern: str) -> None:
    """Raise for a pattern of `%` or `format` that asks for more characters than are allowed."""
    digits = "".join(c if "0" <= c <= "9" else " " for c in str.__str__(pattern)).split()
    check_width(int(number[:12]) for number in digits)
