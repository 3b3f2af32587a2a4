"""The generations of a dataset: when each was published, what came in, what there was then.

    generation   parts                          came in
    0            00000                          00000
    1            00000 00001                    00001
    2            00000-1 00001                  00000-1 instead of 00000

Read from the manifests of the generations alone, so that parts may be gone; only the names of many
sources stand with their part. A manifest has no clock: the time is that of its file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.entries import ManySources, RowShard
from dataprep.pipeline.storage.manifest import (
    MANIFEST,
    AnyShard,
    EncodedManifest,
    Manifest,
    TokenizedManifest,
    read_manifest,
)
from dataprep.pipeline.storage.parts import (
    Growing,
    generation_name,
    read_generation,
    read_part,
)
from dataprep.pipeline.storage.source_lists import read_sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What came in with a generation: a part, or all of a dataset that was made at once."""

    part: str  # its folder in the dataset; "": the dataset itself
    instead_of: str  # the part whose place it took; "": it is new
    sources: tuple[str, ...]  # none are told if they stand in the part, and that was removed
    num_sources: int
    documents: int  # written; of a packed dataset, those that it was packed from
    tokens: int
    rows: int | None  # of a packed dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A generation."""

    generation: int
    time: str  # of its file, ISO 8601 in UTC
    fingerprint: str
    documents: int
    tokens: int
    rows: int | None
    came: tuple[Incoming, ...]
    left: tuple[str, ...]  # parts of the one before that no part took the place of
    missing: tuple[str, ...]  # parts of it that were removed: it cannot be read any more


def history_of(folder: Path) -> list[Published]:
    """Return every generation that is there, the newest last."""
    newest = read_manifest(folder)
    if not isinstance(newest, Growing) or not newest.parts:
        return [_published(folder, MANIFEST, newest, None)]
    found: list[Published] = []
    before: Growing | None = None
    for number in range(newest.generation + 1):
        name = generation_name(number)
        if number == newest.generation or (folder / name).exists():
            manifest = read_generation(folder, number)
            assert isinstance(manifest, Growing)
            found.append(_published(folder, name, manifest, before))
            before = manifest
    return found


def _published(folder: Path, name: str, manifest: Manifest, before: Growing | None) -> Published:
    named = [part.path for part in before.parts] if before else []
    came = tuple(_came(folder, manifest, named))
    own = {part.path for part in manifest.parts} if isinstance(manifest, Growing) else set[str]()
    kept = {*own, *(part.instead_of for part in came)}
    path = folder / name if (folder / name).exists() else folder / MANIFEST
    time = datetime.fromtimestamp(int(os.stat(path).st_mtime), UTC)
    return Published(
        generation=getattr(manifest, "generation", 0),
        time=time.isoformat(),
        fingerprint=manifest.fingerprint,
        documents=manifest.counts["documents_written"],
        tokens=manifest.counts.get("tokens", manifest.counts.get("codes", 0)),
        rows=manifest.counts.get("rows"),
        came=came,
        left=tuple(part for part in named if part not in kept),
        missing=tuple(part for part in sorted(own) if not (folder / part).exists()),
    )


def _came(folder: Path, manifest: Manifest, before: list[str]) -> Iterator[Incoming]:
    """Yield the parts that were not there before."""
    if not isinstance(manifest, Growing) or not manifest.parts:
        yield _incoming(manifest, "", "", manifest.shards, read_sources(folder, manifest))
        return
    shards = offsets_of([part.shards for part in manifest.parts]).tolist()
    sources = offsets_of([part.sources for part in manifest.parts]).tolist()
    places = {part.partition("-")[0]: part for part in before}  # without the version
    for i, part in enumerate(manifest.parts):
        if part.path not in before:
            instead = places.get(part.path.partition("-")[0], "")
            own = manifest.shards[shards[i] : shards[i + 1]]
            if not isinstance(manifest.sources, ManySources):
                read: Sequence[Any] = manifest.sources[sources[i] : sources[i + 1]]
            elif (folder / part.path / MANIFEST).exists():
                read = read_sources(folder / part.path, read_part(folder, manifest, part))
            else:
                read = ()
            came = _incoming(manifest, part.path, instead, own, read)
            yield replace(came, num_sources=part.sources)


def _incoming(
    manifest: Manifest,
    part: str,
    instead_of: str,
    shards: Sequence[AnyShard],
    sources: Sequence[Any],
) -> Incoming:
    rows = sum(shard.num_records for shard in shards if isinstance(shard, RowShard))
    return Incoming(
        part=part,
        instead_of=instead_of,
        sources=tuple(source.path for source in sources),
        num_sources=len(sources),
        documents=_documents(manifest, shards, sources),
        tokens=sum(shard.num_tokens for shard in shards),
        rows=rows if manifest.kind == "packed" else None,
    )


def _documents(manifest: Manifest, shards: Sequence[AnyShard], sources: Sequence[Any]) -> int:
    """Return how many documents were written, or packed or exported from."""
    if isinstance(manifest, TokenizedManifest | EncodedManifest):
        return sum(getattr(shard, "num_documents", shard.num_records) for shard in shards)
    return sum(source.records for source in sources)
