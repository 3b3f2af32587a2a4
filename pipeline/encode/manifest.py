"""Make the manifest of a dataset of codes from the markers of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from dataprep.pipeline.encode.kinds import KINDS
from dataprep.pipeline.encode.plan import EncodePlan, Planned
from dataprep.pipeline.encode.retype import CommittedCodes, common_schema, retyped
from dataprep.pipeline.encode.tables import ENDINGS, CodesMarker, code_dtype
from dataprep.pipeline.encoders import Encoder, find_encoder
from dataprep.pipeline.jobs.accounts import SourceCounts, entry_of, notes_on_sources
from dataprep.pipeline.jobs.commits import Markers, shard_file, stem_of
from dataprep.pipeline.jobs.publish import ERRORS, Draft, Findings, Move, shard_name
from dataprep.pipeline.jobs.stored import all_at_hand
from dataprep.pipeline.jobs.tasks import task_name
from dataprep.pipeline.storage import source_sums
from dataprep.pipeline.storage.entries import (
    CodeShard,
    EncoderEntry,
    ManySources,
    MediaSource,
)
from dataprep.pipeline.storage.manifest import FORMAT_VERSION, EncodedManifest
from dataprep.pipeline.storage.parquet import stored_columns
from dataprep.pipeline.storage.reasons import Reason, count_reasons
from dataprep.pipeline.storage.source_lists import texts_of
from dataprep.pipeline.typed import decode_as

NAME = "codes"
# Config keys that do not concern the dataset.
UNRECORDED = {"out", "workers", "task_timeout", "executor", "ray_address", "inputs"}
DISTRIBUTIONS = {"PIL": "pillow"}  # packages that are imported under another name


def make_draft(planned: Planned, work: Path, markers: Markers[CodesMarker]) -> Draft:
    found = list(_committed(planned.plan, work, markers))
    full = [c for c in found if c.marker.num_records]
    common = common_schema([c.marker.schema for c in full])
    full = [retyped(c, common) for c in full]
    sources = _sources(planned.plan, [c.marker for c in found])
    manifest = _manifest(planned, sources, full, common)
    if manifest.counts["documents_quarantined"] or manifest.counts["documents_dropped"]:
        all_at_hand((c.errors, c.marker.files["errors"]) for c in found)
    texts = dict(texts_of(sources))
    if manifest.counts["documents_quarantined"]:
        texts[ERRORS] = map(_error_lines, found)
    return Draft(
        manifest=manifest,
        folders=("shards", "provenance")
        if isinstance(manifest.sources, ManySources)
        else ("shards",),
        moves=[
            Move(path=c.path, name=_name(i, len(full)), file=c.file) for i, c in enumerate(full)
        ],
        texts=texts,
        found=Findings(
            reasons=tuple(_reasons(found)) if manifest.counts["documents_dropped"] else (),
            notes=tuple(notes_on_sources(sources, limited=planned.plan.config.limit is not None)),
        ),
    )


class _BadItem(msgspec.Struct):
    """What is read of a line of errors.jsonl."""

    file: str
    reason: str
    line: int | None


def _reasons(found: Sequence[CommittedCodes]) -> list[Reason]:
    lines = (line for c in found for line in _error_lines(c).splitlines())
    return count_reasons(decode_as(line, _BadItem) for line in lines)


def _error_lines(c: CommittedCodes) -> str:
    c.marker.files["errors"].check_at(c.errors)
    lines = c.errors.read_text("utf-8")
    c.marker.files["errors"].check_untouched_at(c.errors)
    return lines


def _committed(
    plan: EncodePlan, work: Path, markers: Markers[CodesMarker]
) -> Iterator[CommittedCodes]:
    for task in plan.tasks:
        stem = stem_of(work, task_name(task))
        for number, marker in enumerate(markers.of(task.index)):
            yield CommittedCodes(
                path=shard_file(stem, number, ENDINGS["shards"]),
                errors=shard_file(stem, number, ENDINGS["errors"]),
                marker=marker,
                file=marker.files["shards"],
            )


def _sources(plan: EncodePlan, markers: Sequence[CodesMarker]) -> Sequence[MediaSource]:
    sums = SourceCounts((marker.tallies for marker in markers), len(plan.sources))
    return tuple(
        MediaSource(
            **entry_of(source, total, plan.config.on_error),
            frames=total["frames"],
            codes=total["codes"],
        )
        for source, total in zip(plan.sources, sums, strict=True)
    )


def _manifest(
    planned: Planned,
    sources: Sequence[MediaSource],
    full: Sequence[CommittedCodes],
    common: Any,
) -> EncodedManifest:
    plan, encoder = planned.plan, planned.encoder
    return EncodedManifest(
        format_version=FORMAT_VERSION,
        kind="encoded",
        fingerprint=plan.fingerprint,
        parents=(),
        config=plan.config.model_dump(mode="json", exclude=UNRECORDED),
        token_dtype=code_dtype(encoder.codebook_size),
        encoder=_encoder_entry(plan, encoder),
        columns={} if common is None else stored_columns(common),
        sources=source_sums.entry_of(sources),
        shards=tuple(_shard_entry(c, i, len(full)) for i, c in enumerate(full)),
        counts=_counts(sources),
        identity=plan.identity,
    )


def _counts(sources: Sequence[MediaSource]) -> dict[str, int]:
    return {
        "documents_read": sum(s.records for s in sources),
        "documents_written": sum(s.written for s in sources),
        "documents_quarantined": sum(s.quarantined for s in sources),
        "documents_dropped": sum(s.dropped for s in sources),
        "frames": sum(s.frames for s in sources),
        "codes": sum(s.codes for s in sources),
    }


def _encoder_entry(plan: EncodePlan, encoder: Encoder) -> EncoderEntry:
    return EncoderEntry(
        name=plan.config.encoder,
        kind=plan.kind,
        identity=dict(encoder.identity),
        codebook_size=encoder.codebook_size,
        **KINDS[plan.kind].facts(encoder),
        made_with=dict(_versions(find_encoder(plan.config.encoder).packages)),
    )


def _shard_entry(c: CommittedCodes, number: int, count: int) -> CodeShard:
    return CodeShard(
        path=_name(number, count),
        num_records=c.marker.num_records,
        num_tokens=c.marker.num_codes,
        **c.file.listed,
    )


def _name(number: int, count: int) -> str:
    return shard_name("shards", NAME, number, count, ".parquet")


def _versions(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield packages with their versions: another version may decode a file differently."""
    for package in packages:
        name = DISTRIBUTIONS.get(package, package)
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "unknown"
