"""Formats of installed packages, through entry points.

A package that has a format names an instance of it in its pyproject.toml:

    [project.entry-points."dataprep.sources"]
    fasta = "fasta_for_dataprep:FASTA"

They are loaded when a name is met that no format of our own reads. One that fails to load, or has a
kind, ending or prefix in common with another, is not used; who names such a file is told why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.sources.format import Format

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "dataprep.sources"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFormats:
    formats: Mapping[str, Format]  # by kind
    problems: tuple[str, ...]  # why others are not used


@cache
def plugin_kinds() -> frozenset[str]:
    """Return the kinds of installed formats; none of them is loaded for that."""
    return frozenset(point.name for point in _points())


@cache
def installed_formats(own: tuple[Format, ...]) -> InstalledFormats:
    """Load the formats of installed packages; `own` are those of dataprep."""
    loaded: list[tuple[Format, str]] = []
    problems: list[str] = []
    for point in _points():
        try:
            loaded.append((_load(point), point.value))
        except ConfigError as error:
            problems.append(str(error))
    users: defaultdict[str, list[str]] = defaultdict(list)
    for known, user in [*((known, "dataprep itself") for known in own), *loaded]:
        for mark in _marks(known):
            users[mark].append(user)
    problems += [
        f"several sources are for {mark}: {', '.join(found)}; uninstall all packages but one"
        for mark, found in users.items()
        if len(found) > 1
    ]
    alone = (known for known, _ in loaded if all(len(users[mark]) == 1 for mark in _marks(known)))
    return InstalledFormats(
        formats={known.kind: known for known in alone}, problems=tuple(problems)
    )


def _points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # takes 30 ms, which most runs need not spend

    return list(dict.fromkeys(entry_points(group=GROUP)))  # an installation may be found twice


def _marks(known: Format) -> list[str]:
    """Return all that a format is known by."""
    return [f"the kind {known.kind}", *known.endings, *([known.prefix] if known.prefix else [])]


def _load(point: EntryPoint) -> Format:
    try:
        known = point.load()
    except Exception as error:
        raise ConfigError(
            f"source {point.name!r} ({point.value}) fails to load: {error!r}; mend or uninstall "
            "its package"
        ) from error
    if Format not in type(known).__mro__ or known.kind != point.name:
        raise ConfigError(
            f"source {point.name!r} ({point.value}) is not a Format of that kind; ask the authors "
            "of its package"
        )
    found: Format = known
    return found
