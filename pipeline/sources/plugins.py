"""Formats of installed packages, through entry points.

A package that has a format names an instance of it in its pyproject.toml:

    [project.entry-points."dataprep.sources"]
    fasta = "fasta_for_dataprep:FASTA"

They are loaded when a name is met that no format of our own reads, so that a package that is broken
harms only those who use it. Two formats with one kind, ending or prefix are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.sources.format import Format

GROUP = "dataprep.sources"


@cache
def plugin_kinds() -> frozenset[str]:
    """Return the kinds of installed formats; none of them is loaded for that."""
    return frozenset(point.name for point in entry_points(group=GROUP))


@cache
def plugins(own: tuple[Format, ...]) -> Mapping[str, Format]:
    """Return the formats of installed packages by their kinds; `own` are those of dataprep."""
    taken = {mark: "dataprep itself" for known in own for mark in _marks(known)}
    found: dict[str, Format] = {}
    for point in dict.fromkeys(entry_points(group=GROUP)):  # an installation may be found twice
        known = _load(point)
        for mark in _marks(known):
            if mark in taken:
                raise ConfigError(
                    f"two sources are for {mark}: one from {taken[mark]} and one from "
                    f"{point.value}; uninstall one of the packages"
                )
            taken[mark] = point.value
        found[known.kind] = known
    return found


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
