"""Check a dataset against its manifest: every hash, count, id, boundary and mask.

manifest ─► its own checksum and what must agree in it (`storage.manifest`)
         ─► nothing missing, foreign or linked in the folder
         ─► shards: sizes and hashes of their files, then all that is in them (`checks`)
         ─► all that was counted is what the manifest says
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
from dataprep.pipeline.look.checks.listing import check_listing, walk
from dataprep.pipeline.look.groups import Between
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.manifest import (
    AnyShard,
    check_bytes,
    files_of_shard,
    read_manifest,
    size_of,
)

# What the items of a dataset are called in its counts.
ITEMS = {"tokenized": "documents_written", "packed": "rows", "encoded": "documents_written"}
MOST_NAMED = 5  # files, in a comparison


def bytes_of(folder: Path) -> int:
    """Return how many bytes the files of a dataset have that `verify` reads, for progress."""
    manifest = read_manifest(folder)
    shards: Sequence[AnyShard] = manifest.shards
    return sum(entry.num_bytes for shard in shards for entry in files_of_shard(shard))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    folder: Path
    kind: str
    num_shards: int
    num_items: int  # documents, rows or records
    num_tokens: int
    num_bytes: int


def verify(folder: Path, between: Between = lambda num_bytes: None) -> Verified:
    """Read and check everything; a CorruptError names the first thing that is wrong.

    `between` is called now and then with the bytes that were read since.
    """
    manifest = read_manifest(folder)
    check_listing(folder, manifest)
    for listed in manifest.files:
        check_file(folder, listed)
    check_errors(folder, manifest)
    check, found, said = checker_of(folder, manifest), Counter[str](), said_by(manifest)
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
        raise CorruptError(
            f"{left} and {right} are not equal: {', '.join(wrong[:MOST_NAMED])}{rest}"
        )
    return len(names)


def _files(folder: Path) -> list[str]:
    read_manifest(folder)
    return [path for path, is_folder in walk(folder) if not is_folder]


def _difference(left: Path, right: Path, name: str) -> str:
    """Return which file differs and how, or ''."""
    lacking = [folder for folder in (left, right) if not (folder / name).is_file()]
    if lacking:
        return f"{name} is not in {lacking[0]}"
    return "" if hash_file(left / name) == hash_file(right / name) else f"{name} differs"
