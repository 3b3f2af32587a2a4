"""A work folder whose files are kept in a bucket: what workers commit goes there.

    out/.work/store.json                      says so: the address, and which run it is
    worker   000007-1f3a-0000.arrayrecord     durable here ─► s3://…/.work/9c41…/tasks/…
             000007-1f3a-0000.done            then there, with the e_tags of its files, then here
                                              then the files go here: the disk stays bounded
    parent   at_hand(path)                    brought back, where it must be read

A shard that has a marker in the store is whole there: any machine can go on. The names of two runs
that make different datasets differ (`run_of`), so that none takes the work of another for its own.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.files import Written, lost, read_sealed, sealed, unsealed, write_sealed
from dataprep.pipeline.storage.manifest import WORK
from dataprep.pipeline.storage.objects import NoSuchObjectError, Objects, open_objects
from dataprep.pipeline.threads.several import in_threads
from dataprep.pipeline.typed import decode_as

STORE = "store.json"
TASKS = "tasks"
UPLOADS = 4  # of one shard's files at once
DOWNLOADS = 24  # of small files at once: each waits for the store more than it computes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    num_bytes: int
    xxh3_128: str
    e_tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShard:
    """The marker of a shard in the store, and the files that it speaks of."""

    files: dict[str, StoredFile]  # by name; none that is empty
    marker: msgspec.Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWork:
    """The work of one run in the store; it mirrors the work folder."""

    objects: Objects
    run: str

    @property
    def prefix(self) -> str:
        return f"{WORK}/{self.run}/"

    def name_of(self, name: str) -> str:
        """Return the name of the object for a file of the work folder."""
        return f"{self.prefix}{name}"

    def commit(self, marker: Path, data: bytes, files: Mapping[Path, Written]) -> None:
        """Put the files of a shard into the store, then its marker."""
        full = [(path, file) for path, file in files.items() if file.num_bytes]

        def put(item: tuple[Path, Written]) -> StoredFile:
            path, file = item
            file.check_untouched_at(path)
            e_tag = self.objects.put(
                self.name_of(f"{TASKS}/{path.name}"), path, xxh3_128=file.xxh3_128
            )
            return StoredFile(num_bytes=file.num_bytes, xxh3_128=file.xxh3_128, e_tag=e_tag)

        stored = in_threads(put, full, UPLOADS)
        names = (path.name for path, _ in full)
        shard = StoredShard(files=dict(zip(names, stored, strict=True)), marker=msgspec.Raw(data))
        self.objects.put(self.name_of(f"{TASKS}/{marker.name}"), sealed(msgspec.json.encode(shard)))

    def shard(self, name: str) -> StoredShard | None:
        """Return what the store has of a marker; None if it is gone or damaged."""
        try:
            data = unsealed(self.objects.get(self.name_of(f"{TASKS}/{name}")))
        except NoSuchObjectError:
            return None
        return None if data is None else decode_as(data, StoredShard)

    def whole(self, name: str) -> bytes | None:
        """Return what a marker says, if all files of its shard are there as it says."""
        shard = self.shard(name)
        is_whole = shard is not None and all(
            self._has(f"{TASKS}/{own}", file) for own, file in shard.files.items()
        )
        return bytes(shard.marker) if shard is not None and is_whole else None

    def _has(self, name: str, file: StoredFile) -> bool:
        try:
            entry, kept = self.objects.entry_and_hash(self.name_of(name))
        except NoSuchObjectError:
            return False
        return (entry.num_bytes, kept) == (file.num_bytes, file.xxh3_128)

    def bring(self, path: Path) -> Written:
        """Download a file of a task to its place in the work folder."""
        return self.objects.download(self.name_of(f"{TASKS}/{path.name}"), path)


def folder_here(what: str) -> Path:
    """Return a folder for what only this machine needs; many share one home over a network, whose
    locks do not hold between them."""
    return default_cache() / what / platform.node()


def keep_in_store(work: Path, url: str, run: str) -> None:
    """Say in a work folder that its files are kept in a store."""
    write_sealed(work / STORE, json.dumps({"url": url, "run": run}).encode())


def stored_work(work: Path) -> StoredWork | None:
    """Return where the files of a work folder are kept; None if that is the folder alone."""
    data = read_sealed(work / STORE)
    return None if data is None else _stored(**json.loads(data))


@lru_cache(maxsize=1)  # a client holds connections
def _stored(url: str, run: str) -> StoredWork:
    return StoredWork(objects=open_objects(url), run=run)


def at_hand(path: Path, written: Written) -> Path:
    """Return the path of a committed file, after it was brought back if only the store has it."""
    if not path.exists():
        stored = stored_work(path.parent.parent)
        if stored is not None and not written.num_bytes:
            path.touch()
        elif stored is not None:
            found = stored.bring(path)
            if found.xxh3_128 != written.xxh3_128:
                raise lost(stored.objects.at(stored.name_of(f"{TASKS}/{path.name}")))
    return path


def all_at_hand(files: Iterable[tuple[Path, Written]]) -> None:
    """Bring back those of the committed files that only the store has, several at once."""
    missing = [(path, written) for path, written in files if not path.exists()]
    in_threads(lambda item: at_hand(*item), missing, DOWNLOADS)


def keep_stored(path: Path, written: Written, *, instead_of: Path) -> None:
    """Move a file that was made of a committed one into the store, if that is where they are; the
    other was only brought back."""
    stored = stored_work(path.parent.parent)
    if stored is not None:
        name = stored.name_of(f"{TASKS}/{path.name}")
        stored.objects.put(name, path, xxh3_128=written.xxh3_128)
        path.unlink()
        instead_of.unlink()
