"""What is exported: the dataset, which masks go along, and which of its shards become one file.

    shards of the dataset   100 MB  120 MB  90 MB  80 MB       --shard-bytes 256 MB
    files                   └── 0 ────────┘ └── 1 ────┘

So a file depends on the dataset and on the config alone, never on workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.export.format import Export, Facts, only_first_tokens_lack_loss
from dataprep.pipeline.export.formats import EXPORTS
from dataprep.pipeline.export.sequences import TokensManifest
from dataprep.pipeline.storage.entries import DocumentShard
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.parts import (
    Growing,
    check_parts_there,
    parts_of,
    read_generation,
)
from dataprep.pipeline.storage.places import dataset_folder
from dataprep.pipeline.storage.provenance import forgotten_in
from dataprep.pipeline.types import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTask:
    """Shards [start, stop) of the dataset, which become one file."""

    index: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """What plan.json holds."""

    config: ExportConfig
    folder: str
    generation: int
    fingerprint: str  # of that generation
    masks: tuple[str, ...]
    tasks: tuple[ExportTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A dataset that can be exported to a format."""

    folder: Path
    facts: Facts
    format: Export
    forgotten: Offsets  # documents, numbered through all parts, which are left out; of rows none

    @property
    def manifest(self) -> TokensManifest:
        return self.facts.manifest

    def forgotten_in(self, number: int) -> Offsets:
        """Return the documents of a shard that are left out, numbered in the shard."""
        if not len(self.forgotten):
            return self.forgotten
        shards = [each for each in self.manifest.shards if isinstance(each, DocumentShard)]
        first = sum(shard.num_documents for shard in shards[:number])
        own = self.forgotten - first
        return own[(own >= 0) & (own < shards[number].num_documents)]

    def changed(self) -> str:
        """Return the folder if the dataset in it is not the one that was opened any more."""
        try:
            same = read_generation(self.folder, _generation(self.manifest)) == self.manifest
        except (CorruptError, ConfigError):
            same = False
        return "" if same else str(self.folder)


def look_at(config: ExportConfig) -> Exported:
    """Return what would be exported; a ConfigError says why it cannot be."""
    if not config.dataset:
        raise ConfigError("no dataset; name the folder that dataprep tokenize or pack wrote")
    if config.to is None:
        raise ConfigError(f"no format; set --to, one of: {', '.join(EXPORTS)}")
    folder, format = dataset_folder(config.dataset), EXPORTS[config.to]
    manifest = read_generation(folder, config.generation)
    if not isinstance(manifest, Growing):
        raise ConfigError(
            f"{folder} is {manifest.kind}; only tokenized and packed datasets can be exported"
        )
    check_parts_there(folder, manifest)
    if manifest.kind not in format.kinds:
        raise ConfigError(
            f"{folder} is {manifest.kind}, which --to {config.to} cannot take: {format.why_not}"
        )
    _refuse_lost_masks(folder, manifest, format, config)
    masks = tuple(
        mask for mask in manifest.masks if mask in format.masks and _is_used(mask, manifest)
    )
    facts = Facts(config=config, manifest=manifest, masks=masks)
    format.check(facts)
    gone = _forgotten(folder, manifest)
    return Exported(folder=folder, facts=facts, format=format, forgotten=gone)


def plan_of(exported: Exported) -> ExportPlan:
    config, manifest = exported.facts.config, exported.manifest
    return ExportPlan(
        config=config,
        folder=str(exported.folder),
        generation=_generation(manifest),
        fingerprint=manifest.fingerprint,
        masks=exported.facts.masks,
        tasks=tuple(_tasks(exported)),
    )


def opened(plan: ExportPlan) -> Exported:
    """Return what a worker exports."""
    manifest = read_generation(Path(plan.folder), plan.generation)
    assert isinstance(manifest, Growing), manifest.kind
    if manifest.fingerprint != plan.fingerprint:
        raise CorruptError(
            f"{plan.folder} changed while it was exported; run the same command again"
        )
    assert plan.config.to is not None
    facts, folder = (
        Facts(config=plan.config, manifest=manifest, masks=plan.masks),
        Path(plan.folder),
    )
    format, gone = EXPORTS[plan.config.to], _forgotten(folder, manifest)
    return Exported(folder=folder, facts=facts, format=format, forgotten=gone)


def _forgotten(folder: Path, manifest: TokensManifest) -> Offsets:
    """Return the documents of a tokenized dataset of which only padding is left."""
    found, first = [np.zeros(0, np.int64)], 0
    if isinstance(manifest, TokenizedManifest) and manifest.counts.get("documents_masked"):
        for place, part in parts_of(folder, manifest):
            found.append(first + forgotten_in(place, part))
            first += part.counts["documents_written"]
    return np.concatenate(found)


def _tasks(exported: Exported) -> list[ExportTask]:
    config, sizes = exported.facts.config, [s.num_bytes for s in exported.manifest.shards]
    limit = sum(sizes) if exported.format.one_file(config) else config.shard_bytes
    starts: list[int] = []
    held = 0
    for number, size in enumerate(sizes):
        if not starts or held + size > limit:
            starts.append(number)
            held = 0
        held += size
    stops = [*starts[1:], len(sizes)]
    return [
        ExportTask(index=i, start=start, stop=stop)
        for i, (start, stop) in enumerate(zip(starts, stops, strict=False))
    ]


def _generation(manifest: TokensManifest) -> int:
    return manifest.generation


def _is_used(mask: str, manifest: TokensManifest) -> bool:
    """Return whether a mask says anything."""
    if mask == "loss":
        return manifest.counts["target_tokens"] != manifest.counts["tokens"]
    return manifest.counts.get(MASKS[mask].count, 1) > 0


def _refuse_lost_masks(
    folder: Path, manifest: TokensManifest, format: Export, config: ExportConfig
) -> None:
    """Raise ConfigError if a mask would be lost that the user does not give up.

    What `turns` says is for packing alone. Whether tokens have no loss but the first of each
    document, which need none, only the data says: see `sequences`. So it is where documents were
    forgotten, as what is left of them has no loss either, and is not exported.
    """
    if config.drop_masks:
        return
    lost = [
        mask
        for mask in manifest.masks
        if mask not in format.masks and MASKS[mask].is_packed and _is_used(mask, manifest)
    ]
    has_gone = isinstance(manifest, TokenizedManifest) and manifest.counts.get("documents_masked")
    if "loss" in lost and (has_gone or only_first_tokens_lack_loss(manifest)):
        lost.remove("loss")
    if lost:
        told = ", ".join(_told(mask, manifest) for mask in lost)
        able = [e.name for e in EXPORTS.values() if {*lost} <= e.masks and manifest.kind in e.kinds]
        instead = f"export to {' or '.join(able)}, or " if able else ""
        raise ConfigError(
            f"{folder} has masks that --to {config.to} cannot carry ({told}); {instead}give "
            "--drop-masks to export without them"
        )


def _told(mask: str, manifest: TokensManifest) -> str:
    counts = manifest.counts
    if mask == "loss":
        return f"loss: {counted(counts['tokens'] - counts['target_tokens'], 'token')} without"
    count = counts.get(MASKS[mask].count)  # packed datasets have none
    return mask if count is None else f"{mask}: {counted(count, 'token')}"
