"""Read the sources of a dataset, wherever they stand (`source_sums`).

    sources = read_sources(folder, manifest)
    len(sources)      without reading any
    sources[70_000]   reads the file that has it: 4,096 sources (`apart`)

Whether what is read adds up to what the manifest says is for `look.verify` to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import msgspec

from dataprep.pipeline.storage.apart import Apart, Place, read_entries
from dataprep.pipeline.storage.entries import (
    DatasetSource,
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
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.source_sums import MOST_TOGETHER, file_name, in_files

# What a file holds.
_KINDS = {TokenizedManifest: tuple[TextSource, ...], EncodedManifest: tuple[MediaSource, ...]}


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
    return Apart(_places(folder, manifest))


def with_sources(folder: Path, manifest: TokenizedManifest) -> TokenizedManifest:
    """Return the manifest with all of its sources, for whoever needs them more than once."""
    return replace(manifest, sources=tuple(read_sources(folder, manifest)))


def texts_of(sources: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    """Return the files in which so many sources stand, by name; none, if the manifest has them."""
    if len(sources) <= MOST_TOGETHER:
        return {}
    return {file_name(i): _encoded(each) for i, each in enumerate(in_files(sources))}


def _encoded(sources: Sequence[Any]) -> Iterator[str]:
    yield msgspec.json.encode(sources).decode()


def _places(folder: Path, manifest: Manifest) -> Iterator[Place[Any]]:
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
            yield count, partial(read_entries, folder, entries[name], kind, count)
