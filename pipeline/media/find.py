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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.guards.opening import near_path, why_unusable
from dataprep.pipeline.media.endings import (
    endings_of,
    is_packed_tar,
    is_tar,
    is_wanted,
    medium_of,
    stem,
)
from dataprep.pipeline.media.holders import FolderHolder, TarHolder, holder_of
from dataprep.pipeline.media.listing import Entry, list_files, list_tar, names_in, total_bytes, walk
from dataprep.pipeline.media.tables import column_kind, referenced_paths
from dataprep.pipeline.media.values import is_inside
from dataprep.pipeline.sources import Spools, find_sources, format_of, hub
from dataprep.pipeline.sources.encoded import dataset_around, refuse_orphans
from dataprep.pipeline.sources.endings import kind_by_name, table_endings
from dataprep.pipeline.sources.find import EMPTY, local_path
from dataprep.pipeline.sources.fingerprint import ABSENT, combine, fingerprint_file, hash_files
from dataprep.pipeline.sources.known import format_with_prefix
from dataprep.pipeline.sources.patterns import (
    check_folders,
    fixed_folder,
    not_too_deep,
    outside_datasets,
)
from dataprep.pipeline.sources.stream import is_url, naming
from dataprep.pipeline.sources.webdataset import WebDataset
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import DEFAULT_MAX_RATIO, Modality, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMedia:
    source: Source
    entries: tuple[Entry, ...] = ()  # of files and tars
    hashes: tuple[str, ...] = ()  # of files: of each, in the order of `entries` and their names
    named: tuple[str, ...] = ()  # files that the records of a table name
    barred: frozenset[str] = frozenset()  # those of them that may not be read


