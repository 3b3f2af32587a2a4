"""JSON as `json.dumps` writes it, of values in which texts know their origins.

[1, TracedText('a"b')]  ─►  '[1, "a\\"b"]', of which "a\\"b" is from the message
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dataprep.pipeline.documents.chat.bounds import spend, weigh
from dataprep.pipeline.documents.chat.texts import TracedText, joined, of_whole
from dataprep.pipeline.documents.chat.traced import plain

CALL = "quoted({}, {})"


def quoted(text: str, ensure_ascii: bool) -> str:
    """Return a text as JSON; the tape calls it by this name."""
    return json.dumps(text, ensure_ascii=ensure_ascii)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    weigh(value)
    width = indent if isinstance(indent, int) else len(indent or "")
    spend(_num_indents(value, 1) * (width + sum(map(len, separators or ()))))
    if not has_text(value):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )
    comma, colon = separators or (", " if indent is None else ",", ": ")
    step = " " * indent if isinstance(indent, int) else indent

    def written(value: Any, depth: int) -> Iterator[str]:
        if isinstance(value, TracedText):
            ascii_only = bool(ensure_ascii)
            yield of_whole(value, (ascii_only,), quoted(plain(value), ascii_only), CALL)
        elif isinstance(value, dict) and value:
            items = sorted(value.items()) if sort_keys else value.items()
            named = ((written_key(key), inner) for key, inner in items)
            yield from listed("{}", ((joined([key, colon]), inner) for key, inner in named), depth)
        elif isinstance(value, list | tuple) and value:
            yield from listed("[]", (("", inner) for inner in value), depth)
        else:
            yield json.dumps(value, ensure_ascii=ensure_ascii)

    def written_key(key: Any) -> str:
        if isinstance(key, str):
            return joined(written(key, 0))
        return json.dumps(json.dumps(key))  # a number or null is a text as a key

    def listed(brackets: str, items: Iterator[tuple[str, Any]], depth: int) -> Iterator[str]:
        between = "" if step is None else "\n" + step * (depth + 1)
        yield brackets[0]
        for i, (before, inner) in enumerate(items):
            yield (comma if i else "") + between
            yield before
            yield from written(inner, depth + 1)
        yield ("" if step is None else "\n" + step * depth) + brackets[1]

    return joined(written(value, 0))


def _num_indents(value: Any, depth: int) -> int:
    """Return how often a value is indented, one step each: as deep as each item is."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return 0
    return depth * (len(value) + 1) + sum(_num_indents(inner, depth + 1) for inner in value)


def has_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_text(key) or has_text(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return any(map(has_text, value))
    return isinstance(value, TracedText)
