"""How a manifest says what its sources are, and what they add up to.

    few     "sources": [{"path": "a.jsonl", "records": 9, …}, …]
    many    "sources": {"count": 200000, "sums": {"records": 1800000, …},
                        "files": ["provenance/sources-00000.json", …]}
    parts   "sources": {"count": 200000, "sums": {…}, "files": []}     those of its parts, in order

Whoever reads a dataset reads its manifest and checks all of it; hardly anyone asks for its sources.
So a manifest of many has only what must agree with its counts; `source_lists` reads the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.storage.entries import (
    DatasetSource,
    Json,
    ManySources,
    MediaSource,
    TextSource,
)
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest

S = TypeVar("S", TextSource, MediaSource, DatasetSource)

MOST_TOGETHER = 4096  # sources in a manifest, and in a file beside it
FATES = ("written", "quarantined", "dropped", "empty")  # what becomes of a record
# What is added up over sources; those of DatasetSource always stand in the manifest.
COLUMNS: Mapping[type[Any], Sequence[str]] = {
    TextSource: ("records", *FATES, "tokens"),
    MediaSource: ("records", *FATES[:3], "frames", "codes"),
}


def entry_of(sources: Sequence[S]) -> tuple[S, ...] | ManySources:
    """Return what a manifest says of its sources."""
    if len(sources) <= MOST_TOGETHER:
        return tuple(sources)
    files = tuple(map(file_name, range(num_files(len(sources)))))
    return ManySources(count=len(sources), sums=sums_of(sources), files=files)


def joined_entry(parts: Sequence[tuple[Any, ...] | ManySources]) -> tuple[Any, ...] | ManySources:
    """Return what the manifest of a dataset of parts says of the sources of these."""
    if sum(map(count_of, parts)) <= MOST_TOGETHER:
        return tuple(source for part in parts if isinstance(part, tuple) for source in part)
    sums: dict[str, int] = {}
    for part in parts:
        for name, value in (sums_of(part) if isinstance(part, tuple) else part.sums).items():
            sums[name] = sums.get(name, 0) + value
    return ManySources(count=sum(map(count_of, parts)), sums=sums, files=())


def count_of(sources: Sequence[Any] | ManySources) -> int:
    return sources.count if isinstance(sources, ManySources) else len(sources)


def sums_of(sources: Sequence[Any]) -> dict[str, int]:
    """Return the sums of the numbers of sources, by their names."""
    columns = COLUMNS[type(sources[0])] if sources else ()
    return {name: sum(getattr(source, name) for source in sources) for name in columns}


def file_name(number: int) -> str:
    """
    >>> file_name(3)
    'provenance/sources-00003.json'
    """
    return f"provenance/sources-{number:05d}.json"


def is_of_sources(path: str) -> bool:
    """Return whether a file of a dataset holds sources."""
    return path.startswith("provenance/sources-")


def origins_name(number: int) -> str:
    """Return the name of a file that lists what the documents of a packed dataset came from.

    >>> origins_name(3)
    'provenance/files-00003.json'
    """
    return f"provenance/files-{number:05d}.json"


def num_origins(manifest: TokenizedManifest | PackedManifest) -> int:
    """Return how many files the documents of a dataset came from."""
    if isinstance(manifest, TokenizedManifest):
        return count_of(manifest.sources)
    return sum(source.files for source in manifest.sources)


def num_files(count: int) -> int:
    return -(-count // MOST_TOGETHER)


def in_files(sources: Sequence[S]) -> Iterator[Sequence[S]]:
    """Yield the sources of each file."""
    return (sources[i : i + MOST_TOGETHER] for i in range(0, len(sources), MOST_TOGETHER))


def told(fingerprints: Sequence[str]) -> list[str] | Json:
    """Return what an identity says of sources: of many how many there are, and the hash of all."""
    if len(fingerprints) <= MOST_TOGETHER:
        return list(fingerprints)
    return {"count": len(fingerprints), "sha256": fingerprint({"sources": fingerprints})}


def wrong_in_source(source: TextSource | MediaSource) -> str:
    """Return whether the counts of a source do not add up, or ''."""
    lost = sum(getattr(source, name, 0) for name in FATES) - source.written
    # A record of text may become several documents.
    least = min(source.written, 1) if isinstance(source, TextSource) else source.written
    if least <= source.records - lost <= source.written:
        return ""
    return f"counts of {source.path} do not add up"
