"""What methods and filters may make of a text, told before they are called.

    'a\tb'.expandtabs(9)    9 more characters for each tab
    'a b c'.split()         an object for each piece
    x | replace('a', y)     y for each 'a' in x

Of what is not listed, the result is no longer than a few times its arguments, which were paid for.
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
)

MAX_DIGITS = 300  # that a number is rounded to

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
    **dict.fromkeys(("split", "rsplit", "splitlines"), _pieces),
    "replace": _replaced,
    "translate": _letters,
}
PATTERNS = {"format": "{", "format_map": "{", "printf": "%"}  # how their fields begin


def spend_on(name: str, text: Any, args: Sequence[Any]) -> None:
    """Spend what a method or filter may make of a text."""
    if isinstance(text, str):
        value = str.__str__(text)
        spend(len(value) + 1)
        if name in COSTS:
            inner = [v for a in args for v in (a.values() if isinstance(a, dict) else (a,))]
            texts = [str.__str__(v) for v in inner if isinstance(v, str)]
            numbers = [v for v in inner if isinstance(v, int)]
            spend(COSTS[name](value, texts, numbers))
        elif name in PATTERNS:
            spend_on_pattern(value, args, PATTERNS[name])
        elif name == "join":
            spend(len(value) * sum(len(a) for a in args if isinstance(a, list | tuple)))
    if name == "round" and any(isinstance(a, int) and abs(a) > MAX_DIGITS for a in args):
        raise TemplateFailedError("the template computes a number that is too large")
    if name == "batch":
        spend(ITEM * max((a for a in args if isinstance(a, int)), default=0))


def listed(value: Iterable[Any]) -> list[Any]:
    """Return the items of anything, paid for one by one."""
    found = []
    for item in value:
        spend(OBJECT)
        found.append(item)
    return found
