"""Read the sources of a dataset, wherever they stand (`source_sums`).

    sources = read_sources(folder, manifest)
    len(sources)      without reading any
    sources[70_000]   reads the file that has it: 4,096 sources
    for source in …   reads one file after another, and keeps none

Of a dataset in a store a file is one request. What is read has the hash of the manifest; whether it
adds up to what that says is for `look.verify` to see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import msgspec
import numpy as np

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import check_hash, read_whole
from dataprep.pipeline.storage.entries import (
    DatasetSource,
    FileEntry,
    ManySources,
    MediaSource,
    TextSource,
)
from dataprep.pipeline.storage.kinds import (
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
)
from dataprep.pipeline.storage.objects import NoSuchObjectError, is_remote, open_objects
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.source_sums import MOST_TOGETHER, file_name, in_files
from dataprep.pipeline.typed import decode_as

S = TypeVar("S")

# What a file holds.
_KINDS = {TokenizedManifest: tuple[TextSource, ...], EncodedManifest: tuple[MediaSource, ...]}

_Place = tuple[int, Callable[[], Sequence[S]]]  # how many sources stand there, and what reads them


class SourcesApart(Sequence[S], Generic[S]):
    """Sources that stand in several places, each of which is read when it is needed."""

    def __init__(self, places: Iterable[_Place[S]]) -> None:
        self._places = [*places]
        self._starts = offsets_of([count for count, _ in self._places])
        self._last: tuple[int, Sequence[S]] = (-1, ())  # the place that was read last, and its own

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[S]:
        for _, read in self._places:
            yield from read()

    @overload
    def __getitem__(self, number: int) -> S: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[S, ...]: ...
    def __getitem__(self, number: int | slice) -> S | tuple[S, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        number %= len(self)
        place = int(np.searchsorted(self._starts, number, side="right")) - 1
        if place != self._last[0]:
            self._last = place, self._places[place][1]()
        return self._last[1][number - int(self._starts[place])]


@overload
def read_sources(folder: Path, manifest: TokenizedManifest) -> Sequence[TextSource]: ...
@overload
def read_sources(folder: Path, manifest: EncodedManifest) -> Sequence[MediaSource]: ...
@overload
def read_sources(
    folder: Path, manifest: PackedManifest | ExportedManifest
) -> Sequence[DatasetSource]: ...
@overload
def read_sources(folder: Path, manifest: Manifest) -> Sequence[Any]: ...
def read_sources(folder: Path, manifest: Manifest) -> Sequence[Any]:
    """Return the sources of the dataset in a folder, in order."""
    if not isinstance(manifest.sources, ManySources):
        return manifest.sources
    return SourcesApart(_places(folder, manifest))


def texts_of(sources: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    """Return the files in which so many sources stand, by name; none, if the manifest has them."""
    if len(sources) <= MOST_TOGETHER:
        return {}
    return {file_name(i): _encoded(each) for i, each in enumerate(in_files(sources))}


def _encoded(sources: Sequence[Any]) -> Iterator[str]:
    yield msgspec.json.encode(sources).decode()


def _places(folder: Path, manifest: Manifest) -> Iterator[_Place[Any]]:
    sources = manifest.sources
    if not isinstance(sources, ManySources):
        yield len(sources), lambda: sources
    elif isinstance(manifest, TokenizedManifest) and manifest.parts:
        for place, part in parts_of(folder, manifest):
            yield from _places(place, part)
    else:
        entries = {entry.path: entry for entry in manifest.files}
        kind: Any = _KINDS[type(manifest)]
        for i, name in enumerate(sources.files):
            count = min(MOST_TOGETHER, sources.count - i * MOST_TOGETHER)
            yield count, partial(_read, folder, entries[name], kind, count)


def _read(folder: Path, entry: FileEntry, kind: type[Sequence[Any]], count: int) -> Sequence[Any]:
    path = folder / entry.path
    data = _bytes_of(folder, entry)
    try:
        found = decode_as(data, kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise CorruptError(f"{path} is damaged: {error}") from None
    if len(found) != count:
        raise CorruptError(f"{path} has {len(found):,} sources, by its manifest it has {count:,}")
    return found


def _bytes_of(folder: Path, entry: FileEntry) -> bytes:
    if not is_remote(folder):
        return read_whole(folder, entry)
    try:
        data = open_objects(str(folder)).get(entry.path)
    except NoSuchObjectError:
        raise CorruptError(f"{folder / entry.path} is missing") from None
    check_hash(folder / entry.path, entry, hash_bytes(data))
    return data
