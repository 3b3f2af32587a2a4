"""Merge files, presets, flags and `--set`, or the settings of a call, into one config.

    --config a  <  --config b  <  --set a.b=c  <  flags        the right one wins

Tables are merged key by key, lists are replaced. Paths in a file are relative to that file (keys
whose type is `FilePath` or `NameOrPath`), those of flags and `--set` to the working folder.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, ValidationError

from dataprep.configs.base import IS_PATH, MAY_BE_PATH, Model, Needs
from dataprep.configs.files import MAX_DEPTH, is_preset, parse_value, preset_names, read_file
from dataprep.configs.problems import Place, model_in, problems_by_place, problems_of
from dataprep.pipeline.errors import ConfigError, CorruptError

__all__ = ["load_config", "preset_names", "recorded", "validate"]

M = TypeVar("M", bound=BaseModel)
C = TypeVar("C", bound=Model)


def load_config(
    model: type[C],
    *,
    files: Sequence[str] = (),
    section: str | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    by_hand: str = "the command line",
) -> C:
    """Return the validated config of whole files or of a section.

    `settings` win over all others. None is a flag that is not given, but a setting like any other:
    null. A message names the files, the `--set` or, of flags and settings, what `by_hand` calls
    them.
    """
    values: dict[str, Any] = {}
    layers: list[Collection[str]] = []  # the keys of each file, then those of the command line
    for file in files:
        found = _values_of(file, model, section)
        values = merged(values, found)
        layers.append(found)
    if section is not None:  # pack.seq_len=512 as a file has it, or seq_len=512
        sets = [item.removeprefix(f"{section}.") for item in sets]
    for item in sets:
        key, separator, text = item.partition("=")
        if not separator or not key:
            raise ConfigError(f"--set takes key=value, got {item!r}")
        put(values, key.split("."), parse_value(text), item)
    check_layers(model, values, files, sets)  # also what a flag replaces
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    given |= settings or {}
    config = validate(model, {**values, **given}, by_hand)
    layers.append({*given, *(item.partition("=")[0] for item in sets)})
    check_effects(config, layers)
    return config


def check_layers(
    model: type[BaseModel], values: Mapping[str, Any], files: Sequence[str], sets: Sequence[str]
) -> None:
    """Raise a ConfigError that names the file or the `--set` which each problem comes from."""
    try:
        model.model_validate(values)
    except ValidationError as error:
        told: dict[str, list[str]] = {}
        for place, problem in problems_by_place(model, error).items():
            blamed = [f"--set {item}" for item in sets if _touches(item, place)]
            told.setdefault(", ".join(blamed or files or ["--set"]), []).append(problem)
        said = "; ".join(f"in {where}: {'; '.join(found)}" for where, found in told.items())
        raise ConfigError(f"config error {said}") from None


def _touches(item: str, place: Place) -> bool:
    """Return whether `--set a.b=1` sets the value at a place, a part of it, or what it is in."""
    keys = item.partition("=")[0].split(".")
    return all(str(part) == key for part, key in zip(place, keys, strict=False))


def check_effects(config: Model, layers: Sequence[Collection[str]]) -> None:
    """Raise a ConfigError for a key that nothing looks at; a later layer wins over an earlier one.

    A file may serve several strategies, of which a flag or a later file chooses one: what it says
    for others does no harm, and neither does a default that is spelled out.
    """
    last = {key: i for i, layer in enumerate(layers) for key in layer}
    for key in config.goes_with:
        value = getattr(config, key)
        lacks = _lacks(config, key)
        if lacks is None or key not in last or value == type(config).model_fields[key].default:
            continue
        if not lacks.may_wait or last.get(lacks.key, -1) <= last[key]:
            raise ConfigError(
                f"{key} {value} has no effect without {lacks.what}; set that, or leave {key} out"
            )


def _lacks(config: Model, key: str) -> Needs | None:
    """Return what a key needs and the config does not have, or what that needs in its turn."""
    needs = config.goes_with.get(key)
    if needs is None or not needs.is_given(config):
        return needs
    return _lacks(config, needs.key)


def _values_of(file: str, model: type[BaseModel], section: str | None) -> dict[str, Any]:
    """Return what a file or a section of it says, its paths relative to the working folder."""
    values: Any = read_file(file)
    if section is not None:
        values = values.get(section) or {}
        if not isinstance(values, dict):
            raise ConfigError(f"{section} in {file} must be a table of keys")
    return values if is_preset(file) else rooted(values, model, os.path.dirname(file))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """
    >>> merged({"a": [1], "b": {"c": 1, "d": 1}}, {"a": [2], "b": {"c": 2}})
    {'a': [2], 'b': {'c': 2, 'd': 1}}
    """
    both = {
        key: merged(below[key], above[key])
        for key in below
        if isinstance(below[key], dict) and isinstance(above.get(key), dict)
    }
    return {**below, **above, **both}


def rooted(values: Mapping[str, Any], model: type[BaseModel], folder: str) -> dict[str, Any]:
    """Return the values of a file in `folder` with their paths relative to the working folder."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        field = model.model_fields.get(key)
        found[key] = value
        if field is None:
            continue
        inner = model_in(field.annotation)
        if inner is not None and get_origin(field.annotation) is dict and isinstance(value, dict):
            found[key] = {  # tables by names that the user chose
                name: rooted(item, inner, folder) if isinstance(item, dict) else item
                for name, item in value.items()
            }
            continue
        items = value if isinstance(value, list) else [value]
        marks = [mark for mark in field.metadata if mark in (IS_PATH, MAY_BE_PATH)]
        moved = [
            rooted(item, inner, folder)
            if inner is not None and isinstance(item, dict)
            else path_in(folder, item, may_be_name=marks[0] == MAY_BE_PATH)
            if marks and isinstance(item, str)
            else item
            for item in items
        ]
        found[key] = moved if isinstance(value, list) else moved[0]
    return found


