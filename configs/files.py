"""Read config files, which may be anything: hostile ones end in a ConfigError within a second.

    file ─► text ─► YAML or TOML ─► plain values ─► ${VAR} expanded ─► paths relative to the file

Plain values are tables with text as keys, lists, texts, numbers, true, false and null, of a bounded
depth and number: aliases of YAML are copied out, so a few lines could become billions of values.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, time
from importlib import resources
from typing import Any

import yaml

from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.guards.opening import near_path, open_regular

MAX_BYTES = 1 << 18
MAX_VALUES = 100_000
MAX_DEPTH = 32
_TOML_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")


def read_file(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the values of a file or a preset, with variables expanded."""
    if is_preset(name):
        return _table(_parse(preset_text(name), ".yaml", name), name)
    text = _text(name)
    values = _table(_parse(text, os.path.splitext(name)[1], name), name)
    return {key: expanded(value, name, environment) for key, value in values.items()}


def is_preset(name: str) -> bool:
    """Return whether it can only be a preset: a name without an ending that is not a file."""
    return not os.path.exists(name) and not os.path.splitext(name)[1] and "/" not in name


def preset_names() -> list[str]:
    folder = resources.files("dataprep.configs")
    return sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml"))


def parse_value(text: str) -> Any:
    """Parse a `--set` value as YAML: 4 -> 4, true -> True, [a, b] -> list, else a string."""
    if not text.strip() or len(text) > MAX_BYTES:
        return text
    try:
        return plain(yaml.load(text, Loader=_PlainYaml), "--set")
    except yaml.YAMLError:
        return text
    except _UNDECLARED as error:
        raise ConfigError(f"--set: {short(text, 60)!r} is not valid: {error!r}") from None


# What PyYAML and tomllib raise for values that look right to their grammars: `!!bool maybe`,
# `2001-99-99`, integers of 5,000 digits, a thousand brackets.
_UNDECLARED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


