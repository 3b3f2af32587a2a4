"""Publish what tasks committed: name the shards, move them, write the manifest last.

    .work/tasks/000000-1f3a-0000.arrayrecord  ─►  shards/documents-00000-of-00003.arrayrecord
    manifest.json                                 then .work is removed

Every step can be repeated: a run that is killed here finishes when it is run again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import commit_files, sync_folder, temporary
from dataprep.pipeline.storage.entries import FileEntry
from dataprep.pipeline.storage.manifest import Manifest, write_manifest

ERRORS = "errors.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A committed file and its place in the dataset."""

    path: Path
    name: str  # relative to the dataset
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A dataset that is ready to be published."""

    manifest: Manifest  # without the texts, which are hashed when they are written
    folders: tuple[str, ...]  # shards, index, …; they are made even if they stay empty
    moves: Sequence[Move]
    texts: Mapping[str, Iterable[str]] = field(default_factory=dict)  # files to write, by name


def shard_name(folder: str, what: str, number: int, count: int, ending: str) -> str:
    """
    >>> shard_name("shards", "rows", 3, 16, ".arrayrecord")
    'shards/rows-00003-of-00016.arrayrecord'
    """
    return f"{folder}/{what}-{number:05d}-of-{count:05d}{ending}"


def publish(draft: Draft, out: Path, work: Path) -> Manifest:
    """Publish the dataset; return its manifest as it was written."""
    for folder in draft.folders:
        (out / folder).mkdir(exist_ok=True)
    for move in draft.moves:
        _move(move, out)
    manifest = draft.manifest
    if draft.texts:
        manifest = replace(manifest, files=tuple(_write_texts(draft.texts, out)))
    for folder in draft.folders:
        sync_folder(out / folder)
    sync_folder(out)
    write_manifest(out, manifest)
    shutil.rmtree(work)
    return manifest


def _move(move: Move, out: Path) -> None:
    target = out / move.name
    if move.path.exists():
        os.replace(move.path, target)
    if not target.exists() or target.stat().st_size != move.num_bytes:
        raise CorruptError(f"{target.name} was lost or changed; start again with --overwrite")


def _write_texts(texts: Mapping[str, Iterable[str]], out: Path) -> Iterable[FileEntry]:
    for name, lines in texts.items():
        with open(temporary(out / name), "w", encoding="utf-8") as file:
            file.writelines(lines)
        written = commit_files({name: out / name})[name]
        yield FileEntry(path=name, num_bytes=written.num_bytes, xxh3_128=written.xxh3_128)
