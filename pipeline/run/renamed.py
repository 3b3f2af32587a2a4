"""The names that inputs have now, if they were renamed since they were read.

    out/.run/renamed/web.json     {"3": "raw/a.jsonl"}     source 3 of the dataset, as it is now

A file that was renamed is known by its content. Once it is known, it is by its name again: so it
may be appended to, and another file may come in under the name that it left. Sources are numbered,
since their recorded names may be alike then. If the list is lost, a renamed file that has grown
since counts as gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.run.parts import STATE
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.typed import decode_as

FOLDER = "renamed"
NEWLINE_BYTES = 2  # at most, between what was read and what was appended

Part = tuple[Path, TokenizedManifest]  # its folder and its manifest


def read_names(dataset: Path) -> dict[int, str]:
    """Return the names that sources of a tokenized dataset have now, of those that were renamed."""
    return decode_as(read_sealed(_file(dataset)) or b"{}", dict[int, str])


def write_names(dataset: Path, names: Mapping[int, str]) -> None:
    if names != read_names(dataset):
        make_folder(_file(dataset).parent)
        write_sealed(_file(dataset), json.dumps(names).encode())


def as_called_now(
    parts: Iterable[Part], names: Mapping[int, str]
) -> list[tuple[Path, TokenizedManifest]]:
    """Return all parts as if their inputs had been read under these names; then their manifests
    have all of these, however many."""
    if not names:
        return [*parts]
    number = count()
    return [
        (
            folder,
            replace(
                part,
                sources=tuple(
                    replace(source, path=names.get(next(number), source.path))
                    for source in read_sources(folder, part)
                ),
            ),
        )
        for folder, part in parts
    ]


def sources_of(parts: Iterable[Part]) -> Iterator[TextSource]:
    """Yield the sources of all parts."""
    for folder, part in parts:
        yield from read_sources(folder, part)


def names_now(
    parts: Iterable[Part], names: Mapping[int, str], became: Mapping[str, str]
) -> dict[int, str]:
    """Return the names that the sources of parts have now, of those that were renamed; `became` is
    what the names that they had before this have become."""
    recorded = [source.path for source in sources_of(parts)]
    before = [names.get(number, path) for number, path in enumerate(recorded)]
    now = [became.get(name, name) for name in before]
    return {i: name for i, name in enumerate(now) if name != recorded[i]}


def told_apart(parts: Iterable[Part], names: Mapping[int, str]) -> dict[int, str]:
    """Return the names, and one that no file has for each file that left its own to another, if the
    one that it has now was lost: so it is known by its content alone. What was empty has left its
    name if another has it."""
    found = dict(names)
    called = [(names.get(i, each.path), each) for i, each in enumerate(sources_of(parts))]
    held = {name for name, source in called if source.start + source.bytes}
    known: dict[str, list[int]] = {}  # the sources that are one file, by its name
    ends: dict[str, int] = {}
    for number, (name, source) in enumerate(called):
        if name in held and not source.start + source.bytes:
            found[number] = f"{name} (empty, source {number})"
            continue
        own = known.setdefault(name, [])
        behind = source.start - ends.get(name, source.start)
        if not 0 <= behind <= NEWLINE_BYTES:  # not what was appended: another file
            found |= dict.fromkeys(own, f"{name} (before source {number})")
            own.clear()
        own.append(number)
        ends[name] = source.start + max(source.bytes, 0)
    return found


def _file(dataset: Path) -> Path:
    corpus = dataset.parent
    return corpus.parent / STATE / FOLDER / f"{corpus.name}.json"
