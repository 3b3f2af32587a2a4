"""What holds media: a folder of files, a tar, or a table whose records hold or name them.

holder_of(source).files(source, entries)     folder ─► its pictures      tar, table ─► itself
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Protocol

from dataprep.pipeline.media.listing import Entry
from dataprep.pipeline.types import Source


class Holder(Protocol):
    """One kind of source of media; it has no state. What has a default here suits one file."""

    kind: str = ""  # of `Source`
    can_be_parted: bool = False  # each of its entries can be read without the others

    def files(self, source: Source, entries: Sequence[Entry]) -> Iterable[str]:
        """Return the paths of the media, tars and tables that are read, not of files beside."""
        return [source.path]

    def folder(self, source: Source) -> str:
        """Return the folder to which names of files are relative."""
        return os.path.dirname(source.path)

    def fingerprints(self, source: Source) -> tuple[str | None, str]:
        """Return the fingerprints of the source itself, None if it is no file, and of the files
        that belong to it, "" if there are none."""
        own, _, contents = source.fingerprint.partition("+")
        return own, contents

    def path_of(self, source: Source, name: str) -> str:
        """Return the file that has the bytes of an entry, or of a file beside it."""
        return source.path

    def names_of(self, source: Source, name: str) -> tuple[str, str]:
        """Return what an entry is called in the column `source`, and in errors."""
        return f"{os.path.basename(source.path)}/{name}", f"{name} of {source.path}"


class TableHolder(Holder):
    """Any kind of `sources`."""


class TarHolder(Holder):
    kind = "tar"


class FolderHolder(Holder):
    kind, can_be_parted = "files", True

    def files(self, source: Source, entries: Sequence[Entry]) -> Iterable[str]:
        return (self.path_of(source, entry.name) for entry in entries)

    def folder(self, source: Source) -> str:
        return source.path

    def fingerprints(self, source: Source) -> tuple[str | None, str]:
        return None, source.fingerprint

    def path_of(self, source: Source, name: str) -> str:
        return os.path.join(source.path, name)

    def names_of(self, source: Source, name: str) -> tuple[str, str]:
        return name, self.path_of(source, name)


# Those whose media are listed; any other source is a table.
HOLDERS: dict[str, Holder] = {each.kind: each for each in (FolderHolder(), TarHolder())}
_TABLE = TableHolder()


def holder_of(source: Source) -> Holder:
    return HOLDERS.get(source.kind, _TABLE)


def is_listed(source: Source) -> bool:
    """Return whether it is a folder's files or a tar: its pieces are ranges of its entries."""
    return source.kind in HOLDERS
