"""List the pictures, videos or sounds of a folder or a tar, with the files beside each.

    cats/tom.jpg, cats/tom.txt, cats/tom.json   ─►  one entry: the picture, its text, its columns

Entries are sorted by name (folder) or in the order of the file (tar). A `.txt` or `.json` that
belongs to no picture is ignored, as are hidden files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.opening import why_unusable
from dataprep.pipeline.media.endings import JSON, TEXT, is_wanted, stem
from dataprep.pipeline.sources.stream import naming
from dataprep.pipeline.sources.tars import (
    PACK_AGAIN,
    check_end,
    check_name,
    end_of,
    open_tar,
    tar_members,
    what_instead,
)
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import Modality


class ByteSpan(msgspec.Struct, frozen=True, array_like=True):
    """Where the bytes of a file are in a tar; for a file outside a tar the offset is -1."""

    offset: int
    size: int
    ending: str = ""  # of a file beside another: .txt, .TXT, .json, …


# A list in JSON, not an object, because there can be millions.
class Entry(msgspec.Struct, frozen=True, array_like=True):
    name: str  # with / between folders, relative to the folder or as in the tar
    span: ByteSpan
    text: ByteSpan | None  # the .txt beside it
    json: ByteSpan | None  # the .json beside it

    @property
    def num_bytes(self) -> int:
        return sum(span.size for span in (self.span, self.text, self.json) if span)

    @property
    def names(self) -> list[str]:
        """The names of all its files."""
        spans = (self.span, self.text, self.json)
        return [beside_name(self.name, span) for span in spans if span]


def beside_name(name: str, span: ByteSpan) -> str:
    """Return the name of the file that `span` describes: `name`, or the file beside it."""
    return stem(name) + span.ending if span.ending else name


def list_files(folder: str, names: Sequence[str], kind: Modality) -> list[Entry]:
    """Return the entries of the media among `names`, which must include the files beside them."""
    wanted = sorted(name for name in names if is_wanted(name, kind))
    beside = Beside(names)

    def span(name: str, ending: str = "") -> ByteSpan:
        check_name(name, folder)
        path = os.path.join(folder, name)
        with naming(path):
            found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} {why_unusable(path)}")
        return ByteSpan(-1, found.st_size, ending)

    def spans(name: str) -> Iterator[ByteSpan | None]:
        for ending in beside.endings_of(name, folder):
            yield span(stem(name) + ending, ending) if ending else None

    return [Entry(name, span(name), *spans(name)) for name in wanted]


class Beside:
    """Knows which .txt and .json files are beside which media, in upper or lower case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._endings: dict[str, list[str]] = {}  # by stem
        for name in names:
            ending = name.removeprefix(stem(name))
            if ending.lower() in (TEXT, JSON):
                self._endings.setdefault(stem(name), []).append(ending)

    def endings_of(self, name: str, place: str) -> tuple[str, str]:
        """Return the endings of the .txt and the .json beside a file, as written; "" for none."""
        found = {TEXT: "", JSON: ""}
        for ending in self._endings.get(stem(name), ()):
            other = found[ending.lower()]
            if other and other != ending:
                one, two = sorted((other, ending))
                raise InputError(
                    f"{name} in {place} has both a {one} and a {two} beside it; keep one of them"
                )
            found[ending.lower()] = ending
        return found[TEXT], found[JSON]


def walk(
    folder: str, left_out: list[str], below: str = "", seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the names of all files below a folder, except hidden ones.

    A folder that is its own ancestor is not entered again. A dataset is not entered at all, but
    added to `left_out`: if an output lies below its own input, the next run must not read it.
    """
    place = os.path.join(folder, below)
    real = os.path.realpath(place)
    if real in seen:
        return
    if below and kind_of(place):
        left_out.append(below)
        return
    with naming(place), os.scandir(place) as entries:
        found = sorted((entry.name, entry.is_dir()) for entry in entries)
    for name, is_folder in found:
        if name.startswith("."):
            continue
        if is_folder:
            yield from walk(folder, left_out, f"{below}{name}/", seen | {real})
        else:
            yield f"{below}{name}"


def list_tar(path: str, kind: Modality) -> list[Entry]:
    spans: dict[str, ByteSpan] = {}
    wanted: list[tuple[str, ByteSpan]] = []
    end = 0
    with open_tar(path) as file:
        for member in tar_members(file, path):
            end = end_of(member)
            if member.isdir():
                continue
            is_shown = not os.path.basename(member.name).startswith(".")
            is_named = is_shown and is_wanted(member.name, kind)
            what = what_instead(member)
            if is_named and what:
                raise InputError(f"{member.name} of {path} is {what}, not a file; {PACK_AGAIN}")
            if what:
                continue
            check_name(member.name, path)
            span = ByteSpan(member.offset_data, member.size)
            spans[member.name] = span
            if is_named:
                wanted.append((member.name, span))
        check_end(file, path, end)  # a damaged header looks like the end to tarfile
    beside = Beside(spans)

    def span_beside(name: str, ending: str) -> ByteSpan | None:
        span = spans.get(stem(name) + ending) if ending else None
        return ByteSpan(span.offset, span.size, ending) if span else None

    return [
        Entry(name, span, *(span_beside(name, e) for e in beside.endings_of(name, path)))
        for name, span in wanted
    ]


def names_in(entries: Iterable[Entry]) -> list[str]:
    """Return the names of all files of the entries."""
    return [name for entry in entries for name in entry.names]


def total_bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.num_bytes for entry in entries)
