"""Merge files, presets, flags and `--set` into one config.

    preset or file  <  --set a.b=c  <  flags        the right one wins

A name without an ending that is not a file is a preset of this folder: `--config lwm`.
"""

from __future__ import annotations

import difflib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from dataprep.pipeline.errors import ConfigError, CorruptError

M = TypeVar("M", bound=BaseModel)


def load_config(
    model: type[M],
    *,
    file: str | None = None,
    section: str | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> M:
    """Return the validated config of the whole file or a section; None is a flag not given."""
    values = read_file(file) if file else {}
    if section is not None:
        values = values.get(section) or {}
        if not isinstance(values, dict):
            raise ConfigError(f"{section} in {file} must be a table of keys")
    for item in sets:
        key, separator, text = item.partition("=")
        if not separator or not key:
            raise ConfigError(f"--set takes key=value, got {item!r}")
        put(values, key.split("."), parse_value(text), item)
    for key, value in (flags or {}).items():
        if value is not None:
            values[key] = value
    return validate(model, values, file or "the command line")


class UniqueKeys(yaml.SafeLoader):
    """YAML in which a repeated key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise yaml.YAMLError(
                    f"key {key!r} is repeated in line {key_node.start_mark.line + 1}"
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_file(name: str) -> dict[str, Any]:
    path = Path(name)
    if not path.exists() and not path.suffix and "/" not in name:
        return _parse(_preset_text(name), ".yaml", name)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read config {name}: {error}") from None
    return _parse(text, path.suffix, name)


def preset_names() -> list[str]:
    folder = resources.files("dataprep.configs")
    return sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml"))


def parse_value(text: str) -> Any:
    """Parse a `--set` value as YAML: 4 -> 4, true -> True, [a, b] -> list, else a string."""
    try:
        return yaml.safe_load(text) if text.strip() else text
    except yaml.YAMLError:
        return text


def put(values: dict[str, Any], keys: Sequence[str], value: Any, item: str) -> None:
    *parents, last = keys
    for key in parents:
        if values.get(key) is None:
            values[key] = {}
        values = values[key]
        if not isinstance(values, dict):
            raise ConfigError(f"--set {item}: {key!r} is not a section")
    values[last] = value


def validate(model: type[M], values: Mapping[str, Any], where: str) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(_problem(model, p) for p in error.errors())
        raise ConfigError(f"config error in {where}: {problems}") from None


def recorded(model: type[M], values: Mapping[str, Any], folder: Path) -> M:
    """Return the config that the manifest of `folder` records, as its model."""
    try:
        return model.model_validate(_known(model, values))
    except ValidationError as error:
        problems = "; ".join(_problem(model, p) for p in error.errors())
        raise CorruptError(
            f"{folder}/manifest.json records a config that is not valid: {problems}"
        ) from None


def _known(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values whose keys the model has: another version may have recorded others."""
    found: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        if key in values:
            inner, value = _model_in(field.annotation), values[key]
            is_section = inner is not None and isinstance(value, dict)
            found[key] = _known(inner, value) if inner and is_section else value
    return found


def _parse(text: str, suffix: str, name: str) -> dict[str, Any]:
    try:
        if suffix == ".toml":
            values: Any = tomllib.loads(text)
        elif suffix in (".yaml", ".yml", ".json"):
            values = yaml.load(text, Loader=UniqueKeys)
        else:
            raise ConfigError(f"config {name} must end in .yaml, .yml, .json or .toml")
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"config {name} is not valid: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config {name} must be a table of keys, got {type(values).__name__}")
    return values


def _preset_text(name: str) -> str:
    preset = resources.files("dataprep.configs") / f"{name}.yaml"
    if not preset.is_file():
        known = ", ".join(preset_names())
        raise ConfigError(f"no config file and no preset named {name!r} (presets: {known})")
    return preset.read_text("utf-8")


def _problem(model: type[BaseModel], problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = _keys_beside(model, problem["loc"])
        near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        return f"unknown key {place!r}, {hint}"
    return f"{place or 'config'}: {problem['msg'].lower()}, got {problem['input']!r}"


def _keys_beside(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    """Return the keys of the model that `loc` ends in: ('modalities', 'visoin') -> vision, …"""
    current: type[BaseModel] = model
    for part in loc[:-1]:
        if isinstance(part, str) and part in current.model_fields:
            current = _model_in(current.model_fields[part].annotation) or current
    return list(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation: tuple[Annotated[InputConfig, …], …] -> InputConfig."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        for inner in typing.get_args(annotation):
            found = _model_in(inner)
            if found is not None:
                return found
    return None
