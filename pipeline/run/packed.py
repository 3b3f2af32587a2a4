"""A packed dataset that grows with a tokenized one: a part for each of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.differences import difference
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import Identity
from dataprep.pipeline.pack.recipe import pack, recipe_of
from dataprep.pipeline.run.parts import (
    Chosen,
    PlannedParts,
    WantedPart,
    current,
    finished_parts,
    never_made,
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

    wanted: WantedPart[PackedManifest]
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
    made = [part for _, part in finished_parts(out, PackedManifest)]
    have = current(out, PackedManifest)
    parts = [part for _, part in parts_of(out, have)] if have else []
    # What has this place already comes first: inputs of equal content give parts that are alike.
    planned = [_planned(each, [*parts[i : i + 1], *made]) for i, each in enumerate(wanted)]
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


def _planned(each: PackOf, made: Sequence[PackedManifest]) -> _PlannedPart:
    """Plan a part. Rows stay where they are when documents are taken out of them: such a part is
    packed with these, and then masked."""
    first = _as_first_made(each) if len(each.forgotten) else None
    if first is not None:
        for part in made:
            if origin_of(part)["fingerprint"] == fingerprint(first):
                masked = identity_without(part, each.forgotten)
                known: WantedPart[PackedManifest] = WantedPart(
                    fingerprint=part.fingerprint, make=never_made
                )
                return _PlannedPart(wanted=known, forgotten=each.forgotten, identity=masked)
        if each.original is not None:
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
    return difference(origin_of(part)["identity"], identity, [s.path for s in part.sources])


def _make(config: PackConfig, folder: str, report: Report) -> None:
    pack(config.model_copy(update={"out": folder}), report=report)
