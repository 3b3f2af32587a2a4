"""Publish a dataset in a bucket: give each file its name, then write the manifest.

    .work/9c41…/tasks/000000-1f3a-0000.arrayrecord ─► shards/documents-00000-of-00003.arrayrecord
                                                      copied by the store, with the hash beside it
    what only this machine has: texts …            ─► uploaded to its name
    one listing                                       every file is there, and is what it must be
    manifest.json                                     by a conditional put: one of two is first

Doing it once more does what is left: a run that is killed here goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dataprep.pipeline.errors import ConflictError, ResourceError
from dataprep.pipeline.files import Written, write_atomic
from dataprep.pipeline.jobs.publish import PUBLISH, Publication
from dataprep.pipeline.jobs.stored import StoredWork
from dataprep.pipeline.storage.manifest import MANIFEST, WORK
from dataprep.pipeline.storage.objects import (
    NoSuchObjectError,
    ObjectEntry,
    Objects,
    ThereAlreadyError,
)
from dataprep.pipeline.threads.several import in_threads

REQUESTS = 24  # at once: each waits for the store more than it computes

Found = Mapping[str, ObjectEntry]  # what a listing has told, by name
Placement = tuple[str, str, Written]  # path in the work folder, name in the dataset, size and hash


def listed(objects: Objects, folder: str = "") -> dict[str, ObjectEntry]:
    return {entry.name: entry for entry in objects.entries(folder)}


def holds(objects: Objects, found: Found, name: str, file: Written, e_tag: str = "") -> bool:
    """Return whether an object is there with this content; `e_tag`: of what it is a copy of. A
    NoSuchObjectError if another process has removed it since it was listed."""
    entry = found.get(name)
    if entry is None or entry.num_bytes != file.num_bytes:
        return False
    is_same = bool(e_tag) and entry.e_tag == e_tag  # in many stores it is the hash of the content
    return is_same or objects.entry_and_hash(name)[1] == file.xxh3_128


def can_place(stored: StoredWork, publication: Publication, found: Found, folder: Path) -> bool:
    """Return whether every file is whole at its old place or its new one."""

    def is_whole(placement: Placement) -> bool:
        path, name, file = placement
        source = found.get(stored.name_of(path))
        if source is not None and source.num_bytes == file.num_bytes:
            return True
        with suppress(NoSuchObjectError):
            if holds(stored.objects, found, name, file):
                return True
        return file.is_at(folder / WORK / path)

    return all(in_threads(is_whole, publication.moves, REQUESTS))


def place(stored: StoredWork, publication: Publication, folder: Path) -> None:
    """Give every file its place in the dataset."""
    objects, work = stored.objects, folder / WORK
    objects.put(stored.name_of(PUBLISH), work / PUBLISH)
    found = listed(objects)
    left = _not_placed(stored, publication, found)
    here = [placement for placement in left if stored.name_of(placement[0]) not in found]
    there = [placement for placement in left if stored.name_of(placement[0]) in found]

    def put(placement: Placement) -> None:
        path, name, file = placement
        if not (work / path).exists():  # nor in the store any more, where workers had put it
            raise NoSuchObjectError(f"{objects.at(stored.name_of(path))} does not exist")
        file.check_untouched_at(work / path)
        objects.put(name, work / path, xxh3_128=file.xxh3_128)

    def copy(placement: Placement) -> None:
        path, name, file = placement
        objects.copy(stored.name_of(path), name, file.num_bytes)

    in_threads(put, here, REQUESTS)
    in_threads(copy, there, REQUESTS)
    # Sources that were removed meanwhile had their e_tags all the same.
    for _, name, _ in _not_placed(stored, publication, {**found, **listed(objects)}):
        raise ResourceError(
            f"{objects.at(name)} is not what was written there: something else writes to this "
            "folder; run the same command again when it has ended"
        )


def _not_placed(stored: StoredWork, publication: Publication, found: Found) -> list[Placement]:
    def is_placed(placement: Placement) -> bool:
        path, name, file = placement
        source = found.get(stored.name_of(path))
        return holds(stored.objects, found, name, file, source.e_tag if source else "")

    are_placed = in_threads(is_placed, publication.moves, REQUESTS)
    return [p for p, is_there in zip(publication.moves, are_placed, strict=True) if not is_there]


class OtherDatasetError(ConflictError):
    """There is a dataset by now that was made from something else."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url} has a dataset by now that was made from something else; name another --out, or "
            "replace it with --overwrite"
        )


def check_free(objects: Objects, fingerprint: str) -> None:
    """Raise OtherDatasetError if another dataset was published since this run looked: its files
    have the names of ours."""
    with suppress(NoSuchObjectError):
        if _fingerprint_in(objects.get(MANIFEST)) != fingerprint:
            raise OtherDatasetError(objects.url)


def publish(
    objects: Objects,
    publication: Publication,
    folder: Path,
    *,
    may_replace: Callable[[], bool] | None = None,
) -> None:
    """Write the manifest, there and here; ConflictError if another dataset has one by now, unless
    this run overwrites: `may_replace` says whether all files are still this run's."""
    data = publication.manifest.encode()
    try:
        objects.create(MANIFEST, data)
    except ThereAlreadyError:
        if is_published(objects, publication.fingerprint, folder):
            return
        found = objects.entry(MANIFEST)  # asked first: who removes files removes this before them
        if may_replace is None or not may_replace():
            raise OtherDatasetError(objects.url) from None
        # Published by one that began before this run had removed what was there.
        objects.replace(MANIFEST, data, found.e_tag)
    write_atomic(folder / MANIFEST, data)


def is_published(objects: Objects, fingerprint: str, folder: Path) -> bool:
    """Return whether another process has published this very dataset; then bring its manifest."""
    try:
        data = objects.get(MANIFEST)
    except NoSuchObjectError:
        return False
    is_ours = _fingerprint_in(data) == fingerprint
    if is_ours:
        write_atomic(folder / MANIFEST, data)
    return is_ours


def _fingerprint_in(manifest: bytes) -> str:
    """Return of which dataset a manifest is; "" if that is not known."""
    try:
        return str(json.loads(manifest)["fingerprint"])
    except (ValueError, KeyError, TypeError):
        return ""
