"""A packed dataset that grows with a tokenized one: a part for each of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import Identity, difference
from dataprep.pipeline.pack.recipe import pack, recipe_of
from dataprep.pipeline.run.parts import (
    Chosen,
    PlannedParts,
    WantedPart,
    current,
    finished_parts,
)
from dataprep.pipeline.run.versions import identity_without, origin_of, write_without
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest, read_manifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.types import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOf:
    """How one tokenized part is packed."""

    config: PackConfig
    # Of a part of which documents were taken: as the part was packed before that, and which.
    before: PackConfig
    forgotten: Offsets


def plan_packed(out: Path, wanted: Sequence[PackOf]) -> PlannedParts[PackedManifest]:
    """Compare the dataset with what it should be, part by part."""
    made = list(finished_parts(out, PackedManifest))
    planned = [_planned(out, each, made) for each in wanted]
    have = current(out, PackedManifest)
    parts = [part for _, part in parts_of(out, have)] if have else []
    reasons = [] if have else ["it is not there yet"]
    for part, (each, identity) in zip(parts, planned, strict=False):
        if part.fingerprint != each.fingerprint:
            reasons.append(_difference(part, identity))
            break
    more = len(planned) - len(parts)
    if have and not reasons and more:
        what = counted(abs(more), "part")
        reasons.append(f"{what} more" if more > 0 else f"{what} fewer")
    return PlannedParts(
        kind=PackedManifest, parts=tuple(each for each, _ in planned), reasons=tuple(reasons)
    )


def _planned(
    out: Path, each: PackOf, made: Sequence[Chosen[PackedManifest]]
) -> tuple[WantedPart[PackedManifest], Identity]:
    """Return the part, and its identity; rows that were packed before documents were taken out of
    them stay where they are."""
    fresh = _identity(each.config)
    if len(each.forgotten):
        first = fingerprint(_as_first_made(each))
        for name, part in made:
            if origin_of(part)["fingerprint"] == first:
                identity = identity_without(part, each.forgotten)
                make = partial(_mask, out / name, part, each.forgotten)
                return WantedPart(fingerprint=fingerprint(identity), make=make), identity
    make = partial(_make, each.config)
    return WantedPart(fingerprint=fingerprint(fresh), make=make), fresh


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


def _mask(place: Path, part: PackedManifest, gone: Offsets, folder: str, report: Report) -> None:
    write_without(place, part, gone, Path(folder))