class _PlainYaml(yaml.SafeLoader):
    """YAML in which a repeated key is an error, and depth and merged tables are bounded."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.YAMLError(f"a key in line {line} is not a text")
            if key_node.value in seen:
                raise yaml.YAMLError(f"key {key_node.value!r} is repeated in line {line}")
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def fetch_flow_collection_start(self, kind: Any) -> None:
        if self.flow_level > MAX_DEPTH:
            raise yaml.YAMLError(f"it is nested more than {MAX_DEPTH} levels deep")
        super().fetch_flow_collection_start(kind)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # `<<: [*a, *a]` copies the keys of a twice
        if len(node.value) > MAX_VALUES:
            raise yaml.YAMLError(f"it holds more than {MAX_VALUES:,} values")


def _parse(text: str, ending: str, name: str) -> Any:
    if ending not in _PARSERS:
        raise ConfigError(f"config {name} must end in .yaml, .yml, .json or .toml")
    try:
        return plain(_PARSERS[ending](text), name)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"config {name} is not valid: {_cause(error)}{_hint(error, text)}"
        ) from None
    except RecursionError:
        raise ConfigError(f"config {name} is nested too deeply") from None
    except _UNDECLARED as error:
        raise ConfigError(f"config {name} is not valid: {error!r}") from None


def _cause(error: Exception) -> str:
    """Return what is wrong and where: line 2, column 2: expected ',' or ']', but got ':'"""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return short(" ".join(str(error).split()), 300)
    began, what = getattr(error, "context_mark", None), getattr(error, "context", None)
    since = f" ({what} that begins in line {began.line + 1})" if began and what else ""
    return short(f"line {mark.line + 1}, column {mark.column + 1}: {problem}{since}", 300)


def _hint(error: Exception, text: str) -> str:
    """Say that ${VAR} needs quotes in {…} and […], where YAML gave up at its brace."""
    mark = getattr(error, "problem_mark", None)
    if mark is None or text[mark.index - 1 : mark.index + 1] != "${":
        return ""
    before = re.split(r"[\s,\[{]", text[: mark.index])[-1]
    after = re.split(r"[\s,\]}]", text[mark.index :].partition("}")[2])[0]
    name = text[mark.index :].partition("}")[0]
    return f'; quote a variable within {{…}} or […]: "{before}{name}}}{after}"'


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=_PlainYaml)


def _toml(text: str) -> Any:
    # tomllib takes memory with the square of the parts of a key: 40 GB for a key of 100,000.
    parts = re.split(r"[=,{}\[\]\n]", _TOML_TEXT.sub("x", text))
    if any(part.count(".") > MAX_DEPTH for part in parts):
        raise tomllib.TOMLDecodeError(f"a key has more than {MAX_DEPTH} parts")
    return tomllib.loads(text)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _yaml,
}


def plain(value: Any, name: str) -> Any:
    """Return a copy without aliases; a ConfigError if it is too deep, too large or not plain."""
    count = 0

    def copied(item: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if depth > MAX_DEPTH:
            raise ConfigError(f"config {name} is nested more than {MAX_DEPTH} levels deep")
        if count > MAX_VALUES:
            raise ConfigError(f"config {name} holds more than {MAX_VALUES:,} values")
        if isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    raise ConfigError(f"config {name}: the key {key!r} is not a text; quote it")
            return {key: copied(inner, depth + 1) for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return [copied(inner, depth + 1) for inner in item]
        if isinstance(item, str) and not _is_unicode(item):
            raise ConfigError(f"config {name}: {short(ascii(item))} is not Unicode text")
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, date | time):
            return str(item)  # YAML makes dates of 2025-01-02
        raise ConfigError(
            f"config {name}: {item!r} is neither a text, a number, a list nor a table"
        )

    return copied(value, 0)


def _is_unicode(text: str) -> bool:
    """Return whether it can be written as UTF-8; half of a surrogate pair cannot."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def expanded(value: Any, name: str, environment: Mapping[str, str]) -> Any:
    """Replace ${VAR} in texts by the variable; $${ is a literal ${.

    >>> expanded({"out": "${HOME}/x", "fields": "$${a}"}, "c.yaml", {"HOME": "/home/me"})
    {'out': '/home/me/x', 'fields': '${a}'}
    """

    def variable(found: re.Match[str]) -> str:
        key = found[1]
        if key is None:
            return "${"
        if not found[0].endswith("}") or not key.isidentifier():
            raise ConfigError(
                f"config {name}: {found[0]!r} is not a variable like ${{HOME}}; "
                "write $${ for a literal ${"
            )
        if key not in environment:
            raise ConfigError(f"config {name}: the environment has no variable {key}; set it")
        return environment[key]

    if isinstance(value, str):
        return _VARIABLE.sub(variable, value)
    if isinstance(value, list):
        return [expanded(item, name, environment) for item in value]
    if isinstance(value, dict):
        return {key: expanded(item, name, environment) for key, item in value.items()}
    return value


def _text(name: str) -> str:
    try:
        with open_regular(name) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        cause = getattr(error, "strerror", None) or error
        near = near_path(name) if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"cannot read config {name}: {cause}{near}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"config {name} is larger than {MAX_BYTES:,} bytes; is it a config?")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read config {name}: it is not UTF-8 ({error})") from None


def _table(values: Any, name: str) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config {name} must be a table of keys, got {type(values).__name__}")
    return values


def preset_text(name: str) -> str:
    """Return the YAML of a preset."""
    preset = resources.files("dataprep.configs") / f"{name}.yaml"
    if not name or not preset.is_file():
        near = difflib.get_close_matches(name, preset_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else near_path(name)
        known = ", ".join(preset_names())
        raise ConfigError(f"no config file and no preset named {name!r} (presets: {known}){hint}")
    return preset.read_text("utf-8")
