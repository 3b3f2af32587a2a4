"""A dataset that is made in a bucket.

    here, below the cache folder           in the bucket
    manifest.json                     ◄──  manifest.json          there: complete, nothing to do
    .work/identity.json               ◄──  .work/identity.json    whose turn it is (`claims`)
    .work/tasks/*.done                ◄──  .work/9c41…/tasks/*    what any machine has committed
    .work/plan.json, rows/* …         ──►  .work/9c41…/*          for other machines and finalize
    (workers: `stored`)               ──►  .work/9c41…/tasks/*
    .work/texts/*                     ──►  errors.jsonl, …
                                           .work/9c41…/tasks/a ─► shards/documents-00000-of-00003
                                           manifest.json last, by a conditional put

The store is the truth: what a killed run left here is thrown away, and what it had committed is
found there. One listing tells what is there; nothing is asked about each file.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.pipeline.caches import remove_left
from dataprep.pipeline.errors import (
    ConfigError,
    ConflictError,
    CorruptError,
    DataprepError,
    ResourceError,
)
from dataprep.pipeline.files import make_folder, write_sealed
from dataprep.pipeline.hashes import fingerprint as hash_of
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.jobs.claims import IDENTITY as CLAIM
from dataprep.pipeline.jobs.claims import (
    Claim,
    TakenOverError,
    announce,
    crowded,
    damaged,
    find_claim,
    take,
    take_place,
)
from dataprep.pipeline.jobs.ownership import (
    IDENTITY,
    MARK_TEXT,
    REMOVED,
    is_of_work,
    listed_files,
    make_work,
)
from dataprep.pipeline.jobs.placing import (
    OtherDatasetError,
    can_place,
    check_free,
    is_published,
    listed,
    place,
    publish,
)
from dataprep.pipeline.jobs.publish import PUBLISH, Publication
from dataprep.pipeline.jobs.stored import STORE, TASKS, StoredWork, folder_here, keep_in_store
from dataprep.pipeline.jobs.stored_markers import bring_markers, drop_markers, marker_names
from dataprep.pipeline.jobs.stored_plans import put_plan
from dataprep.pipeline.jobs.workspace import DISTRUSTED, WORK_VERSION
from dataprep.pipeline.storage.manifest import MANIFEST, MARK, WORK, Manifest, files_of
from dataprep.pipeline.storage.objects import (
    NoSuchObjectError,
    ObjectEntry,
    Objects,
    open_objects,
)

_SMALL = 1 << 20  # bytes: files of the work folder that a run which goes on reads; plans are made
STAGING = "staging"
LOOKS = 5  # at what another process is just changing


def bucket_site(url: str, of: str = "") -> BucketSite:
    """Return the site of an address; ask the store whether it can be used at all. `of` names who
    needs a staging folder apart from that of others."""
    objects = open_objects(url)
    objects.check_bucket()
    name = hash_bytes(objects.url.encode())[:16] + (f"-{of}" if of else "")
    remove_left(folder_here(STAGING), but=name)
    return BucketSite(objects=objects, folder=folder_here(STAGING) / name)


def run_of(identity: Mapping[str, Any], may_change: Sequence[str] = ()) -> str:
    """Return the name of all runs that go on with one another's work; `may_change` are config
    keys."""
    config = {k: v for k, v in identity.get("config", {}).items() if k not in may_change}
    known = {**identity, "config": config, "work_version": WORK_VERSION}
    return hash_of(known).removeprefix("sha256:")[:16]


@dataclass(slots=True, kw_only=True)
class BucketSite:
    """A folder in a bucket, and its staging folder here."""

    objects: Objects
    folder: Path
    run: str = ""
    found: dict[str, ObjectEntry] = field(default_factory=dict)  # in the bucket, by name
    listed: frozenset[str] = frozenset()  # of these, what is known to be of a dataset of ours
    claim: Claim | None = None

    @property
    def out(self) -> str:
        return self.objects.url

    @property
    def stored(self) -> StoredWork:
        return StoredWork(objects=self.objects, run=self.run)

    @property
    def is_begun(self) -> bool:
        """Return whether there is work of this very run."""
        return self.claim is not None and self.claim.run == self.run

    def is_there(self) -> bool:
        make_folder(self.folder)
        return True

    def look(self, identity: Mapping[str, Any], may_change: Sequence[str]) -> None:
        self.run = run_of(identity, may_change)
        for _ in range(LOOKS):
            if self._look():
                return
        raise crowded(self.objects)

    def _look(self) -> bool:
        """Bring what is there; return whether it is of one moment. A run that ends just now, such
        as another element's, removes what was listed."""
        self.empty()
        self.found = listed(self.objects)
        for name in sorted(n for n in self.found if n.startswith(f"{WORK}/")):
            if not is_of_work(name):
                raise ConfigError(
                    f"{self.objects.at(name)} was not written by dataprep; move it away: what is "
                    f"below {WORK} is removed when the run ends"
                )
        try:
            self._fetch_small()
        except NoSuchObjectError:
            return False
        self.listed = frozenset(listed_files(self.folder))
        return (CLAIM in self.found) == (self.claim is not None)

    def check_ours(self) -> None:
        known = {*self.listed, MANIFEST}
        for name in sorted(self.found):
            if not name.startswith(f"{WORK}/") and name not in known:
                raise ConfigError(
                    f"--out {self.out} holds {name}, which dataprep did not write; "
                    "move it away or name a new folder"
                )

    def check_sizes(self, manifest: Manifest) -> None:
        for entry in files_of(manifest):
            found = self.found.get(entry.path)
            if found is None or found.num_bytes != entry.num_bytes:
                what = "is missing" if found is None else f"has {found.num_bytes} bytes"
                raise CorruptError(
                    f"{self.objects.at(entry.path)} {what}, the manifest says {entry.num_bytes} "
                    "bytes; make the dataset again with --overwrite"
                )

    def begin(self, begun: bytes) -> Path:
        self._take(json.loads(begun), spares_others=True)
        self._clear()
        self.empty()
        work = make_work(self.folder)
        write_sealed(work / IDENTITY, begun)
        keep_in_store(work, self.out, self.run)
        return work

    def share(self, work: Path) -> None:
        kept = {self.stored.name_of(f"{TASKS}/{path.name}") for path in (work / TASKS).iterdir()}
        names = marker_names(self.stored, self.found)
        drop_markers(self.objects, (name for name in names if name not in kept))
        put_plan(self.stored, self.found, work)

    def gather(self, work: Path) -> None:
        self.found = listed(self.objects)
        names = marker_names(self.stored, self.found)
        bring_markers(self.stored, self.found, names, self.folder / WORK / TASKS)

    def is_possible(self, publication: Publication, fingerprint: str) -> bool:
        if publication.fingerprint != fingerprint:
            return False
        return can_place(self.stored, publication, self.found, self.folder)

    def withdraw(self, publication: Publication) -> None:
        # What was copied stays: the same run gives the same names and bytes, and another process
        # of it may be publishing just now.
        (self.folder / WORK / PUBLISH).unlink()

    def carry_out(self, publication: Publication, *, overwrite: bool) -> None:
        assert self.claim is not None, "the work of no run"
        try:
            if announce(self.objects, self.claim) is None:
                raise NoSuchObjectError(f"{self.objects.at(CLAIM)} is gone")
            if not overwrite:
                check_free(self.objects, publication.fingerprint)
            place(self.stored, publication, self.folder)
            if not self._has_turn():  # somebody overwrites what was placed
                raise NoSuchObjectError(f"{self.objects.at(CLAIM)} is not this run's any more")
            may_replace = self._has_turn if overwrite else None
            publish(self.objects, publication, self.folder, may_replace=may_replace)
        except NoSuchObjectError as error:
            if not is_published(self.objects, publication.fingerprint, self.folder):
                raise self._lost(error) from None
        except TakenOverError:
            self.remove_own()
            raise
        except OtherDatasetError:
            (self.remove_work if self._has_turn() else self.remove_own)()
            raise

    def _has_turn(self) -> bool:
        """Return whether no other run has taken the place of this one, or removed its work."""
        claim = find_claim(self.objects)
        return claim is not None and claim.may_be_of(self.run)

    def _lost(self, error: NoSuchObjectError) -> DataprepError:
        """Return what it means that something of this run's work is gone; where another process
        has removed all of it, nothing is left of it."""
        if self._has_turn():
            return ResourceError(
                f"{error}: something else has removed what this run had committed; run the same "
                "command again, which makes only that again"
            )
        self.remove_own()
        return ConflictError(
            f"another process has removed the work of this run ({error}); run again when nothing "
            "else writes there"
        )

    def remove_dataset(self) -> None:
        if self.found or self.claim is not None:  # what this run has committed was not there then
            self._take({})
            self._clear()
            self.remove_work()
        self.empty()

    def remove_work(self) -> None:
        """Remove the work of this run, then the claim and the mark; if there was none when this run
        looked, leave what another has begun since then."""
        if self.claim is None and not any(name.startswith(f"{WORK}/") for name in self.found):
            self.empty()
            return
        names = [entry.name for entry in self.objects.entries(f"{WORK}/")]
        last = [CLAIM, f"{WORK}/{MARK}"]
        self.objects.delete(name for name in names if is_of_work(name) and name not in last)
        for name in last:
            self.objects.delete([name] if name in names else [])
        self.claim = None
        self.empty()

    # --- what is there ---

    def empty(self) -> None:
        """Throw away what is in the staging folder, which this process has locked."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def find_manifest(self) -> Path | None:
        """Bring the manifest, if there is one."""
        try:
            (self.folder / MANIFEST).write_bytes(self.objects.get(MANIFEST))
        except NoSuchObjectError:
            return None
        return self.folder / MANIFEST

    def _fetch_small(self) -> None:
        if MANIFEST in self.found:
            (self.folder / MANIFEST).write_bytes(self.objects.get(MANIFEST))
        if not any(name.startswith(f"{WORK}/") for name in self.found):
            self.claim = None
            return
        work = make_work(self.folder)
        if f"{WORK}/{REMOVED}" in self.found:
            (work / REMOVED).write_bytes(self.objects.get(f"{WORK}/{REMOVED}"))
        self.claim = find_claim(self.objects)
        if self.claim is None or not self.claim.identity:
            return  # what is there is being removed by --overwrite, or whose it is was damaged
        stored = StoredWork(objects=self.objects, run=self.claim.run)
        write_sealed(work / IDENTITY, json.dumps(self.claim.identity).encode())
        keep_in_store(work, self.out, self.claim.run)
        for name, entry in self.found.items():
            own = name.removeprefix(stored.prefix)
            is_small = entry.num_bytes <= _SMALL and own != STORE
            if own != name and re.fullmatch(r"[a-z]+\.json", own) and (is_small or own == PUBLISH):
                (work / own).write_bytes(self.objects.get(name))
        (work / TASKS).mkdir()
        # Of another run it is enough to know that it has committed something.
        markers = marker_names(stored, self.found)
        wanted = markers if self.is_begun else markers[:1]
        bring_markers(stored, self.found, wanted, work / TASKS)

    # --- what is changed ---

    def _take(self, identity: Mapping[str, Any], *, spares_others: bool = False) -> None:
        def has_committed(run: str) -> bool:
            """Return whether a run has done so since this one has looked."""
            found = listed(self.objects, StoredWork(objects=self.objects, run=run).prefix)
            return any(name.endswith(".done") for name in found.keys() - self.found.keys())

        claim, seen = Claim(run=self.run, identity=identity), self.claim
        is_lost = spares_others and seen is not None and seen.is_damaged
        if is_lost and any(n.startswith(f"{WORK}/") and n.endswith(".done") for n in self.found):
            raise damaged(self.objects)
        self.objects.put(f"{WORK}/{MARK}", MARK_TEXT)
        if spares_others:
            self.claim = take_place(self.objects, claim, seen, has_committed)
        else:
            self.claim = take(self.objects, claim, seen)

    def _clear(self) -> None:
        """Remove the dataset that is there and the work of other runs, whoever is killed meanwhile:
        the manifest goes first; it lies in the work folder until all that it lists is gone."""
        removed = f"{WORK}/{REMOVED}"
        if MANIFEST in self.found:
            with suppress(NoSuchObjectError):  # another process has just done so
                self.objects.put(removed, self.objects.get(MANIFEST))
            self.objects.delete([MANIFEST])
        kept = {CLAIM, f"{WORK}/{MARK}", removed}
        self.objects.delete(name for name in self.found if name in self.listed)
        own = [n for n in self.found if n.startswith(f"{WORK}/") and n not in kept]
        # Last what says that the rest is not to be trusted: there may be many, and a kill between.
        for is_last in (False, True):
            self.objects.delete(n for n in own if n.endswith(f"/{DISTRUSTED}") == is_last)
        if MANIFEST in self.found or removed in self.found:
            self.objects.delete([removed])
        self.found, self.listed = {}, frozenset()

    def remove_own(self) -> None:
        """Remove what this run has committed after another one took its place."""
        self.objects.delete(entry.name for entry in self.objects.entries(self.stored.prefix))
