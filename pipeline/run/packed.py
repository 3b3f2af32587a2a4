"""A packed dataset that grows with a tokenized one: a part for each of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.errors import counted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.jobs.workspace import difference
from dataprep.pipeline.pack.recipe import pack, recipe_of
from dataprep.pipeline.run.parts import Planned, Wanted, current
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.parts import parts_of


def plan_packed(out: Path, configs: Sequence[PackConfig]) -> Planned[PackedManifest]:
    """Compare the dataset with what the configs make, each of which packs one tokenized part."""
    wanted: list[Wanted[PackedManifest]] = []
    identities = []
    for config in configs:
        recipe = recipe_of(config)
        identity = recipe.identity(recipe.plan())
        make = partial(_make, config)
        identities.append(identity)
        wanted.append(Wanted(fingerprint=fingerprint(identity), make=make))
    have = current(out, PackedManifest)
    parts = [part for _, part in parts_of(out, have)] if have else []
    reasons = [] if have else ["it is not there yet"]
    for part, each, identity in zip(parts, wanted, identities, strict=False):
        if part.fingerprint != each.fingerprint:
            reasons.append(difference(part.identity, identity, [s.path for s in part.sources]))
            break
    more = len(wanted) - len(parts)
    if have and not reasons and more:
        what = counted(abs(more), "part")
        reasons.append(f"{what} more" if more > 0 else f"{what} fewer")
    return Planned(kind=PackedManifest, parts=tuple(wanted), reasons=tuple(reasons))


def _make(config: PackConfig, folder: str, report: Report) -> None:
    pack(config.model_copy(update={"out": folder}), report=report)
