"""Publish what tasks committed: name the shards, move them, write the manifest last.

    .work/publish.json                        all moves and the manifest, written before the first
    .work/tasks/000000-1f3a-0000.arrayrecord  ─►  shards/documents-00000-of-00003.arrayrecord
    .work/texts/errors.jsonl                  ─►  errors.jsonl
    manifest.json                                 then .work is removed

A run that is killed here reads publish.json and makes the moves that are left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from dataprep.pipeline.files import (
    NewFile,
    Written,
    make_folder,
    read_sealed,
    sync_folder,
    write_atomic,
    write_sealed,
)
from dataprep.pipeline.jobs.commits import HASHING_THREADS
from dataprep.pipeline.storage.entries import FileEntry
from dataprep.pipeline.storage.manifest import MANIFEST, Manifest, manifest_text
from dataprep.pipeline.storage.reasons import Reason
from dataprep.pipeline.threads.several import in_threads
from dataprep.pipeline.typed import decode_as

ERRORS = "errors.jsonl"
PUBLISH = "publish.json"
TEXTS = "texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A committed file and its place in the dataset."""

    path: Path
    name: str  # relative to the dataset
    file: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a run tells about its records that the dataset itself does not say."""

    reasons: tuple[Reason, ...] = ()  # why records were left out, if no file lists them
    notes: tuple[str, ...] = ()  # what may be a mistake of the user


NOTHING_FOUND = Findings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A dataset that is ready to be published."""

    manifest: Manifest  # lists no texts yet: they are hashed when they are written
    folders: tuple[str, ...]  # shards, index, …; they are made even if they stay empty
    moves: Sequence[Move]
    texts: Mapping[str, Iterable[str]] = field(default_factory=dict)  # files to write, by name
    found: Findings = NOTHING_FOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What publish.json holds: all that is left to be done."""

    fingerprint: str  # of the dataset
    folders: tuple[str, ...]
    moves: tuple[tuple[str, str, Written], ...]  # path in the work folder, name, size and hash
    manifest: str  # the text of manifest.json
    found: Findings  # kept here for a run that only publishes


def shard_name(folder: str, what: str, number: int, count: int, ending: str) -> str:
    """
    >>> shard_name("shards", "rows", 3, 16, ".arrayrecord")
    'shards/rows-00003-of-00016.arrayrecord'
    """
    return f"{folder}/{what}-{number:05d}-of-{count:05d}{ending}"


def prepare_publication(draft: Draft, work: Path) -> Publication:
    """Write down, durably, how the dataset is published."""
    texts = list(_write_texts(draft.texts, work))
    manifest = draft.manifest
    if texts:
        entries = (FileEntry(path=move.name, **move.file.listed) for move in texts)
        manifest = replace(manifest, files=(*manifest.files, *entries))
    publication = Publication(
        fingerprint=manifest.fingerprint,
        folders=draft.folders,
        moves=tuple(
            (str(move.path.relative_to(work)), move.name, move.file)
            for move in (*draft.moves, *texts)
        ),
        manifest=manifest_text(manifest),
        found=draft.found,
    )
    write_sealed(work / PUBLISH, msgspec.json.encode(publication))
    return publication


def find_publication(work: Path) -> Publication | None:
    """Return what a run that was killed while it published has written down."""
    data = read_sealed(work / PUBLISH)
    return None if data is None else decode_as(data, Publication)


def is_possible(publication: Publication, fingerprint: str, out: Path, work: Path) -> bool:
    """Return whether it is of this dataset, and every file whole at its old place or new one."""
    if publication.fingerprint != fingerprint:
        return False

    def is_whole(move: tuple[str, str, Written]) -> bool:
        path, name, file = move
        return file.is_at(work / path if (work / path).exists() else out / name)

    return all(in_threads(is_whole, publication.moves, HASHING_THREADS))


def carry_out(publication: Publication, out: Path, work: Path) -> None:
    """Move the files and write the manifest, if every file is as it was committed."""
    for folder in publication.folders:
        (out / folder).mkdir(exist_ok=True)
    for path, name, _ in publication.moves:
        if (work / path).exists():  # else a run that was killed has moved it
            os.replace(work / path, out / name)
    for _, name, file in publication.moves:
        file.check_untouched_at(out / name)
    for folder in publication.folders:
        sync_folder(out / folder)
    sync_folder(out)
    write_atomic(out / MANIFEST, publication.manifest.encode())


def withdraw(publication: Publication, out: Path, work: Path) -> None:
    """Remove what was moved of a publication that cannot be finished: it is made again."""
    for path, name, _ in publication.moves:
        if not (work / path).exists():
            (out / name).unlink(missing_ok=True)
    (work / PUBLISH).unlink()


def _write_texts(texts: Mapping[str, Iterable[str]], work: Path) -> Iterable[Move]:
    for name, lines in texts.items():
        path = work / TEXTS / name
        make_folder(path.parent)
        file = NewFile(path)
        file.write_lines(lines)
        written = file.commit()
        sync_folder(path.parent)
        yield Move(path=path, name=name, file=written)
