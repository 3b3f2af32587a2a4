"""Where an element of a task array works: in the folder that all share, or beside a bucket.

--out data/array --task 3/16         data/array itself, under a lock that elements share
--out s3://bucket/array --task 3/16  a staging folder of this element here; the plan and what
                                     workers commit go to s3://bucket/array/.work/9c41…/
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from dataprep.pipeline.errors import LockedError
from dataprep.pipeline.jobs.shares import JobShare, array_of, note_array
from dataprep.pipeline.jobs.sites import LocalSite
from dataprep.pipeline.jobs.workspace import (
    Identity,
    check_out,
    distrust,
    join,
    locked,
    turn,
)
from dataprep.pipeline.storage.manifest import Manifest
from dataprep.pipeline.storage.objects import is_remote

ELEMENT = "element"  # what the names of the files begin with that elements lock while they work


class ElementPlace(Protocol):
    """Where one element of a task array works."""

    @property
    def out(self) -> Path | str:
        """What the user calls it."""

    @property
    def folder(self) -> Path:
        """The folder here that it works in."""

    def held(self) -> AbstractContextManager[None]:
        """Return the block in which the folder is this element's, beside other elements."""

    def look(self, identity: Identity, may_change: Sequence[str]) -> None:
        """Bring here what is known of the dataset and of the work of all elements."""

    def check_sizes(self, manifest: Manifest) -> None:
        """Raise CorruptError unless every file is there with the size that the manifest says."""

    def join(self, identity: Identity, names: Sequence[str], may_change: Sequence[str]) -> Path:
        """Return the work folder; the first of the elements begins the run."""

    def at_work(self, work: Path) -> AbstractContextManager[None]:
        """Return the block in which the element does its jobs."""

    def share(self, work: Path) -> None:
        """Let others have the plan, and no markers that are not to be trusted."""

    def leave(self, identity: Identity) -> None:
        """Raise ConflictError if what was done is gone by now."""

    def distrust(self, work: Path, why: str) -> None:
        """Let nobody use what elements commit."""


def place_of(name: str, share: JobShare) -> ElementPlace:
    """Return where the element works; refuse what cannot be used."""
    if is_remote(name):
        from dataprep.pipeline.jobs.bucket_elements import bucket_place  # others do not wait for it

        return bucket_place(name, share)
    return FolderPlace(folder=check_out(name, shared=True), element=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlace:
    """A folder that all elements share, with locks of the kernel."""

    folder: Path
    element: JobShare

    @property
    def out(self) -> Path:
        return self.folder

    @contextmanager
    def held(self) -> Iterator[None]:
        with locked(self.folder, shared=True):
            yield

    def look(self, identity: Identity, may_change: Sequence[str]) -> None:
        """Do nothing: all of it is here."""

    def check_sizes(self, manifest: Manifest) -> None:
        LocalSite(self.folder).check_sizes(manifest)

    def join(self, identity: Identity, names: Sequence[str], may_change: Sequence[str]) -> Path:
        return join(self.folder, identity, names, may_change=may_change)

    @contextmanager
    def at_work(self, work: Path) -> Iterator[None]:
        """Let no other process do the same jobs meanwhile: both would write the same files. That is
        this element, started once more, or one of an array of another number of elements."""
        with open(work / _lock_of(self.element.number), "a", encoding="ascii") as own:
            with turn(work):
                array = array_of(work)
                if array is not None and array.count != self.element.count:
                    for path in work.glob(f"{ELEMENT}-*.json"):
                        with open(path, "a", encoding="ascii") as other:
                            _lock(other, f"an element of {array.count} is still at work in {work}")
                _lock(own, f"element {self.element} is still at work in {work}")
                note_array(work, self.element, os.getcwd())
            yield

    def share(self, work: Path) -> None:
        """Do nothing: others see the folder."""

    def leave(self, identity: Identity) -> None:
        """Do nothing: what was done is here, where finalize finds it."""

    def distrust(self, work: Path, why: str) -> None:
        distrust(work, why)


def _lock_of(number: int) -> str:
    return f"{ELEMENT}-{number}.json"


def _lock(file: TextIO, why_not: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(f"{why_not}; wait for its end or stop it") from None