class NamesBeside:
    """Knows the files of a folder by their stems; each folder is listed once."""

    def __init__(self) -> None:
        self._by_stem: dict[str, dict[str, list[str]]] = {}

    def __call__(self, folder: str, name: str) -> list[str]:
        """Return the files beside a file that have its stem."""
        if folder not in self._by_stem:
            self._by_stem[folder] = {}
            for other in _in(folder, ""):
                self._by_stem[folder].setdefault(stem(other), []).append(other)
        return self._by_stem[folder].get(stem(name), [])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What is looked for."""

    kind: Modality
    column: str  # the media column of tables
    cache_dir: Path | None
    allow_outside: bool  # records of a table may name files outside its folder
    max_ratio: int  # of compressed tables
    left_out: list[str]  # gets the files of a folder that are not read
    spools: Spools  # keep inputs that are no files


def find_media(
    spec: str,
    kind: Modality,
    column: str,
    cache_dir: Path | None,
    names_beside: NamesBeside | None = None,
    *,
    allow_outside: bool = False,
    max_ratio: int = DEFAULT_MAX_RATIO,
    left_out: list[str] | None = None,
    spools: Spools | None = None,
) -> list[FoundMedia]:
    """Return at least one source that `spec` names; `column` is the media column of tables.

    Names of files in a folder that are not read are added to `left_out`.
    """
    search = _Search(
        kind=kind,
        column=column,
        cache_dir=cache_dir,
        allow_outside=allow_outside,
        max_ratio=max_ratio,
        left_out=[] if left_out is None else left_out,
        spools=spools or {},
    )
    if spec in search.spools:
        return _tables(spec, search)
    spec = local_path(spec)
    is_local = os.path.lexists(os.path.expanduser(spec))
    is_name = spec.startswith(hub.PREFIX) or is_url(spec)
    if not is_local and (is_name or format_with_prefix(spec)):
        return _tables(spec, search)
    path = os.path.abspath(os.path.expanduser(spec)) if spec else ""
    if os.path.isdir(path):
        with not_too_deep(spec):
            return _in_folder(path, spec, search)
    if os.path.isfile(path):
        folder, name = os.path.split(path)
        beside = (names_beside or NamesBeside())(folder, name) if is_wanted(name, kind) else []
        return _sorted(folder, [name], beside, spec, search)
    if hub.is_saved(path.rpartition("@")[0]):
        return _tables(path, search)
    if glob.has_magic(path) and not is_local:
        with not_too_deep(spec):
            folder, names = _match(path, spec, search.left_out)
        parents = {*map(os.path.dirname, names)}
        beside = [name for parent in parents for name in _in(folder, parent)]
        return _sorted(folder, names, beside, spec, search)
    if is_local:
        raise InputError(f"{spec} {why_unusable(path)}")
    raise InputError(f"{spec} does not exist{near_path(spec)}" if spec else EMPTY)


def _in_folder(path: str, spec: str, search: _Search) -> list[FoundMedia]:
    if kind_of(path) == "unfinished":
        raise CorruptError(
            f"{spec} is an unfinished dataset; finish it with the command that made it"
        )
    if hub.is_saved(path) or dataset_around(path):
        return _tables(path, search)
    if kind_of(path):
        raise InputError(f"{spec} is a {kind_of(path)} dataset, which holds tokens and no media")
    names = list(walk(path, search.left_out))
    refuse_orphans([os.path.join(path, name) for name in names], spec)
    found = _sorted(path, names, names, spec, search)
    read = {name for item in found for entry in item.entries for name in entry.names}
    read |= {os.path.relpath(item.source.path, path) for item in found}
    search.left_out.extend(name for name in names if name not in read)
    return found


def _sorted(
    folder: str, names: list[str], beside: list[str], spec: str, search: _Search
) -> list[FoundMedia]:
    """Return the sources in the files: pictures first, then tars, or tables."""
    packed = [name for name in names if is_packed_tar(name)]
    if packed:
        raise InputError(
            f"{os.path.join(folder, packed[0])} is a compressed tar, which cannot be read in "
            "parts; decompress it (the media in it are compressed already)"
        )
    wanted = [name for name in names if is_wanted(name, search.kind)]
    tars = sorted(name for name in names if is_tar(name))
    tables = sorted(name for name in names if _is_table(name, beside_media=bool(wanted or tars)))
    if tables and (wanted or tars):
        raise InputError(
            f"{spec} holds both {(wanted or tars)[0]} and the table {tables[0]}; say which to "
            f"read: {os.path.join(folder, '*')} with an ending, or the table with --column"
        )
    found: list[FoundMedia] = []
    if wanted:
        around = [name for name in beside if not is_wanted(name, search.kind)]
        found.append(_files(folder, [*wanted, *around], search))
    found += [_tar(os.path.join(folder, name), search) for name in tars]
    for name in tables:
        found += _tables(os.path.join(folder, name), search)
    if not found:
        other = next((name for name in names if medium_of(name)), "")
        if other:
            raise InputError(
                f"no file to encode in {spec}: this encoder is for {search.kind}, and {other} is a "
                f"{medium_of(other)}; dataprep encode --list tells which encoder is for what"
            )
        raise InputError(
            f"no file to encode in {spec}; known endings: {endings_of(search.kind)} .tar "
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


def _files(folder: str, names: list[str], search: _Search) -> FoundMedia:
    entries = list_files(folder, names, search.kind)
    return media_of(folder, entries, hash_files(folder, names_in(entries), search.cache_dir))


def media_of(folder: str, entries: Sequence[Entry], hashes: Sequence[str]) -> FoundMedia:
    """Return files of a folder as a source; `hashes` are of all names in the entries."""
    source = Source(
        kind=FolderHolder.kind,
        path=folder,
        num_bytes=total_bytes(entries),
        fingerprint=combine(names_in(entries), hashes),
    )
    return FoundMedia(source=source, entries=tuple(entries), hashes=tuple(hashes))


def _tar(path: str, search: _Search) -> FoundMedia:
    # Hashed before it is listed: if it changes in between, the hash at the end is another.
    num_bytes, fingerprint = fingerprint_file(path, search.cache_dir)
    entries = list_tar(path, search.kind)
    source = Source(kind=TarHolder.kind, path=path, num_bytes=num_bytes, fingerprint=fingerprint)
    return FoundMedia(source=source, entries=tuple(entries))


def _tables(spec: str, search: _Search) -> list[FoundMedia]:
    found = find_sources(
        spec,
        max_ratio=search.max_ratio,
        cache_dir=search.cache_dir,
        left_out=search.left_out,
        spools=search.spools,
    )
    sources = [source for source in found if source.kind != WebDataset.kind]
    if not sources:
        raise InputError(
            f"{spec} names tars behind a URL, but tars of media can only be read from local files; "
            "copy them"
        )
    return [_with_files(source, search) for source in sources]


def _with_files(source: Source, search: _Search) -> FoundMedia:
    """Return the source with its fingerprint extended by the files that its records name."""
    is_text = column_kind(source, search.column) == "text"
    names = tuple(sorted(set(referenced_paths(source, search.column)))) if is_text else ()
    if names:
        folder = os.path.dirname(source.path)
        # What may not be read is not hashed either; it is refused when it is decoded.
        barred = frozenset(
            n for n in names if not search.allow_outside and not is_inside(folder, n)
        )
        contents = contents_of(folder, names, search.cache_dir, barred)
        source = replace(source, fingerprint=f"{source.fingerprint}+{contents}")
        return FoundMedia(source=source, named=names, barred=barred)
    return FoundMedia(source=source)


def contents_of(
    folder: str,
    names: Sequence[str],
    cache_dir: Path | None,
    barred: frozenset[str] = frozenset(),
) -> str:
    """Return the fingerprint of the files together; those that are barred count by name only."""
    readable = [name for name in names if name not in barred]
    digests = dict(zip(readable, hash_files(folder, readable, cache_dir), strict=True))
    return combine(names, [digests.get(name, ABSENT) for name in names])


def places_read(found: Iterable[FoundMedia]) -> list[str]:
    """Return the folders of the files, and the paths of the tars and tables, that are read."""
    places: dict[str, None] = {}
    for item in found:
        source, holder = item.source, holder_of(item.source)
        files = holder.files(source, item.entries)
        named = (os.path.join(holder.folder(source), name) for name in item.named)
        places |= dict.fromkeys(p if p == source.path else os.path.dirname(p) for p in files)
        places |= dict.fromkeys(map(os.path.dirname, named))
    return list(places)


def files_read(found: Iterable[FoundMedia]) -> Iterator[str]:
    """Yield the paths of the media, tars and tables that are read, but not of files beside them."""
    for item in found:
        yield from holder_of(item.source).files(item.source, item.entries)


def folders_named(specs: Iterable[str]) -> list[str]:
    """Return the folders that are read whole, also those above a `**`."""
    named = map(local_path, specs)
    local = [spec for spec in named if not is_url(spec) or os.path.lexists(spec)]
    paths = [os.path.abspath(os.path.expanduser(spec)) for spec in local]
    deep = [fixed_folder(path) for path in paths if "**" in path]
    return [path for path in (*paths, *deep) if os.path.isdir(path)]


def _match(pattern: str, spec: str, left_out: list[str]) -> tuple[str, list[str]]:
    """Return the folder above the first wildcard, and the files below it that match.

    Datasets that match are added to `left_out`.
    """
    folder = fixed_folder(pattern)
    check_folders(pattern, spec)
    found = [name for name in glob.glob(pattern, recursive=True) if not os.path.isdir(name)]
    if not found:
        raise InputError(f"{spec} matches no file")
    files, datasets = outside_datasets(sorted(found), pattern, spec, with_codes=False)
    left_out.extend(path.removeprefix(f"{folder}/") for path in datasets)
    # A folder that is linked into itself shows the same files at every depth.
    real = lru_cache(maxsize=None)(os.path.realpath)
    places = ((real(os.path.dirname(f)), os.path.basename(f), f) for f in files[::-1])
    once = {(parent, name): file for parent, name, file in places}
    return folder, sorted(os.path.relpath(name, folder) for name in once.values())


def _in(folder: str, below: str) -> list[str]:
    place = os.path.join(folder, below)
    with naming(place):
        return [os.path.join(below, name) for name in os.listdir(place)]
