"""A packed dataset that grows with a tokenized one: a part for each of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.differences import OTHER_SELECTION, difference
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import Identity
from dataprep.pipeline.pack.recipe import pack, recipe_of
from dataprep.pipeline.run.parts import (
    Chosen,
    PlannedParts,
    WantedPart,
    current,
    finished_parts,
    number_in,
    version_without,
)
from dataprep.pipeline.run.versions import identity_without, origin_of
from dataprep.pipeline.storage.joined import contents_of
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest, read_manifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.types import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOf:
    """How one tokenized part is packed."""

    config: PackConfig
    # Of a part of which documents were taken out: which, how it was packed before that, and where
    # it still is as it was then.
    forgotten: Offsets
    before: PackConfig
    original: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedPart:
    """A part of the packed dataset."""

    wanted: WantedPart[PackedManifest] | str
    forgotten: Offsets  # what is taken out of it then
    identity: Identity  # of what comes of it
    # What it would have been made as if what is forgotten were still there, if it is made without.
    first: Identity | None = None

    def without(self, out: Path, name: str, part: PackedManifest) -> Chosen[PackedManifest]:
        """Return the part without what is forgotten, known by what it was, or would have been."""
        if self.first is not None:
            known = {
                "fingerprint": fingerprint(self.first),
                "contents": contents_of(part),
                "identity": self.first,
            }
            part = replace(part, identity={**part.identity, "of": known})
        return version_without(out, name, part, self.forgotten)


def plan_packed(out: Path, wanted: Sequence[PackOf]) -> PlannedParts[PackedManifest]:
    """Compare the dataset with what it should be, part by part."""
    made = dict(finished_parts(out, PackedManifest))
    have = current(out, PackedManifest)
    named = [entry.path for entry in have.parts] if have else []
    parts = [part for _, part in parts_of(out, have)] if have else []
    firsts = [_as_first_made(each) if len(each.forgotten) else None for each in wanted]
    there = _found(firsts, named, made)
    planned = [
        _planned(each, first, name, made.get(name))
        for each, first, name in zip(wanted, firsts, there, strict=True)
    ]
    reasons = [] if have else ["it is not there yet"]
    for part, each in zip(parts, planned, strict=False):
        if part.fingerprint != fingerprint(each.identity):
            reasons.append(_difference(part, each.identity))
            break
    more = len(planned) - len(parts)
    if have and not reasons and more:
        what = counted(abs(more), "part")
        reasons.append(f"{what} more" if more > 0 else f"{what} fewer")

    def finish(out: Path, chosen: list[Chosen[PackedManifest]]) -> list[Chosen[PackedManifest]]:
        pairs = zip(chosen, planned, strict=True)
        return [each.without(out, *made) for made, each in pairs]

    return PlannedParts(
        kind=PackedManifest,
        parts=tuple(each.wanted for each in planned),
        reasons=tuple(reasons),
        finish=finish,
    )


def _found(
    firsts: Sequence[Identity | None], named: Sequence[str], made: Mapping[str, PackedManifest]
) -> list[str]:
    """Return for each part of which something is forgotten the one that it is a version of: what
    has its place already, else any that no other has; "": there is none.

    Inputs of equal content give parts that are alike.
    """
    known = [fingerprint(first) if first is not None else "" for first in firsts]
    if not any(known):
        return known
    origins = {name: origin_of(part)["fingerprint"] for name, part in made.items()}
    pairs = zip_longest(named[: len(known)], known, fillvalue="")
    found = [name if name and origins[name] == own else "" for name, own in pairs]
    taken = {number_in(name) for name in found if name}
    for place, own in enumerate(known):
        for name in made if own and not found[place] else ():
            if origins[name] == own and number_in(name) not in taken:
                found[place] = name
                taken.add(number_in(name))
                break
    return found


def _planned(
    each: PackOf, first: Identity | None, name: str, part: PackedManifest | None
) -> _PlannedPart:
    """Plan a part; `part` is there as `name`, if it is. Rows stay where they are when documents are
    taken out of them: such a part is packed with these, and then masked."""
    if part is not None:
        masked = identity_without(part, each.forgotten)
        return _PlannedPart(wanted=name, forgotten=each.forgotten, identity=masked)
    if first is not None and each.original is not None:
        config = each.before.model_copy(update={"inputs": (str(each.original),)})
        make = partial(_make, config)
        base: WantedPart[PackedManifest] = WantedPart(fingerprint=fingerprint(first), make=make)
        return _PlannedPart(wanted=base, forgotten=each.forgotten, identity=first)
    identity = _identity(each.config)
    fresh: WantedPart[PackedManifest] = WantedPart(
        fingerprint=fingerprint(identity), make=partial(_make, each.config)
    )
    # With what is forgotten it cannot be made any more. Later requests must find it all the same.
    return _PlannedPart(wanted=fresh, forgotten=each.forgotten, identity=identity, first=first)


def _identity(config: PackConfig) -> Identity:
    recipe = recipe_of(config)
    return recipe.identity(recipe.plan())


def _as_first_made(each: PackOf) -> Identity:
    """Return the identity of the rows that were packed before documents were forgotten."""
    (folder,) = each.before.inputs
    part = read_manifest(Path(folder))
    assert isinstance(part, TokenizedManifest), folder
    first = origin_of(part)
    return {
        **_identity(each.before),
        "sources": [first["fingerprint"]],
        "contents": [first["contents"]],
    }


def _difference(part: PackedManifest, identity: Identity) -> str:
    if "of" in identity and origin_of(part)["fingerprint"] == identity["of"]["fingerprint"]:
        return "documents to forget"
    why = difference(origin_of(part)["identity"], identity, [s.path for s in part.sources])
    # The file is not one of the user's: what is in it follows from these settings.
    return "splits or dedup select other documents" if why == OTHER_SELECTION else why


def _make(config: PackConfig, folder: str, report: Report) -> None:
    pack(config.model_copy(update={"out": folder}), report=report)
