"""Check a dataset against its manifest: every hash, count, id, boundary and mask.

manifest ─► its own checksum and what must agree in it (`storage.manifest`)
         ─► nothing missing, foreign or linked in the folder
         ─► shards: sizes and hashes of their files, then all that is in them (`checks`)
         ─► all that was counted is what the manifest says

A dataset that grows is its parts, each checked like this, and generations that are what these join
to (`checks.growth`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.errors import CorruptError, counted
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.look.checks import checker_of, said_by
from dataprep.pipeline.look.checks.errors import check_errors
from dataprep.pipeline.look.checks.forgotten import check_forgotten
from dataprep.pipeline.look.checks.growth import check_growth, generations_of, parts_named
from dataprep.pipeline.look.checks.listing import check_listing, walk
from dataprep.pipeline.look.checks.sources import check_sources
from dataprep.pipeline.look.groups import Between
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.fetched import name_of
from dataprep.pipeline.storage.manifest import (
    AnyShard,
    Manifest,
    check_bytes,
    files_of_shard,
    read_manifest,
    size_of,
)
from dataprep.pipeline.storage.parts import Growing

# What the items of a dataset are called in its counts.
ITEMS = {
    "tokenized": "documents_written",
    "packed": "rows",
    "encoded": "documents_written",
    "exported": "records",
}
MOST_NAMED = 5  # files, in a comparison


def bytes_of(folder: Path) -> int:
    """Return how many bytes the files of a dataset have that `verify` reads, for progress."""
    return sum(_bytes_of(manifest) for _, manifest in _parts_read(folder, read_manifest(folder)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    folder: Path
    kind: str
    num_shards: int
    num_items: int  # documents, rows or records
    num_tokens: int
    num_bytes: int
    num_generations: int = 1
    unreadable: tuple[int, ...] = ()  # generations of which a part was removed
    num_forgotten: int = 0  # documents that were taken out, and are not there


def verify(folder: Path, between: Between = lambda num_bytes: None) -> Verified:
    """Read and check everything; a CorruptError names the first thing that is wrong.

    `between` is called now and then with the bytes that were read since. Of a dataset that grows,
    all generations are checked, and the newest is counted.
    """
    manifest = read_manifest(folder)
    if not isinstance(manifest, Growing) or not manifest.parts:
        return _verify_whole(folder, manifest, between)
    generations = generations_of(folder, manifest)
    unreadable = check_growth(folder, generations)
    found = {
        path: _verify_whole(folder / path, part, between)
        for path, part in _parts_read(folder, manifest)
    }
    newest = [found[part.path] for part in manifest.parts]
    return Verified(
        folder=folder,
        kind=manifest.kind,
        num_shards=sum(part.num_shards for part in newest),
        num_items=sum(part.num_items for part in newest),
        num_tokens=sum(part.num_tokens for part in newest),
        num_bytes=sum(part.num_bytes for part in newest),
        num_generations=len(generations),
        unreadable=tuple(unreadable),
        num_forgotten=manifest.counts.get("documents_masked", 0),
    )


def _parts_read(folder: Path, manifest: Manifest) -> list[tuple[str, Manifest]]:
    """Return every dataset that is read: of one that grows, the parts of all generations."""
    if not isinstance(manifest, Growing) or not manifest.parts:
        return [("", manifest)]
    paths = parts_named(folder, generations_of(folder, manifest))
    return [(path, read_manifest(folder / path)) for path in paths]


def _bytes_of(manifest: Manifest) -> int:
    shards: Sequence[AnyShard] = manifest.shards
    return sum(entry.num_bytes for shard in shards for entry in files_of_shard(shard))


def _verify_whole(folder: Path, manifest: Manifest, between: Between) -> Verified:
    """Check a dataset that was made at once."""
    check_listing(folder, manifest)
    for listed in manifest.files:
        check_file(folder, listed)
    check_sources(folder, manifest)
    check_errors(folder, manifest)
    check, found, said = checker_of(folder, manifest), Counter[str](), said_by(folder, manifest)
    for shard in manifest.shards:
        for entry in files_of_shard(shard):
            check_file(folder, entry)
        counts = check(shard)
        if counts["tokens"] != shard.num_tokens:
            raise CorruptError(
                f"{folder / shard.path} holds {counted(counts['tokens'], 'token')}, its manifest "
                f"says {shard.num_tokens:,}"
            )
        found.update(counts)
        between(sum(entry.num_bytes for entry in files_of_shard(shard)))
    for name in {**said, **found}:
        if said.get(name) != found[name]:
            raise CorruptError(
                f"{folder} holds {found[name]:,} {name}, its manifest says {said.get(name)}"
            )
    check_forgotten(folder, manifest)
    check_bytes(folder)
    return Verified(
        folder=folder,
        kind=manifest.kind,
        num_shards=len(manifest.shards),
        num_items=found[ITEMS[manifest.kind]],
        num_tokens=found["tokens"],
        num_bytes=size_of(manifest),
    )


def compare(left: Path, right: Path, between: Between = lambda num_bytes: None) -> int:
    """Compare byte by byte; return the number of files, or name those that differ."""
    names = sorted({*_files(left), *_files(right)})
    wrong = []
    for name in names:
        difference = _difference(left, right, name)
        if difference:
            wrong.append(difference)
        else:
            between((left / name).stat().st_size)
    if wrong:
        more = len(wrong) - MOST_NAMED
        rest = f", and {counted(more, 'more file')}" if more > 0 else ""
        told = f"{', '.join(wrong[:MOST_NAMED])}{rest}"
        raise CorruptError(f"{name_of(left)} and {name_of(right)} are not equal: {told}")
    return len(names)


def _files(folder: Path) -> list[str]:
    read_manifest(folder)
    return [path for path, is_folder in walk(folder) if not is_folder]


def _difference(left: Path, right: Path, name: str) -> str:
    """Return which file differs and how, or ''."""
    lacking = [folder for folder in (left, right) if not (folder / name).is_file()]
    if lacking:
        return f"{name} is not in {name_of(lacking[0])}"
    return "" if hash_file(left / name) == hash_file(right / name) else f"{name} differs"
