"""Write a config as YAML in which every key has a comment: what the config model says of it.

# bad records: stop, leave them out (counted), or list them in errors.jsonl too
on_error: fail
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_origin

import yaml
from pydantic import BaseModel

from dataprep.configs.problems import model_in

WIDTH = 98
_INDENT = "  "

# By the path of a key: lines that stand before its own comment; those of () begin the file.
Remarks = Mapping[tuple[str, ...], Sequence[str]]


def commented(
    model: type[BaseModel],
    values: Mapping[str, Any],
    remarks: Remarks,
    more: Mapping[str, Any],
) -> str:
    """Return the text of a config file with these values; `more` are shown, but not set."""
    lines = [f"# {line}" for line in remarks.get((), ())]
    lines += _table(model, values, (), remarks)
    for key, value in more.items():
        about = model.model_fields[key].description or ""
        lines += ["", *_comment([about], ""), f"# {key}: {_scalar(value)}"]
    return "".join(f"{line}\n" for line in lines)


def _table(
    model: type[BaseModel], values: Mapping[str, Any], place: tuple[str, ...], remarks: Remarks
) -> Iterator[str]:
    for key, value in values.items():
        here, field = (*place, key), model.model_fields[key]
        if not place:
            yield ""
        indent = _INDENT * len(place)
        inner = model_in(field.annotation)
        yield from _comment([field.description or "", *remarks.get(here, ())], indent)
        if inner is None or not isinstance(value, Mapping) or not value:
            yield f"{indent}{key}: {_scalar(value)}"
        elif get_origin(field.annotation) is dict:
            yield f"{indent}{key}:"
            yield from _named(inner, value, here, remarks)
        else:
            yield f"{indent}{key}:"
            yield from _table(inner, value, here, remarks)


def _named(
    model: type[BaseModel], tables: Mapping[str, Any], place: tuple[str, ...], remarks: Remarks
) -> Iterator[str]:
    """Yield tables under names that the user chose."""
    indent = _INDENT * len(place)
    for name, values in tables.items():
        yield from _comment(remarks.get((*place, name), ()), indent)
        yield f"{indent}{_scalar(name)}:"
        yield from _table(model, values, (*place, name), remarks)


def _comment(lines: Sequence[str], indent: str) -> Iterator[str]:
    for line in filter(None, lines):
        mark = f"{indent}# "
        yield from textwrap.wrap(
            " ".join(line.split()),
            WIDTH,
            initial_indent=mark,
            subsequent_indent=mark,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _scalar(value: Any) -> str:
    """Return a value in one line; `${` would be a variable.

    >>> _scalar("[prompt],answer"), _scalar(["a b.jsonl", 3]), _scalar("${x}")
    ("'[prompt],answer'", '[a b.jsonl, 3]', "'$${x}'")
    """
    text = yaml.safe_dump([value], default_flow_style=True, width=1 << 30, allow_unicode=True)
    return text.strip()[1:-1].replace("${", "$${")
