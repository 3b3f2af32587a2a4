"""Datasets that `dataprep export` wrote, as inputs: checked against their manifest.

    old/megatron/manifest.json     lists shards/documents-00000-of-00002.bin, .idx: bytes, xxh3-128

Trainers' formats hardly tell that a file was cut off, and none that one is missing; the manifest
does. Hashes are compared with the fingerprints, which are made of every input anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.sources.endings import kind_by_name
from dataprep.pipeline.sources.fingerprint import PREFIX
from dataprep.pipeline.sources.patterns import fixed_folder
from dataprep.pipeline.sources.wholes import fingerprints_of
from dataprep.pipeline.storage.kinds import AnyFile, files_of
from dataprep.pipeline.storage.manifest import ExportedManifest, kind_of, read_manifest
from dataprep.pipeline.types import Source

EXPORTED, UNFINISHED = "exported", "unfinished"
_BESIDE = (".json", ".md")  # endings of files that are no data: the manifest, an index, a card


def exported_files(folder: str) -> list[str]:
    """Return the files of an export but for the manifest and the like; a CorruptError unless
    exactly those of the manifest are there."""
    return _told_in(folder, _entries(folder), folder)


def check_part(folder: str) -> None:
    """Raise a CorruptError unless a folder in an export has exactly those files of the manifest
    that belong there, if any do."""
    folder = os.path.realpath(folder)
    above = os.path.dirname(folder)
    if kind_of(above) == EXPORTED:
        entries = _entries(above)
        listed = {path: entries[path] for path in entries if path.startswith(f"{folder}{os.sep}")}
        if listed:
            _told_in(folder, listed, above)


def _told_in(place: str, listed: Mapping[str, AnyFile], folder: str) -> list[str]:
    found = [path for path in listed if os.path.isfile(path)]
    found += [os.path.join(at, name) for at, _, names in os.walk(place) for name in sorted(names)]
    return told_files(listed, dict.fromkeys(found), folder)


def told_files(
    listed: Mapping[str, AnyFile], present: Mapping[str, int | None], folder: str
) -> list[str]:
    """Return the listed files that hold data; a CorruptError unless these, and no other data, are
    present, of the size that is told."""
    _refuse_missing([path for path in listed if path not in present], folder)
    for path, num_bytes in present.items():
        if path not in listed and kind_by_name(path) and not path.endswith(_BESIDE):
            raise CorruptError(
                f"{path} is not in the manifest.json of {folder}, so it would be read as part "
                "of a dataset that it does not belong to; move it away, or name the files"
            )
        if path in listed and num_bytes not in (None, listed[path].num_bytes):
            raise CorruptError(
                f"{path} has {num_bytes:,} bytes, but the manifest.json of {folder} says "
                f"{listed[path].num_bytes:,}; restore it, or export again"
            )
    return [path for path in listed if not path.endswith(_BESIDE)]


def check_matched(files: Iterable[str], pattern: str) -> None:
    """Raise a CorruptError if the exports in which a pattern matches these files lack some that it
    would match."""
    top = fixed_folder(pattern)
    patterns = pattern, os.path.realpath(top) + pattern.removeprefix(top)
    folders = {os.path.dirname(path) for path in files}
    folders |= {os.path.realpath(folder) for folder in folders}  # one of an export may be linked
    exports = {found for folder in folders for found in _exports_around(folder)}
    for folder in sorted(folder for folder, kind in exports if kind == EXPORTED):
        listed = [p for p in _entries(folder) if any(may_match(p, each) for each in patterns)]
        _refuse_missing([path for path in listed if not os.path.isfile(path)], folder)


def may_match(path: str, pattern: str) -> bool:
    """Return whether a pattern matches a path; also some that it does not, as * has no slash.

    >>> may_match("a/b.npy", "a/**/*.npy"), may_match("a/b.npy", "a/[c-d].npy")
    (True, False)
    """
    return any(fnmatchcase(path, each) for each in (pattern, pattern.replace("**/", "")))


def _refuse_missing(missing: Iterable[str], folder: str) -> None:
    for path in missing:
        raise CorruptError(
            f"{path} is missing, but the manifest.json of {folder} lists it; restore it, or "
            "export again"
        )


def check_exported(sources: Iterable[Source]) -> None:
    """Raise a CorruptError for a file of an export that is not what its manifest says, or that has
    none yet."""
    around, entries = lru_cache(maxsize=None)(_exports_around), lru_cache(maxsize=None)(_entries)
    real = lru_cache(maxsize=None)(os.path.realpath)
    for source in sources:
        if not source.fingerprint.startswith(PREFIX):
            continue
        for folder, kind in around(real(os.path.dirname(source.path))):
            if kind == UNFINISHED:
                raise CorruptError(
                    f"{source.path} is of {folder}, which is unfinished; finish it with the "
                    "command that makes it"
                )
            if _real(source.path) in entries(folder):
                _check(source, folder, entries(folder))


def _exports_around(folder: str) -> list[tuple[str, str]]:
    """Return which of a folder and the one above it are exports, finished or not, and their kinds;
    exports have no deeper folders."""
    known = [(place, kind_of(place)) for place in (folder, os.path.dirname(folder))]
    return [(place, kind) for place, kind in known if kind in (EXPORTED, UNFINISHED)]


def _check(source: Source, folder: str, entries: Mapping[str, AnyFile]) -> None:
    def told(paths: Sequence[str]) -> list[tuple[int, str]]:
        known = [entries.get(_real(path)) for path in paths]
        return [(e.num_bytes, PREFIX + e.xxh3_128) if e else (0, PREFIX) for e in known]

    (expected,) = fingerprints_of([source.path], [source.kind], [source.options], told)
    if expected != (source.num_bytes, source.fingerprint):
        raise CorruptError(
            f"{source.path} is not what the manifest.json of {folder} says: it, or what belongs to "
            "it, was changed or is damaged; restore it, or export again"
        )


def _real(path: str) -> str:
    """Return the path of a file through no linked folder; the file itself may be a link."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _entries(folder: str) -> dict[str, AnyFile]:
    """Return what the manifest of an export lists, by absolute path."""
    manifest = read_manifest(Path(folder))
    assert isinstance(manifest, ExportedManifest)
    return {os.path.join(folder, entry.path): entry for entry in files_of(manifest)}
