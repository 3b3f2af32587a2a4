"""Find the sources of media that the user names.

    folder, glob          all pictures (videos, sounds) are one source, and so is each tar
    a.jpg, a.mp4, a.wav   one source of one file
    a.tar                 one source
    tables                .jsonl .csv .parquet …, hf:…, URLs of these: as `sources` finds them

A folder with both pictures and tables is refused: only the user knows which of them to read.
Files that the records of a table name by path are part of its fingerprint.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media.endings import endings_of, is_packed_tar, is_tar, is_wanted
from dataprep.pipeline.media.listing import Entry, list_files, list_tar, total_bytes, walk
from dataprep.pipeline.media.tables import column_kind, referenced_paths
from dataprep.pipeline.sources import find_sources, format_of, hub, synthetic
from dataprep.pipeline.sources.endings import kind_by_name, table_endings
from dataprep.pipeline.sources.fingerprint import PREFIX, combine, fingerprint_file, hash_files
from dataprep.pipeline.sources.stream import is_url, naming
from dataprep.pipeline.sources.webdataset import WebDataset
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import Modality, Source

Names = tuple[list[str], list[str]]  # files that the user means, files that may be beside them

FILES, TARRED = "files", "tar"  # kinds of sources that are not tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    source: Source
    entries: tuple[Entry, ...] = ()  # of files and tars
    named: tuple[str, ...] = ()  # files that the records of a table name
    list_again: Callable[[], list[Entry]] = list  # returns the entries of files as they are now


def is_listed(source: Source) -> bool:
    """Return whether it is a folder's files or a tar: its pieces are ranges of `Found.entries`."""
    return source.kind in (FILES, TARRED)


def find_media(spec: str, kind: Modality, column: str, cache_dir: Path | None) -> list[Found]:
    """Return at least one source that `spec` names; `column` is the media column of tables."""
    if ":" in spec and (spec.startswith((hub.PREFIX, synthetic.PREFIX)) or is_url(spec)):
        return _tables(spec, column, cache_dir)
    path = os.path.abspath(os.path.expanduser(spec)) if spec else ""
    if os.path.isdir(path):
        if hub.is_saved(path) or kind_of(path) == "encoded":
            return _tables(path, column, cache_dir)
        return _sorted(path, lambda: _all(path), spec, kind, column, cache_dir)
    if os.path.isfile(path):
        folder, name = os.path.split(path)
        return _sorted(folder, lambda: _alone(folder, name), spec, kind, column, cache_dir)
    if hub.is_saved(path.rpartition("@")[0]):
        return _tables(path, column, cache_dir)
    if glob.has_magic(path):
        folder = _fixed_folder(path)
        return _sorted(folder, lambda: _matching(path, spec), spec, kind, column, cache_dir)
    raise InputError(f"{spec} does not exist" if spec else "an input is an empty string")


def _all(folder: str) -> Names:
    names = list(walk(folder))
    return names, names


def _alone(folder: str, name: str) -> Names:
    return [name], os.listdir(folder) if os.path.isdir(folder) else []


def _matching(pattern: str, spec: str) -> Names:
    folder, names = _match(pattern, spec)
    parents = {*map(os.path.dirname, names)}
    return names, [name for parent in parents for name in _in(folder, parent)]


def _sorted(
    folder: str,
    list_names: Callable[[], Names],
    spec: str,
    kind: Modality,
    column: str,
    cache_dir: Path | None,
) -> list[Found]:
    """Return the sources in the files: pictures first, then tars, or tables."""
    names, _ = list_names()
    packed = [name for name in names if is_packed_tar(name)]
    if packed:
        raise InputError(
            f"{os.path.join(folder, packed[0])} is a compressed tar, which cannot be read in "
            "parts; decompress it (the media in it are compressed already)"
        )
    wanted = [name for name in names if is_wanted(name, kind)]
    tars = sorted(name for name in names if is_tar(name))
    tables = sorted(name for name in names if _is_table(name, beside_media=bool(wanted or tars)))
    if tables and (wanted or tars):
        raise InputError(
            f"{spec} holds both {(wanted or tars)[0]} and the table {tables[0]}; say which to "
            f"read: {os.path.join(folder, '*')} with an ending, or the table with --column"
        )
    found: list[Found] = []
    if wanted:
        found.append(_files(folder, list_names, kind, cache_dir))
    found += [_tar(os.path.join(folder, name), kind, cache_dir) for name in tars]
    for name in tables:
        found += _tables(os.path.join(folder, name), column, cache_dir)
    if not found:
        raise InputError(
            f"no file to encode in {spec}; known endings: {endings_of(kind)} .tar "
            f"{' '.join(table_endings())}"
        )
    return found


