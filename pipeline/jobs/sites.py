"""Where a dataset is made: a folder here, or one in a bucket that a folder here stands for.

    --out data/tokenized           the folder itself
    --out s3://bucket/tokenized    `buckets`: a staging folder here, which has the small files

`make_dataset` works in `folder` either way; what else must happen at its steps is what a site does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dataprep.pipeline.files import write_sealed
from dataprep.pipeline.jobs import publish
from dataprep.pipeline.jobs.ownership import (
    IDENTITY,
    check_ours,
    check_work,
    make_work,
    remove_dataset,
    remove_work,
)
from dataprep.pipeline.jobs.publish import Publication
from dataprep.pipeline.jobs.workspace import Identity, check_out, check_writable
from dataprep.pipeline.storage.checked import check_size
from dataprep.pipeline.storage.manifest import WORK, Manifest, files_of
from dataprep.pipeline.storage.objects import is_remote


class Site(Protocol):
    """Where a dataset is made."""

    @property
    def out(self) -> Path | str:
        """What the user calls it."""

    @property
    def folder(self) -> Path:
        """The folder here that a run works in, and that it locks."""

    def is_there(self) -> bool:
        """Return whether something may be there; False: nobody has made anything."""

    def look(self, identity: Identity, may_change: Sequence[str]) -> None:
        """Bring here what is known of the dataset and of an unfinished run; refuse a work folder
        that is not ours. `identity`: of the run that looks; `may_change`: config keys."""

    def check_ours(self) -> None:
        """Raise if there are files of others where we would write or remove some."""

    def check_sizes(self, manifest: Manifest) -> None:
        """Raise CorruptError unless every file is there with the size that the manifest says."""

    def begin(self, begun: bytes) -> Path:
        """Return the work folder of a new run, with its identity; what was there is removed."""

    def share(self, work: Path) -> None:
        """Let other machines have the plan, after what is not to be trusted has gone here."""

    def gather(self, work: Path) -> None:
        """Bring the markers that other machines have committed."""

    def is_possible(self, publication: Publication, fingerprint: str) -> bool:
        """Return whether it is of this dataset, and every file whole at its old place or new."""

    def carry_out(self, publication: Publication, *, overwrite: bool) -> None:
        """Name the files as the dataset has them, then write the manifest."""

    def withdraw(self, publication: Publication) -> None:
        """Undo a publication that cannot be finished: it is made again."""

    def remove_dataset(self) -> None: ...

    def remove_work(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalSite:
    """A folder on this machine."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder

    def is_there(self) -> bool:
        return self.folder.is_dir()

    def look(self, identity: Identity, may_change: Sequence[str]) -> None:
        check_work(self.folder)

    def check_ours(self) -> None:
        check_ours(self.folder)

    def check_sizes(self, manifest: Manifest) -> None:
        for entry in files_of(manifest):
            check_size(self.folder, entry)

    def begin(self, begun: bytes) -> Path:
        remove_dataset(self.folder)
        check_writable(self.folder)
        work = make_work(self.folder)
        write_sealed(work / IDENTITY, begun)
        return work

    def share(self, work: Path) -> None:
        """Do nothing: what is here is all there is."""

    def gather(self, work: Path) -> None:
        """Do nothing."""

    def is_possible(self, publication: Publication, fingerprint: str) -> bool:
        return publish.is_possible(publication, fingerprint, self.folder, self.folder / WORK)

    def carry_out(self, publication: Publication, *, overwrite: bool) -> None:
        publish.carry_out(publication, self.folder, self.folder / WORK)

    def withdraw(self, publication: Publication) -> None:
        publish.withdraw(publication, self.folder, self.folder / WORK)

    def remove_dataset(self) -> None:
        remove_dataset(self.folder)

    def remove_work(self) -> None:
        if (self.folder / WORK).exists():
            remove_work(self.folder / WORK)


def site_of(name: str) -> Site:
    """Return where a dataset of that name is made; refuse what cannot be used."""
    if not is_remote(name):
        return LocalSite(check_out(name))
    from dataprep.pipeline.jobs.buckets import bucket_site  # what stays here need not wait for it

    return bucket_site(name)
