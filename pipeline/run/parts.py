"""Make the parts of a dataset that are missing, and publish them as a generation.

    wanted          fingerprints 1f0c…  99aa…  7e02…
    out/parts       00000 is 1f0c…, 00001 is 99aa…, 00002 was begun and is to be 7e02…
    done            00002 is continued; parts 00000, 00001 and 00002 are the new generation

A part is found by its fingerprint, so that whatever was made is made once, whichever run began it.
Inputs of equal content give parts of one fingerprint, each in a folder of its own. Parts that no
generation needs any more stay: `dataprep clean` removes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

import numpy as np

from dataprep.pipeline.errors import CorruptError, DataprepError
from dataprep.pipeline.files import make_folder
from dataprep.pipeline.guards.opening import NotRegularError, read_bounded
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.ownership import check_ours, remove_dataset
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import begun_to_continue
from dataprep.pipeline.run.generations import publish_generation
from dataprep.pipeline.run.versions import identity_without, write_without
from dataprep.pipeline.storage.checked import check_size
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, files_of, read_manifest
from dataprep.pipeline.storage.parts import GENERATIONS, PARTS, G, part_name
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.types import Offsets

_NUMBER = re.compile(r"[0-9]{5,}(-[0-9]+)?")
_NAMED = re.compile(rb'"parts/([0-9]{5,}(?:-[0-9]+)?)"')  # in the file of a generation

STATE = ".run"  # folder below `out` for what runs must know of each other

Chosen = tuple[str, G]  # path in the dataset, and manifest of a part
Finish = Callable[[Path, list[Chosen[G]]], list[Chosen[G]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPart(Generic[G]):
    """A part, and how it is made if it is missing."""

    fingerprint: str
    make: Callable[[str, Report], object]  # given the folder, and what progress is reported to
    paths: tuple[str, ...] = ()  # of its inputs; a part that names others is another, if told

    def is_there_as(self, folder: Path, part: G) -> bool:
        if not self.paths:
            return True
        return self.paths == tuple(source.path for source in read_sources(folder, part))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedParts(Generic[G]):
    """The parts that a dataset should have, and why those are not what it has."""

    kind: type[G]
    parts: tuple[WantedPart[G] | str, ...]  # a text: the path of one that is there
    reasons: tuple[str, ...]  # none: nothing is to be done
    notes: tuple[str, ...] = ()
    # Puts other versions of parts in their places before they are published.
    finish: Finish[G] = lambda out, chosen: chosen


def current(out: Path, kind: type[G]) -> G | None:
    """Return the manifest of the newest generation; None if there is none yet."""
    if not (out / MANIFEST).exists():
        return None
    found = read_manifest(out)
    if not isinstance(found, kind) or not found.parts:
        raise CorruptError(
            f"{out} is a {found.kind} dataset that dataprep run did not make; name another out"
        )
    return found


def settle(out: Path, planned: PlannedParts[G], report: Report) -> G:
    """Return the generation of the planned parts, in their order; make what is missing of it."""
    kind, wanted = planned.kind, planned.parts
    make_folder(out / PARTS)
    before = current(out, kind)
    named = [part.path for part in before.parts] if before else []
    finished = dict(finished_parts(out, kind))
    alike: dict[str, list[str]] = {}
    for name in (*named, *finished):  # first those that are named, so that each stays in its place
        alike.setdefault(finished[name].fingerprint, []).append(name)
    known = {each.fingerprint for each in wanted if not isinstance(each, str)}
    taken = {number_in(each) for each in wanted if isinstance(each, str)}
    chosen: list[Chosen[G]] = []
    for each in wanted:
        name = each if isinstance(each, str) else _one_of(out, each, alike, finished, taken)
        if not name:
            assert not isinstance(each, str)
            name = _place_for(out, each.fingerprint, known)
            each.make(str(out / name), report)
            finished[name] = _part(out / name, kind, each.fingerprint)
        chosen.append((name, finished[name]))
        taken.add(number_in(name))
    chosen = planned.finish(out, chosen)
    places = [number_in(name) for name in named]
    anew = [number_in(name) for name, _ in chosen][: len(places)] != places
    return publish_generation(out, chosen, anew=anew)


def _one_of(
    out: Path,
    wanted: WantedPart[G],
    alike: Mapping[str, Sequence[str]],
    finished: Mapping[str, G],
    taken: Collection[int],
) -> str:
    """Return the path of a finished part that is the wanted one; "": none is.

    No part stands for two, and neither do two versions of it.
    """
    names = (name for name in alike.get(wanted.fingerprint, ()) if number_in(name) not in taken)
    return next((name for name in names if wanted.is_there_as(out / name, finished[name])), "")


def finished_parts(out: Path, kind: type[G]) -> Iterator[tuple[str, G]]:
    """Yield all parts that are complete, of whatever generation."""
    for place in part_folders(out):
        if not (place / MANIFEST).exists():
            continue
        try:
            part = read_manifest(place)
        except DataprepError as error:
            raise CorruptError(f"a part of {out} cannot be used: {error}") from None
        if isinstance(part, kind):
            yield f"{PARTS}/{place.name}", part


def unfinished_parts(out: Path) -> list[Path]:
    """Return parts that were begun; a link is none of ours, whatever it leads to."""
    begun = (place for place in part_folders(out) if not place.is_symlink())
    return [place for place in begun if not (place / MANIFEST).exists()]


def _place_for(out: Path, own: str, wanted: Collection[str]) -> str:
    """Return the folder of the part: that of the run which began it, or a new one.

    What was begun and is not wanted any more is removed, since it would never be finished.
    """
    for place in unfinished_parts(out):
        begun = begun_to_continue(place / WORK)
        known = "" if begun is None else fingerprint(begun)
        if known == own:
            return f"{PARTS}/{place.name}"
        if known not in wanted:
            check_ours(place)
            remove_dataset(place)
            place.rmdir()
    return part_name(max(map(number_in, _names_used(out)), default=-1) + 1)


def version_without(out: Path, name: str, part: G, documents: Offsets) -> Chosen[G]:
    """Return the version of a part without these documents and those that it lacks already."""
    if not len(documents):
        return name, part
    gone = forgotten_in(out / name, part)
    wanted = np.union1d(gone, documents)
    if len(wanted) == len(gone):
        return name, part
    known = fingerprint(identity_without(part, wanted))
    for other, made in finished_parts(out, type(part)):
        if made.fingerprint == known and number_in(other) == number_in(name):
            return other, made
    new = _next_version(out, name)
    write_without(out / name, part, wanted, out / new)
    return new, _part(out / new, type(part), known)


def _next_version(out: Path, name: str) -> str:
    """Return the folder for the next version of a part.

    It is removed first if a run that was killed has left it.
    """
    number = number_in(name)
    for place in unfinished_parts(out):
        if number_in(place.name) == number:
            check_ours(place)
            remove_dataset(place)
            place.rmdir()
    versions = [int(n.partition("-")[2] or 0) for n in _names_used(out) if number_in(n) == number]
    return part_name(number, max(versions) + 1)


def _names_used(out: Path) -> set[str]:
    """Return the names of all parts, also of those that are gone: older generations name them."""
    return names_mentioned(out) | {place.name for place in part_folders(out)}


def names_mentioned(out: Path) -> set[str]:
    """Return the names of parts that occur in generations, which are not checked for that: a year
    has hundreds, each as long as a manifest."""
    files = (out / GENERATIONS).glob("*.json")
    try:
        return {name.decode() for file in files for name in _NAMED.findall(read_bounded(file))}
    except NotRegularError as error:
        raise CorruptError(f"{error.filename} is not a file of dataprep; move it away") from None


def number_in(name: str) -> int:
    """
    >>> number_in("parts/00003-1"), number_in("00003")
    (3, 3)
    """
    return int(name.rpartition("/")[2].partition("-")[0])


def part_folders(out: Path) -> list[Path]:
    if not (out / PARTS).is_dir():
        return []
    return sorted(p for p in (out / PARTS).iterdir() if _NUMBER.fullmatch(p.name) and p.is_dir())


def _part(place: Path, kind: type[G], fingerprint: str) -> G:
    part = read_manifest(place)
    assert isinstance(part, kind), place
    assert part.fingerprint == fingerprint, f"{place} is another dataset than was planned"
    for entry in files_of(part):
        check_size(place, entry)
    return part
