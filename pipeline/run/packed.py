"""A packed dataset that grows with a tokenized one: a part for each of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dataprep.configs.pack import PackConfig
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.recipes import Report
from dataprep.pipeline.pack.recipe import pack, recipe_of
from dataprep.pipeline.run.parts import Wanted, settle
from dataprep.pipeline.storage.manifest import PackedManifest

Part = Wanted[PackedManifest]


def wanted_rows(configs: Sequence[PackConfig], report: Report) -> list[Part]:
    """Return the parts of the dataset; each config packs one tokenized part."""
    return [
        Wanted(fingerprint=_fingerprint(config), make=partial(_make, config, report))
        for config in configs
    ]


def make_packed(out: Path, parts: Sequence[Part]) -> PackedManifest:
    return settle(out, PackedManifest, parts)


def _fingerprint(config: PackConfig) -> str:
    recipe = recipe_of(config)
    return fingerprint(recipe.identity(recipe.plan()))


def _make(config: PackConfig, report: Report, folder: str) -> None:
    pack(config.model_copy(update={"out": folder}), report=report)
