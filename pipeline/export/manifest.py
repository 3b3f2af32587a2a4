"""Make the manifest of an export from the markers of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.export.format import MAIN
from dataprep.pipeline.export.plan import Exported, ExportTask
from dataprep.pipeline.export.sequences import TokensManifest
from dataprep.pipeline.export.worker import ExportMarker, paths_of, task_name
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.commits import Markers, stem_of
from dataprep.pipeline.jobs.publish import Draft, Findings, Move
from dataprep.pipeline.jobs.workspace import Identity
from dataprep.pipeline.storage.entries import DatasetSource, ExportShard, FileEntry
from dataprep.pipeline.storage.fetched import name_of
from dataprep.pipeline.storage.joined import contents_of
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, ExportedManifest
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.readme import EXPORT_TEXT, README

# Keys that do not decide what is written.
NEUTRAL = {"dataset", "out", "workers", "task_timeout", "generation"}


def identity_of(config: ExportConfig, exported: Exported) -> Identity:
    """Return the input and the config that decide the files; the fingerprint is their hash."""
    manifest = exported.manifest
    return {
        "format_version": FORMAT_VERSION,
        "kind": "exported",
        "config": config.model_dump(mode="json", exclude=NEUTRAL),
        "sources": [manifest.fingerprint],
        "contents": [contents_of(manifest)],
    }


def make_draft(
    exported: Exported, tasks: Sequence[ExportTask], markers: Markers[ExportMarker], work: Path
) -> Draft:
    own = exported.manifest
    every = [(task, markers.of(task.index)[0]) for task in tasks]
    full = [(task, marker) for task, marker in every if not marker.is_empty]
    manifest = _manifest(exported, [marker for _, marker in full], [m for _, m in every])
    moves = [
        Move(path=path, name=_name(exported, role, number, len(full)), file=marker.files[role])
        for number, (task, marker) in enumerate(full)
        for role, path in paths_of(stem_of(work, task_name(task)), exported).items()
    ]
    folders = {move.name.partition("/")[0] for move in moves if "/" in move.name}
    return Draft(
        manifest=manifest,
        folders=tuple(sorted(folders)),
        moves=moves,
        texts={name: [text] for name, text in _texts(exported, manifest).items()},
        found=Findings(
            notes=(*exported.format.notes(exported.facts, manifest.counts), *_left(own))
        ),
    )


def _left(manifest: TokensManifest) -> Iterator[str]:
    """Yield that masks are left out which only packing makes use of."""
    for mask in manifest.masks:
        if not MASKS[mask].is_packed and manifest.counts.get(MASKS[mask].count, 1):
            yield (
                f"where {mask} are is left out, since no trainer reads it; to have conversations "
                f"cut between {mask}: dataprep pack --overflow {mask}, and export the rows"
            )


def _texts(exported: Exported, manifest: ExportedManifest) -> dict[str, str]:
    """Return the files beside the shards; a card is among them unless `datasets` loads these."""
    texts = dict(exported.format.texts(manifest))
    if not exported.format.endings[MAIN].endswith(".parquet"):
        counts = {name: manifest.counts[name] for name in ("records", "tokens")}
        texts.setdefault(README, EXPORT_TEXT.format(format=manifest.format, **counts))
    return texts


def _name(exported: Exported, role: str, number: int, count: int) -> str:
    return exported.format.name_of(role, number, count, exported.facts.config)


def _manifest(
    exported: Exported, full: Sequence[ExportMarker], every: Sequence[ExportMarker]
) -> ExportedManifest:
    facts, own = exported.facts, exported.manifest
    identity = identity_of(facts.config, exported)
    return ExportedManifest(
        format_version=FORMAT_VERSION,
        kind="exported",
        fingerprint=fingerprint(identity),
        parents=(own.fingerprint,),
        format=exported.format.name,
        config=facts.config.model_dump(mode="json", exclude=NEUTRAL),
        tokenizer=own.tokenizer,
        seq_len=own.seq_len,
        masks=facts.masks,
        token_dtype=exported.format.token_type(facts),
        sources=(
            DatasetSource(
                path=name_of(exported.folder),
                bytes=sum(shard.num_bytes for shard in own.shards),
                fingerprint=own.fingerprint,
                records=own.counts["rows" if facts.is_packed else "documents_written"],
            ),
        ),
        shards=tuple(_entry(exported, m, i, len(full)) for i, m in enumerate(full)),
        counts=_counts(exported, every),
        identity=dict(identity),
    )


def _counts(exported: Exported, markers: Sequence[ExportMarker]) -> dict[str, int]:
    sums = Counter[str](records=0, tokens=0, tokens_read=0)
    for marker in markers:
        sums.update(marker.counts)
    sequences = sums.pop("sequences", 0)
    what = "rows" if exported.facts.is_packed else "documents"
    read = sequences + sums["documents_forgotten"]
    counts = {f"{what}_read": read, f"{what}_written": sequences - sums["left_out"], **sums}
    documents = exported.manifest.counts["documents_written"]
    return {
        "documents_read": documents,
        "documents_written": documents,
        **counts,
        "documents_quarantined": 0,
    }


def _entry(exported: Exported, marker: ExportMarker, number: int, count: int) -> ExportShard:
    names = {role: _name(exported, role, number, count) for role in marker.files}
    files = {role: FileEntry(path=names[role], **marker.files[role].listed) for role in names}
    return ExportShard(
        **asdict(files.pop(MAIN)),
        num_records=marker.counts["records"],
        num_tokens=marker.counts["tokens"],
        beside=tuple(files.values()),
    )
