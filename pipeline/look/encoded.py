"""Find the datasets of codes that the codes of a file are from.

    OUT/shards/codes-00000-of-00004.parquet  ─►  OUT/manifest.json  ─►  the encoder, to decode with

A dataset of codes may have been made from another, pictures first and then their sound: the nearest
encoder of a modality made its codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.storage.manifest import EncodedManifest, kind_of, read_manifest
from dataprep.pipeline.storage.source_lists import read_sources

Files = Mapping[str, str]  # paths, and fingerprints of their content


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A dataset of codes."""

    folder: Path
    manifest: EncodedManifest
    is_same: bool  # its shards are still those that were read

    @property
    def kind(self) -> str:
        return self.manifest.encoder.kind


def encoded_folder(path: str) -> Path | None:
    """Return the folder of the dataset of codes that a file is a shard of."""
    for place in dict.fromkeys((Path(path), Path(path).resolve())):
        if place.parent.name == "shards" and kind_of(place.parent.parent) == "encoded":
            return place.parent.parent
    return None


def encoded_behind(files: Files) -> dict[str, list[Encoded]]:
    """Return, by kind, the nearest datasets of codes that the codes in these files are from."""
    found: dict[str, list[Encoded]] = {}
    seen: set[Path] = set()
    is_same = True
    while level := [e for e in _encoded(files, is_same) if e.folder not in seen]:
        nearer = set(found)
        for encoded in level:
            if encoded.kind not in nearer:
                found.setdefault(encoded.kind, []).append(encoded)
        seen |= {encoded.folder for encoded in level}
        is_same = all(encoded.is_same for encoded in level)
        files = {s.path: s.fingerprint for e in level for s in read_sources(e.folder, e.manifest)}
    return found


def _encoded(files: Files, may_be_same: bool) -> list[Encoded]:
    """Return the datasets of codes that the files are shards of, each once."""
    found: dict[Path, Encoded] = {}
    for siblings in _by_parent(files):
        folder = encoded_folder(next(iter(siblings)))
        if folder is not None and folder not in found:
            manifest = read_manifest(folder)
            assert isinstance(manifest, EncodedManifest), folder
            hashes = {f"xxh3-128:{shard.xxh3_128}" for shard in manifest.shards}
            # Of a table that names files, their hash comes after a plus.
            is_same = all(hash.partition("+")[0] in hashes for hash in siblings.values())
            found[folder] = Encoded(
                folder=folder, manifest=manifest, is_same=is_same and may_be_same
            )
    return list(found.values())


def _by_parent(files: Files) -> list[Files]:
    """Group files that may be shards of codes by their folder."""
    groups: dict[tuple[Path, Path], dict[str, str]] = {}
    for path, fingerprint in files.items():
        if path.endswith(".parquet"):
            places = Path(path).parent, Path(path).resolve().parent  # it may be a link
            groups.setdefault(places, {})[path] = fingerprint
    return list(groups.values())
