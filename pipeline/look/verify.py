"""Check a dataset against its manifest: every hash, count, id, boundary and mask.

manifest ─► its own checksum ─► files: none missing, foreign or changed ─► shards, by `checks`
         ─► counts of shards, sources and manifest agree
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from msgspec import UnsetType

from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.look.checks import check_shards_of
from dataprep.pipeline.storage.entries import TextSource
from dataprep.pipeline.storage.manifest import (
    AnyFile,
    EncodedManifest,
    Manifest,
    PackedManifest,
    check_sum,
    files_of,
    files_of_shard,
    read_manifest,
)

FOLDERS = ("shards", "index", "provenance")
# What the items of a dataset are called in its counts.
ITEMS = {"tokenized": "documents_written", "packed": "rows", "encoded": "documents_written"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    folder: Path
    kind: str
    num_shards: int
    num_items: int  # documents, rows or records
    num_tokens: int
    num_bytes: int


def verify(folder: Path) -> Verified:
    """Read and check everything; a CorruptError names the first thing that is wrong."""
    manifest = read_manifest(folder)
    check_sum(folder)
    _check_listing(folder, manifest)
    check = check_shards_of(folder, manifest)
    found = Counter[str]()
    for shard in manifest.shards:
        for entry in files_of_shard(shard):
            _check_file(folder / entry.path, entry)
        counts = check(shard)
        if counts["tokens"] != shard.num_tokens:
            raise CorruptError(
                f"{shard.path} holds {counted(counts['tokens'], 'token')}, the manifest says "
                f"{shard.num_tokens}"
            )
        found.update(counts)
    for entry in () if isinstance(manifest.files, UnsetType) else manifest.files:
        _check_file(folder / entry.path, entry)
    _check_counts(folder, manifest, found)
    _check_sources(manifest)
    return Verified(
        folder=folder,
        kind=manifest.kind,
        num_shards=len(manifest.shards),
        num_items=found[ITEMS[manifest.kind]],
        num_tokens=found["tokens"],
        num_bytes=sum(e.num_bytes for shard in manifest.shards for e in files_of_shard(shard)),
    )


def compare(left: Path, right: Path) -> int:
    """Compare byte by byte; return the number of files, or name the first that differs."""
    names = sorted({*_files(left), *_files(right)})
    for name in names:
        for folder in (left, right):
            if not (folder / name).is_file():
                raise CorruptError(f"{name} is not in {folder}")
        if hash_file(left / name) != hash_file(right / name):
            raise CorruptError(f"{name} differs between {left} and {right}")
    return len(names)


def _files(folder: Path) -> list[str]:
    read_manifest(folder)
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]


def _check_listing(folder: Path, manifest: Manifest) -> None:
    """Raise if there is a file among the shards that the manifest does not list."""
    known = {entry.path for entry in files_of(manifest)}
    for part in FOLDERS:
        for path in sorted((folder / part).glob("*")):
            if path.relative_to(folder).as_posix() not in known:
                raise CorruptError(f"{path} is not in the manifest; remove it")


def _check_file(path: Path, entry: AnyFile) -> None:
    try:
        size = path.stat().st_size
        digest = hash_file(path) if size == entry.num_bytes else ""
    except FileNotFoundError:
        raise CorruptError(f"{path} is missing") from None
    except OSError as error:
        raise CorruptError(f"{path} cannot be read: {error.strerror}") from None
    if size != entry.num_bytes:
        raise CorruptError(f"{path} has {size} bytes, the manifest says {entry.num_bytes}")
    if digest != entry.xxh3_128:
        raise CorruptError(f"{path} is damaged: its xxh3-128 is {digest}, not {entry.xxh3_128}")


def _check_counts(folder: Path, manifest: Manifest, found: Counter[str]) -> None:
    is_encoded = isinstance(manifest, EncodedManifest)
    needed = {"codes"} if is_encoded else {"tokens", "target_tokens"}
    for name in {ITEMS[manifest.kind], *needed, *found} - ({"tokens"} if is_encoded else set()):
        said = manifest.counts.get(name)
        if said != found[name]:
            raise CorruptError(f"{folder} holds {found[name]} {name}, its manifest says {said}")


def _check_sources(manifest: Manifest) -> None:
    """Raise if the counts of the sources do not add up."""
    if isinstance(manifest, PackedManifest):
        return
    total = Counter[str]()
    for source in manifest.sources:
        parts = {
            "written": source.written,
            "quarantined": source.quarantined,
            "dropped": source.dropped,
            "empty": source.empty if isinstance(source, TextSource) else 0,
        }
        if source.records != sum(parts.values()):
            raise CorruptError(f"counts of {source.path} do not add up in the manifest")
        total.update(parts, read=source.records)
    for name, value in total.items():
        if manifest.counts.get(f"documents_{name}", 0) != value:
            raise CorruptError(f"counts of the sources do not add up to documents_{name}")