def _is_table(name: str, *, beside_media: bool) -> bool:
    """Return whether it is a table to encode; a `.json` or `.csv` beside media describes them."""
    found = kind_by_name(name)
    if found is None:
        return False
    known = format_of(found[0])
    return known.holds_media and not (beside_media and known.tells_of_media)


def _files(
    folder: str, list_names: Callable[[], Names], kind: Modality, cache_dir: Path | None
) -> Found:
    def list_entries() -> list[Entry]:
        names, beside = list_names()
        wanted = [name for name in names if is_wanted(name, kind)]
        around = [name for name in beside if not is_wanted(name, kind)]
        return list_files(folder, [*wanted, *around], kind)

    entries = list_entries()
    all_names = [name for entry in entries for name in entry.names]
    source = Source(
        kind=FILES,
        path=folder,
        num_bytes=total_bytes(entries),
        fingerprint=combine(all_names, hash_files(folder, all_names, cache_dir)),
    )
    return Found(source=source, entries=tuple(entries), list_again=list_entries)


def _tar(path: str, kind: Modality, cache_dir: Path | None) -> Found:
    entries = list_tar(path, kind)
    num_bytes, fingerprint = fingerprint_file(path, cache_dir)
    source = Source(kind=TARRED, path=path, num_bytes=num_bytes, fingerprint=fingerprint)
    return Found(source=source, entries=tuple(entries))


def _tables(spec: str, column: str, cache_dir: Path | None) -> list[Found]:
    found = find_sources(spec, cache_dir=cache_dir)
    sources = [source for source in found if source.kind != WebDataset.kind]
    if not sources:
        raise InputError(
            f"{spec} names tars behind a URL, but tars of media can only be read from local files; "
            "copy them"
        )
    return [_with_files(source, column, cache_dir) for source in sources]


def _with_files(source: Source, column: str, cache_dir: Path | None) -> Found:
    """Return the source with its fingerprint extended by the files that its records name."""
    names: list[str] = []
    if column_kind(source, column) == "text":
        names = sorted(set(referenced_paths(source, column)))
    if names:
        contents = combine(names, hash_files(os.path.dirname(source.path), names, cache_dir))
        source = replace(source, fingerprint=f"{source.fingerprint}+{contents}")
    return Found(source=source, named=tuple(names))


def changed_media(found: Iterable[Found], cache_dir: Path | None) -> str:
    """Return the path of a source whose content no longer has its fingerprint, or ""."""
    for item in found:
        if item.source.fingerprint != _fingerprint_now(item, cache_dir):
            return item.source.path
    return ""


def _fingerprint_now(item: Found, cache_dir: Path | None) -> str:
    source = item.source
    if source.kind == FILES:
        names = [name for entry in item.list_again() for name in entry.names]
        return combine(names, hash_files(source.path, names, cache_dir))
    own, plus, contents = source.fingerprint.partition("+")
    if own.startswith(PREFIX) and not is_url(source.path):
        own = fingerprint_file(source.path, cache_dir)[1]
    if item.named:
        folder = os.path.dirname(source.path)
        contents = combine(item.named, hash_files(folder, item.named, cache_dir))
    return f"{own}{plus}{contents}"


def places_read(found: Iterable[Found]) -> list[str]:
    """Return the folders of the files, and the paths of the tars and tables, that are read."""
    places: dict[str, None] = {}
    for item in found:
        if item.source.kind != FILES:
            places[item.source.path] = None
        for entry in item.entries if item.source.kind == FILES else ():
            places[os.path.dirname(os.path.join(item.source.path, entry.name))] = None
    return list(places)


def _match(pattern: str, spec: str) -> tuple[str, list[str]]:
    """Return the folder above the first wildcard, and the files below it that match.

    A folder that cannot be listed is an error; `glob` would silently leave it out.
    """
    folder = _fixed_folder(pattern)
    list(walk(folder) if "**" in pattern else _in(folder, ""))  # raises if it cannot be listed
    found = [name for name in glob.glob(pattern, recursive=True) if not os.path.isdir(name)]
    if not found:
        raise InputError(f"{spec} matches no file")
    # A folder that is linked into itself shows the same files at every depth.
    once = {os.path.realpath(name): name for name in sorted(found, reverse=True)}
    return folder, sorted(os.path.relpath(name, folder) for name in once.values())


def _in(folder: str, below: str) -> list[str]:
    place = os.path.join(folder, below)
    with naming(place):
        return [os.path.join(below, name) for name in os.listdir(place)]


def _fixed_folder(pattern: str) -> str:
    """Return the folder above the first wildcard.

    >>> _fixed_folder("/data/cats/*/a?.jpg")
    '/data/cats'
    """
    parts: Iterator[str] = iter(pattern.split(os.sep))
    fixed = []
    for part in parts:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return os.sep.join(fixed) or os.sep
