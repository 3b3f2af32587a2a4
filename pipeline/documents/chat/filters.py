"""Filters and tests of templates that keep the origins of texts, or say that they cannot.

SAFE      work by the methods of `TracedText`, and so keep origins
FILTERS   written anew, because jinja's own make a plain text out of any other
the rest  a text that goes in is recorded as lost to the tape; what comes out has its origin
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import filters as of_jinja
from jinja2 import pass_environment

from dataprep.pipeline.documents.chat.bounds import (
    OBJECT,
    TemplateFailedError,
    check_written,
    made,
    spend,
    weigh,
)
from dataprep.pipeline.documents.chat.costs import listed, spend_on
from dataprep.pipeline.documents.chat.json_text import has_text, tojson
from dataprep.pipeline.documents.chat.marks import LENGTH
from dataprep.pipeline.documents.chat.origins import Part
from dataprep.pipeline.documents.chat.texts import (
    TracedText,
    has_length,
    is_in,
    joined,
    make,
    of_any,
)
from dataprep.pipeline.documents.chat.traced import first_text, plain

COMPARISONS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {  # by jinja's names
    "eq": ("==", operator.eq),
    "ne": ("!=", operator.ne),
    "gt": (">", operator.gt),
    "gteq": (">=", operator.ge),
    "lt": ("<", operator.lt),
    "lteq": ("<=", operator.le),
}
SAFE = frozenset(
    (
        *("abs", "attr", "batch", "capitalize", "d", "default", "dictsort", "first"),
        *("groupby", "items", "last", "list", "lower", "map", "max", "min", "reject", "rejectattr"),
        *("reverse", "round", "select", "selectattr", "slice", "sort", "sum"),
        *("unique", "upper", "length", "count"),
    )
)
CASES = frozenset(("capitalize", "lower", "upper"))  # make texts of what is none
# These go through all items at once.
CONSUMING = frozenset(("sort", "unique", "reverse", "groupby", "sum", "min", "max", "slice"))


def bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter of jinja that does what it did, within bounds, and loses no origin."""
    # Of the value among the arguments: some filters are given the environment, too.
    place = int(hasattr(function, "jinja_pass_arg"))

    @functools.wraps(function)
    def paid(*args: Any, **named: Any) -> Any:
        given = [*args[place + 1 :], *named.values()]
        value: Any = args[place] if len(args) > place else None
        if name not in SAFE or name in CASES:
            check_written((value, given))
        if name in CONSUMING:
            value = value if hasattr(value, "__len__") else listed(value)
            weigh(value)
            args = (*args[:place], value, *args[place + 1 :])
        spend_on("printf" if name == "format" else name, value, given)
        return made(function(*args, **named))

    if name in SAFE:
        return paid

    @functools.wraps(function)
    def bounded(*args: Any, **named: Any) -> Any:
        weigh(args[place:])
        result = paid(*args, **named)
        given = [value for value in (*args, *named.values()) if has_text(value)]
        if not given:
            return result
        text = first_text(given)
        assert text is not None
        if isinstance(result, str):
            return of_any(given, plain(result))
        if isinstance(result, int | float | bool | None):
            text._tape.breaks(f"the filter {name} looks at a text")
            return result
        raise TemplateFailedError(f"the template uses the filter {name} on a message")

    return bounded


def text_of(value: Any) -> str:
    """Return what `str` does, of lists and objects too with their origins."""
    if isinstance(value, str):
        return value
    weigh(value)
    check_written(value)
    return of_any((value,), str(value)) if has_text(value) else str(value)


def _lifted(value: Any, *others: Any) -> str:
    """Return a text; a constant beside texts of messages becomes one that knows its origin."""
    text = text_of(value)
    beside = first_text(others)
    if isinstance(text, TracedText) or beside is None:
        return text
    return make(beside._tape, [Part(text)])


def _replace(value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = _lifted(value, old, new), text_of(old), text_of(new)
    spend_on("replace", text, (old, new))
    return text.replace(old, new, -1 if count is None else count)


def _trim(value: Any, chars: str | None = None) -> str:
    text = _lifted(value, chars)
    spend_on("trim", text, (chars,))
    return text.strip(chars)


@pass_environment
def _join(environment: Any, value: Iterable[Any], d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(of_jinja.make_attrgetter(environment, attribute), value)
    between = text_of(d)
    pieces: list[str] = []
    for item in value:
        pieces += [between, text_of(item)] if pieces else ["", text_of(item)]
        spend(str.__len__(pieces[-2]) + str.__len__(pieces[-1]) + OBJECT)
    return joined(pieces)


def _in(value: Any, container: Any) -> bool:
    is_constant = isinstance(container, str) and not isinstance(container, TracedText)
    if isinstance(value, TracedText) and is_constant:
        # Python would ask the constant, which tells no tape.
        return is_in(value, str.__str__(container))
    return value in container


def _has_length(value: Any, name: str, number: Any) -> bool:
    """Return whether the length of a value compares so with a number."""
    sign, compare = COMPARISONS[name]
    if not isinstance(value, TracedText) or type(number) is not int:
        return bool(compare(len(value), number))
    return has_length(value, sign, number, bool(compare(str.__len__(value), number)))


def _is_sequence(value: Any) -> bool:
    if isinstance(value, str):
        return True
    try:
        len(value)
        value.__getitem__  # noqa: B018
    except Exception:
        return False
    return True


def _random(*args: Any) -> None:
    raise TemplateFailedError("the template draws lots (random)")


FILTERS: Mapping[str, Callable[..., Any]] = {
    "list": listed,
    "random": _random,
    "tojson": tojson,
    "join": _join,
    "string": text_of,
    "replace": _replace,
    "trim": _trim,
}
TESTS: Mapping[str, Callable[..., Any]] = {
    "in": _in,
    "sequence": _is_sequence,
    LENGTH: _has_length,
}
