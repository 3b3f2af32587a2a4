"""An element of a task array whose dataset is made in a bucket, which is all that machines share.

element 0    a staging folder here ──►  s3://bucket/array/.work/9c41…/plan.json, tasks/*
element 1    another machine       ◄──  the plan; ──► what its workers commit
finalize     any machine           ◄──  the plan and all markers: publishes
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.errors import ConflictError, ResourceError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.buckets import BucketSite, bucket_site
from dataprep.pipeline.jobs.claims import find_claim
from dataprep.pipeline.jobs.placing import is_published
from dataprep.pipeline.jobs.shares import JobShare, note_array
from dataprep.pipeline.jobs.stored import TASKS
from dataprep.pipeline.jobs.stored_markers import drop_markers
from dataprep.pipeline.jobs.stored_plans import fetch_plan, planned_names, put_plan
from dataprep.pipeline.jobs.workspace import (
    Identity,
    begun_by,
    distrust,
    locked,
    refuse_other_run,
    why_distrusted,
    work_to_continue,
)
from dataprep.pipeline.storage.manifest import WORK, Manifest
from dataprep.pipeline.storage.objects import NoSuchObjectError


def bucket_place(url: str, share: JobShare) -> BucketPlace:
    """Return where the element works; ask the store whether it can be used at all."""
    site = bucket_site(url, of=f"{share.number}-of-{share.count}")
    return BucketPlace(site=site, element=share)


@dataclass(slots=True, kw_only=True)
class BucketPlace:
    """A staging folder of one element. Buckets have no locks: an element that is started twice does
    its jobs twice, and the same bytes go to the same names."""

    site: BucketSite
    element: JobShare
    brought: frozenset[str] = frozenset()  # markers that were in the bucket when it began

    @property
    def out(self) -> str:
        return self.site.out

    @property
    def folder(self) -> Path:
        return self.site.folder

    @contextmanager
    def held(self) -> Iterator[None]:
        with locked(self.folder, name=f"{self.out} for element {self.element}"):
            try:
                yield
            finally:
                self.site.empty()

    def look(self, identity: Identity, may_change: Sequence[str]) -> None:
        self.site.look(identity, may_change)

    def check_sizes(self, manifest: Manifest) -> None:
        self.site.check_sizes(manifest)

    def join(self, identity: Identity, names: Sequence[str], may_change: Sequence[str]) -> Path:
        site, stored = self.site, self.site.stored
        site.check_ours()
        anew = f"stop all elements, remove {self.out}/{WORK} from the bucket and run them again"
        why = why_distrusted(self.folder / WORK) if site.is_begun else None
        if why is not None:
            raise ConflictError(f"the work in {self.out}/{WORK} cannot be used ({why}); {anew}")
        refuse_other_run(
            self.folder,
            identity,
            names,
            may_change=may_change,
            name=self.out,
            spares_empty=True,
            fix=anew,
        )
        work = work_to_continue(self.folder, identity, may_change=may_change)
        if work is None:
            return site.begin(begun_by(identity))
        self.brought = frozenset(path.name for path in (work / TASKS).iterdir())
        planned = planned_names(stored, [*site.found])
        try:
            fetch_plan(stored, planned, work, lambda path: not path.exists())
        except NoSuchObjectError:
            raise ResourceError(
                f"another process has just ended the work in {self.out}; run the same command again"
            ) from None
        return work

    @contextmanager
    def at_work(self, work: Path) -> Iterator[None]:
        note_array(work, self.element, os.getcwd())
        yield

    def share(self, work: Path) -> None:
        """Other elements may be committing just now: of the markers, only those go that were found
        and are not to be trusted."""
        gone = (name for name in self.brought if not (work / TASKS / name).exists())
        stored = self.site.stored
        drop_markers(stored.objects, (stored.name_of(f"{TASKS}/{name}") for name in gone))
        put_plan(stored, self.site.found, work)

    def leave(self, identity: Identity) -> None:
        objects = self.site.objects
        claim = find_claim(objects)
        if claim is None or not claim.may_be_of(self.site.run):
            self.site.remove_own()
            if not is_published(objects, fingerprint(identity), self.folder):
                raise ConflictError(
                    f"another process has removed the work of this array from {self.out}; run all "
                    "elements again when nothing else writes there"
                )

    def distrust(self, work: Path, why: str) -> None:
        distrust(work, why)
        put_plan(self.site.stored, self.site.found, work)