_SCHEME = re.compile(r"[a-z][a-z0-9_-]+:")  # tfds:lm1b/train, python:0, those of plugins


def path_in(folder: str, text: str, *, may_be_name: bool = False) -> str:
    """Return a path that a file in `folder` names; URLs and names such as hf:… are no paths.

    >>> path_in("conf", "../data/*.jsonl"), path_in("conf", "zip://a.jsonl::x.zip")
    ('conf/../data/*.jsonl', 'zip://a.jsonl::conf/x.zip')
    """
    links, mark, last = text.rpartition("::")
    if mark and not os.path.exists(os.path.join(folder, text)):
        return f"{links}::{path_in(folder, last)}"
    place = os.path.join(folder, os.path.expanduser(text))
    looks_like_path = text.startswith(("./", "../", "~", "/")) or os.path.exists(place)
    is_name = "://" in text or text.startswith(("hf:", "synthetic:"))
    is_name = is_name or (bool(_SCHEME.match(text)) and not glob.has_magic(text))
    if not text or text == "-" or (is_name and not os.path.lexists(place)):
        return text
    if may_be_name and (text == "bytes" or not looks_like_path):
        return text
    if glob.has_magic(text) and not os.path.exists(place):
        return os.path.join(glob.escape(folder), os.path.expanduser(text))
    return _tidy(place)


def _tidy(path: str) -> str:
    """Return a path without `.` and `..`, unless a link on the way makes that another place.

    >>> _tidy("conf/../data"), _tidy("conf/./a.jsonl")
    ('data', 'conf/a.jsonl')
    """
    tidy = os.path.normpath(path)
    is_same = "\0" not in path and os.path.realpath(tidy) == os.path.realpath(path)
    return tidy if is_same else path


def put(values: dict[str, Any], keys: Sequence[str], value: Any, item: str) -> None:
    if len(keys) > MAX_DEPTH:
        raise ConfigError(f"--set: a key has {len(keys)} parts; {MAX_DEPTH} is the most")
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
        raise ConfigError(f"config error in {where}: {problems_of(model, error)}") from None


def recorded(model: type[M], values: Mapping[str, Any], folder: Path) -> M:
    """Return the config that the manifest of `folder` records, as its model."""
    try:
        return model.model_validate(_known(model, values))
    except ValidationError as error:
        problems = problems_of(model, error)
        raise CorruptError(
            f"{folder}/manifest.json records a config that is not valid: {problems}"
        ) from None


def _known(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values whose keys the model has: another version may have recorded others."""
    fields = model.model_fields
    return {key: _known_in(fields[key].annotation, values[key]) for key in fields if key in values}


def _known_in(annotation: Any, value: Any) -> Any:
    inner = model_in(annotation)
    if inner is None:
        return value
    if isinstance(value, list):
        return [_known_in(inner, item) for item in value]
    return _known(inner, value) if isinstance(value, dict) else value
