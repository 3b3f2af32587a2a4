"""Say in what two identities of datasets differ: which key, which file.

{"config": {"fields": "text"}, …}  ┐   fields: 'text' -> 'body'; input a.jsonl changed
{"config": {"fields": "body"}, …}  ┘
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

MOST_INPUTS = 3  # that are named
OTHER_SELECTION = "the file of select has other bytes"
# Parts of an identity that are tables, and what stands before the names of their keys.
_TABLES = {"config": "", "tokenizer": "tokenizer ", "tags": "ids of the tag "}


def difference(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    names: Sequence[str],
    prints: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> str:
    """Return what changed: `fields: 'text' -> 'body'; input a.jsonl changed`.

    `names` are the inputs of `new`; `prints` the fingerprints of those of both, as far as they are
    known: an identity does not list many.
    """
    kinds = old.get("kind"), new.get("kind")
    if kinds[0] != kinds[1]:
        return f"{kinds[0]} -> {kinds[1]}"
    changes = [
        change
        for table, before in _TABLES.items()
        for change in _in_tables(old.get(table, {}), new.get(table, {}), before)
    ]
    chats = old.get("chats", []), new.get("chats", [])
    for then, now in zip(*chats, strict=False):
        changes += _in_tables(then or {}, now or {}, "chat ")
    counts = _num_sources(old), _num_sources(new)
    if counts[0] != counts[1]:
        changes.append(f"number of sources: {counts[0]} -> {counts[1]}")
    else:
        told = [*islice(_in_inputs(*_both_told(old, new, prints), names), MOST_INPUTS)]
        if old.get("sources") != new.get("sources") and not told:
            told = [f"some of the {counts[0]:,} inputs changed"]
        changes += told
    if old.get("selection") != new.get("selection") and not changes:
        changes.append(OTHER_SELECTION)
    return "; ".join(dict.fromkeys(changes)) or "another version of dataprep"


def sources_told(identity: Mapping[str, Any], prints: Sequence[str] = ()) -> list[Any]:
    """Return what an identity says of each source; it says apart how they are read. Of many it has
    no fingerprints: these are their `prints`.

    >>> sources_told({"sources": ["a", "b"], "ways": [{"start": 7}], "read_as": [[0, 2]]})
    [{'fingerprint': 'a', 'start': 7}, {'fingerprint': 'b', 'start': 7}]
    """
    said = identity.get("sources", [])
    sources = list(prints if isinstance(said, dict) else said)
    if "ways" not in identity:
        return sources
    ways = (identity["ways"][number] for number, n in identity["read_as"] for _ in range(n))
    return [{"fingerprint": mark, **way} for mark, way in zip(sources, ways, strict=True)]


def _num_sources(identity: Mapping[str, Any]) -> int:
    said = identity.get("sources", [])
    return int(said["count"]) if isinstance(said, dict) else len(said)


def _both_told(
    old: Mapping[str, Any], new: Mapping[str, Any], prints: tuple[Sequence[str], Sequence[str]]
) -> tuple[list[Any], list[Any]]:
    """Return what two identities of as many sources say of these; nothing if that is not known."""
    count = _num_sources(old)
    if old.get("sources") == new.get("sources"):
        prints = ("",) * count, ("",) * count  # they are the same, whatever they are
    both = isinstance(old.get("sources"), dict), isinstance(new.get("sources"), dict)
    if any(many and len(own) != count for many, own in zip(both, prints, strict=True)):
        return [], []
    return sources_told(old, prints[0]), sources_told(new, prints[1])


def _in_inputs(old: Sequence[Any], new: Sequence[Any], names: Sequence[str]) -> Iterator[str]:
    """Yield which inputs changed, or are read in another way."""
    for then, now, name in zip(old, new, names, strict=True):
        is_read_otherwise = (
            isinstance(then, dict)
            and isinstance(now, dict)
            and then["fingerprint"] == now["fingerprint"]
        )
        if then != now and is_read_otherwise:
            yield from _in_tables(then, now, f"for input {name} ")
        elif then != now:
            yield f"input {name} changed"


def _in_tables(old: Mapping[str, Any], new: Mapping[str, Any], before: str) -> Iterator[str]:
    then, now = _flat(old), _flat(new)
    for key in sorted({*then, *now}):
        if then.get(key) != now.get(key):
            yield f"{before}{key}: {_told(then.get(key))} -> {_told(now.get(key))}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}"""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


def _told(value: Any) -> str:
    """Return a value for a message; of a hash, as much as tells two apart."""
    is_hash = isinstance(value, str) and re.fullmatch(r"(\w+:)?[0-9a-f]{32,}", value)
    return f"{value[:19]}…" if is_hash else repr(value)
