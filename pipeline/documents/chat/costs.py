"""What methods and filters may make of a text, told before they are called.

    'a\tb'.expandtabs(9)    9 more characters for each tab
    'a b c'.split()         an object for each piece
    x | replace('a', y)     y for each 'a' in x
    x.strip(y), x.rfind(y)  up to all of y at each character of x: no text, but time

Python looks at no clock while it does one of these. Of what is not listed, the result is no longer
than a few times its arguments, which were paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.bounds import (
    ITEM,
    OBJECT,
    TemplateFailedError,
    spend,
    spend_on_pattern,
    weigh,
)

MAX_DIGITS = 300  # that a number is rounded to
MANY_TIMES = 64  # pprint looks at all that a list holds, and again at each level of it

Cost = Callable[[str, Sequence[str], Sequence[int]], int]  # text, texts and numbers beside it


def _wide(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    return max(numbers, default=0)


def _tabs(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    return text.count("\t") * max(numbers, default=8)


def _lines(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    width = max((*map(len, texts), *numbers), default=4)
    return (len(text.splitlines()) + 1) * width


def _wrapped(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    longest = max(map(len, text.split()), default=0)  # is cut again and again
    width = max(min(numbers, default=79), 1)
    return longest * longest // width + len(text) * (1 + max(map(len, texts), default=0))


def _pieces(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    between = [each for each in texts if each]
    count = text.count(between[0]) if between else len(text) // 2
    return OBJECT * (count + 1)


def _words(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    return OBJECT * (len(text) // 2 + 1)


def _compared(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    return len(text) * max(map(len, texts), default=0)


def _pieces_from_end(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    return _pieces(text, texts, numbers) + _compared(text, texts, numbers)


def _replaced(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    old, new = (*texts, "", "")[:2]
    return len(text) + text.count(old) * len(new)


def _letters(text: str, texts: Sequence[str], numbers: Sequence[int]) -> int:
    return len(text) * (1 + max(map(len, texts), default=0))


COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _wide),
    "expandtabs": _tabs,
    "indent": _lines,
    "wordwrap": _wrapped,
    **dict.fromkeys(("split", "splitlines"), _pieces),
    "rsplit": _pieces_from_end,
    **dict.fromkeys(("title", "wordcount", "urlize", "striptags"), _words),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim"), _compared),
    **dict.fromkeys(("rfind", "rindex", "rpartition"), _compared),
    "replace": _replaced,
    "translate": _letters,
}
PATTERNS = {"format": "{", "format_map": "{", "printf": "%"}  # how their fields begin


def spend_on(name: str, text: Any, args: Sequence[Any]) -> None:
    """Spend what a method or filter may make of a text."""
    value = str.__str__(text) if isinstance(text, str) else ""
    if name in COSTS:  # of what is no text, too: 5 | center(9)
        inner = [v for a in args for v in (a.values() if isinstance(a, dict) else (a,))]
        texts = [str.__str__(v) for v in inner if isinstance(v, str)]
        numbers = [v for v in inner if isinstance(v, int)]
        spend(COSTS[name](value, texts, numbers))
    if isinstance(text, str):
        spend(len(value) + 1)
        if name in PATTERNS:
            spend_on_pattern(value, args, PATTERNS[name])
        elif name == "join":
            spend(len(value) * sum(len(a) for a in args if isinstance(a, list | tuple)))
    if name == "round" and any(isinstance(a, int) and abs(a) > MAX_DIGITS for a in args):
        raise TemplateFailedError("the template computes a number that is too large")
    if name == "sum" and any(isinstance(a, list | tuple) for a in args):
        spend(len(text) * weigh((text, args)))  # all that was added before, again and again
    if name == "pprint":
        spend(MANY_TIMES * weigh(text))
    if name == "batch":
        spend(ITEM * max((a for a in args if isinstance(a, int)), default=0))


def listed(value: Iterable[Any]) -> list[Any]:
    """Return the items of anything, paid for one by one."""
    found = []
    for item in value:
        spend(OBJECT)
        found.append(item)
    return found
