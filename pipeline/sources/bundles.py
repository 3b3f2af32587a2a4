"""Group the members of a tar by key, as WebDataset does.

    cats/1.jpg  cats/1.Vision.npy  cats/1.txt   cats/2.txt     members of the tar, in order
    └────────── key "cats/1" ───────────────┘   └ "cats/2" ┘
    jpg         vision.npy         txt          txt            extensions
    –           vision             text         text           fields that they give

The key is the path up to the first dot in the file name; the rest is the extension, in lower case.
Neighbours with the same key are a bundle. Hidden files, folders, names without a dot and what
archivers add (`__MACOSX`, `__…__`) belong to no bundle. Only headers are read here.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dataprep.pipeline.sources.tars import check_end, check_name, end_of, tar_members, what_instead

KEY = "__key__"
# The field of a member whose extension has one part; a .json gives one field for each of its keys.
_FIELDS = {"txt": "text", "json": "", "npy": "npy", "cls": "cls"}
_NOT_DATA = re.compile(r"(?:\./)?(?:__MACOSX|__[^/]*__)(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    name: str  # cats/1.Vision.npy
    key: str  # cats/1
    extension: str  # vision.npy
    field: str  # vision; "" where `kind` is json: all its keys
    kind: str  # txt | json | npy | cls; "" for all others, which give no field
    header: int  # its first byte in the tar
    content: int  # where its bytes begin
    size: int  # and how many there are
    what: str = ""  # a link, a device …, which have no content; "" for a file

    def is_wanted(self, keys: frozenset[str] | None) -> bool:
        """Return whether it may give one of these top-level keys; None: any."""
        if not self.kind or keys is None:
            return bool(self.kind)
        return self.field in keys if self.field else bool(keys - {KEY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Members with the same key: one record."""

    members: tuple[Member, ...]

    @property
    def key(self) -> str:
        return self.members[0].key

    @property
    def offset(self) -> int:
        return self.members[0].header

    def wanted(self, keys: frozenset[str] | None) -> list[Member]:
        return [member for member in self.members if member.is_wanted(keys)]

    def num_bytes(self, keys: frozenset[str] | None) -> int:
        """Count the bytes that are read for these fields: all headers, and the wanted contents."""
        headers = sum(member.content - member.header for member in self.members)
        return headers + sum(member.size for member in self.wanted(keys))


def read_bundles(file: Any, path: str, start: int = 0, stop: int = sys.maxsize) -> Iterator[Bundle]:
    """Yield the bundles that begin in [start, stop); `start` is 0 or the offset of a bundle."""
    gathered: list[Member] = []
    end = start
    for info in tar_members(file, path, start):
        end = end_of(info)
        member = _member(info, path)
        if member is None:
            continue
        if gathered and member.key != gathered[0].key:
            yield Bundle(members=tuple(gathered))
            gathered = []
        if not gathered and member.header >= stop:
            return
        gathered.append(member)
    check_end(file, path, end)
    if gathered:
        yield Bundle(members=tuple(gathered))


def _member(info: tarfile.TarInfo, path: str) -> Member | None:
    """Return the member, or None if it belongs to no bundle."""
    key, extension = split_name(info.name)
    field, kind = field_of(extension)
    # What has no content, but stands for a field, is kept, to be reported as an error.
    if not key or info.isdir() or not (info.isreg() or kind):
        return None
    check_name(info.name, path)
    return Member(
        name=info.name,
        key=key,
        extension=extension,
        field=field,
        kind=kind,
        header=info.offset,
        content=info.offset_data,
        size=info.size,
        what=what_instead(info),
    )


def split_name(name: str) -> tuple[str, str]:
    """Return (key, extension), or ("", "") for a name without a key.

    >>> split_name("v1.0/cats/1.Vision.NPY"), split_name("v1.0/README"), split_name("a/.b.txt")
    (('v1.0/cats/1', 'vision.npy'), ('', ''), ('', ''))
    """
    folder, slash, last = name.rpartition("/")
    first, dot, extension = last.partition(".")
    if not first or not dot or _NOT_DATA.match(name):
        return "", ""
    return f"{folder}{slash}{first}", extension.lower()


def field_of(extension: str) -> tuple[str, str]:
    """Return (field, kind), or ("", "") for an extension that gives no field.

    >>> field_of("txt"), field_of("vision.npy"), field_of("json"), field_of("jpg")
    (('text', 'txt'), ('vision', 'npy'), ('', 'json'), ('', ''))
    """
    name, _, kind = extension.rpartition(".")
    return (name or _FIELDS[kind], kind) if kind in _FIELDS else ("", "")
