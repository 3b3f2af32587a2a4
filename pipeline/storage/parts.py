"""Datasets that grow: one manifest over parts, each of which is a dataset of its own.

    out/parts/00000/manifest.json, shards/…     what was made first
    out/parts/00001/manifest.json, shards/…     what came in later
    out/generations/00000.json                  the first part as a dataset
    out/generations/00001.json                  both parts as one dataset
    out/manifest.json                           the latest of these

The manifest of a generation lists the shards of its parts, in order, and their sums: whoever reads
shards need not know of parts. Rows and documents of a generation have the same numbers in all later
ones. What only the files of a part tell (`provenance`) is read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.storage.entries import FileEntry, PartEntry
from dataprep.pipeline.storage.kinds import Manifest, PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.manifest import MANIFEST, read_manifest
from dataprep.pipeline.storage.objects import is_remote

Growing = TokenizedManifest | PackedManifest
G = TypeVar("G", bound=Growing)

PARTS = "parts"
GENERATIONS = "generations"
LATEST = "latest"


def generation_name(number: int) -> str:
    """
    >>> generation_name(3)
    'generations/00003.json'
    """
    return f"{GENERATIONS}/{number:05d}.json"


def part_name(number: int, version: int = 0) -> str:
    """Return the folder of a part; one of which documents were taken has a new version.

    >>> part_name(3), part_name(3, 2)
    ('parts/00003', 'parts/00003-2')
    """
    return f"{PARTS}/{number:05d}{f'-{version}' if version else ''}"


def checksum_of(manifest: Manifest) -> str:
    return fingerprint(msgspec.to_builtins(manifest))


def read_generation(folder: Path, generation: int | str | None = None) -> Manifest:
    """Read the manifest of a generation; None or "latest": the newest."""
    latest = read_manifest(folder)
    newest = getattr(latest, "generation", 0)
    if generation is None or generation == LATEST:
        return latest
    if type(generation) is not int or not 0 <= generation <= newest:
        raise ConfigError(
            f"generation {generation!r}: {folder} has {counted(newest + 1, 'generation')}, "
            f"numbered from 0; dataprep log {folder} lists them"
        )
    if generation == newest:
        return latest
    name = generation_name(generation)
    if not is_remote(folder) and not (folder / name).exists():
        raise ConfigError(
            f"generation {generation} of {folder} was removed; dataprep log {folder} lists those "
            "that are there"
        )
    found = read_manifest(folder, name)
    if getattr(found, "generation", 0) != generation or found.kind != latest.kind:
        raise CorruptError(f"{folder / name} is not generation {generation} of {folder}")
    return found


def check_parts_there(folder: Path, manifest: Manifest) -> None:
    """Raise ConfigError if a generation cannot be read any more: one of its parts was removed.

    A part that documents were taken from may be removed, once newer generations do without it.
    """
    entries: tuple[PartEntry, ...] = getattr(manifest, "parts", ())
    if is_remote(folder):
        return  # to look would be a request for each; what cannot be fetched is told then
    gone = next((part.path for part in entries if not (folder / part.path).is_dir()), None)
    if gone is not None:
        raise ConfigError(
            f"generation {getattr(manifest, 'generation', 0)} of {folder} cannot be read any more: "
            f"{gone} was removed; read a newer one, which dataprep log {folder} lists"
        )


def parts_of(folder: Path, manifest: G) -> Iterator[tuple[Path, G]]:
    """Yield the datasets that a dataset consists of, folder and manifest; one that has not grown is
    its only part."""
    if not manifest.parts:
        yield folder, manifest
    for entry in manifest.parts:
        yield folder / entry.path, read_part(folder, manifest, entry)


def read_part(folder: Path, manifest: G, entry: PartEntry) -> G:
    """Return the manifest of a part, which is the one that the dataset was made of."""
    place = folder / entry.path
    part = read_manifest(place)
    if type(part) is not type(manifest) or checksum_of(part) != entry.checksum:
        raise CorruptError(
            f"{place / MANIFEST} is not the one that {folder} is made of; restore it, or make "
            "the dataset again"
        )
    return part


def files_named(folder: Path, manifest: G, name: str) -> Iterator[tuple[Path, G, FileEntry]]:
    """Yield the parts that list a file of this name, which not every one has, and its entry."""
    for place, part in parts_of(folder, manifest):
        entry = next((entry for entry in part.files if entry.path == name), None)
        if entry is not None:
            yield place, part, entry
