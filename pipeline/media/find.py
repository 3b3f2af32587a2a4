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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.media.endings import endings_of, is_packed_tar, is_tar, is_wanted
from dataprep.pipeline.media.listing import Entry, list_files, list_tar, total_bytes, walk
from dataprep.pipeline.media.tables import column_kind, referenced_paths
from dataprep.pipeline.sources import find_sources, format_of, hub, synthetic
from dataprep.pipeline.sources.endings import kind_by_name, table_endings
from dataprep.pipeline.sources.fingerprint import combine, fingerprint_file, hash_files
from dataprep.pipeline.sources.stream import is_url, naming
from dataprep.pipeline.sources.webdataset import WebDataset
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import Modality, Source

FILES, TARRED = "files", "tar"  # kinds of sources that are not tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    source: Source
    entries: tuple[Entry, ...] = ()  # of files and tars
    named: tuple[str, ...] = ()  # files that the records of a table name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What is looked for, and what is known already."""

    kind: Modality
    column: str  # the media column of tables
    cache_dir: Path | None
    named: Mapping[tuple[str, str], tuple[str, ...]]  # by a table's path and own fingerprint


def is_listed(source: Source) -> bool:
    """Return whether it is a folder's files or a tar: its pieces are ranges of `Found.entries`."""
    return source.kind in (FILES, TARRED)


def find_media(
    spec: str,
    kind: Modality,
    column: str,
    cache_dir: Path | None,
    known: Iterable[Found] = (),
) -> list[Found]:
    """Return at least one source that `spec` names; `column` is the media column of tables.

    A table that is `known` and has not changed is not read again for the files that it names.
    """
    named = {(item.source.path, _own_fingerprint(item.source)): item.named for item in known}
    search = _Search(kind=kind, column=column, cache_dir=cache_dir, named=named)
    if ":" in spec and (spec.startswith((hub.PREFIX, synthetic.PREFIX)) or is_url(spec)):
        return _tables(spec, search)
    path = os.path.abspath(os.path.expanduser(spec)) if spec else ""
    if os.path.isdir(path):
        if hub.is_saved(path) or kind_of(path) == "encoded":
            return _tables(path, search)
        names = list(walk(path))
        return _sorted(path, names, names, spec, search)
    if os.path.isfile(path):
        folder, name = os.path.split(path)
        beside = os.listdir(folder) if is_wanted(name, kind) else []
        return _sorted(folder, [name], beside, spec, search)
    if hub.is_saved(path.rpartition("@")[0]):
        return _tables(path, search)
    if glob.has_magic(path):
        folder, names = _match(path, spec)
        parents = {*map(os.path.dirname, names)}
        beside = [name for parent in parents for name in _in(folder, parent)]
        return _sorted(folder, names, beside, spec, search)
    raise InputError(f"{spec} does not exist" if spec else "an input is an empty string")


def _sorted(
    folder: str, names: list[str], beside: list[str], spec: str, search: _Search
) -> list[Found]:
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
    found: list[Found] = []
    if wanted:
        around = [name for name in beside if not is_wanted(name, search.kind)]
        found.append(_files(folder, [*wanted, *around], search))
    found += [_tar(os.path.join(folder, name), search) for name in tars]
    for name in tables:
        found += _tables(os.path.join(folder, name), search)
    if not found:
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


def _files(folder: str, names: list[str], search: _Search) -> Found:
    entries = list_files(folder, names, search.kind)
    all_names = [name for entry in entries for name in entry.names]
    source = Source(
        kind=FILES,
        path=folder,
        num_bytes=total_bytes(entries),
        fingerprint=combine(all_names, hash_files(folder, all_names, search.cache_dir)),
    )
    return Found(source=source, entries=tuple(entries))


def _tar(path: str, search: _Search) -> Found:
    entries = list_tar(path, search.kind)
    num_bytes, fingerprint = fingerprint_file(path, search.cache_dir)
    source = Source(kind=TARRED, path=path, num_bytes=num_bytes, fingerprint=fingerprint)
    return Found(source=source, entries=tuple(entries))


def _tables(spec: str, search: _Search) -> list[Found]:
    found = find_sources(spec, cache_dir=search.cache_dir)
    sources = [source for source in found if source.kind != WebDataset.kind]
    if not sources:
        raise InputError(
            f"{spec} names tars behind a URL, but tars of media can only be read from local files; "
            "copy them"
        )
    return [_with_files(source, search) for source in sources]


def _with_files(source: Source, search: _Search) -> Found:
    """Return the source with its fingerprint extended by the files that its records name."""
    names = search.named.get((source.path, source.fingerprint))
    if names is None:
        is_text = column_kind(source, search.column) == "text"
        names = tuple(sorted(set(referenced_paths(source, search.column)))) if is_text else ()
    if names:
        folder = os.path.dirname(source.path)
        contents = combine(names, hash_files(folder, names, search.cache_dir))
        source = replace(source, fingerprint=f"{source.fingerprint}+{contents}")
    return Found(source=source, named=names)


def _own_fingerprint(source: Source) -> str:
    """Return the fingerprint without the part of the files that a table names."""
    return source.fingerprint.partition("+")[0]


def changed_media(found: Sequence[Found], find_again: Callable[[], Sequence[Found]]) -> str:
    """Return the path of a source that was changed, added or removed since it was found, or ""."""
    try:
        now = [item.source for item in find_again()]
    except InputError as error:  # it is gone, or cannot be read any more
        return f"an input ({error})"
    before = [item.source for item in found]
    differing = [source for source in (*now, *before) if (source in now) != (source in before)]
    return differing[0].path if differing else ""


def places_read(found: Iterable[Found]) -> list[str]:
    """Return the folders of the files, and the paths of the tars and tables, that are read."""
    places: dict[str, None] = {}
    for item in found:
        folder = item.source.path
        if item.source.kind != FILES:
            places[item.source.path] = None
            folder = os.path.dirname(folder)
        entries = [entry.name for entry in item.entries] if item.source.kind == FILES else []
        for name in (*entries, *item.named):
            places[os.path.dirname(os.path.join(folder, name))] = None
    return list(places)


def folders_named(specs: Iterable[str]) -> list[str]:
    """Return the folders that are read whole, also those above a `**`."""
    paths = [os.path.abspath(os.path.expanduser(spec)) for spec in specs if not is_url(spec)]
    deep = [_fixed_folder(path) for path in paths if "**" in path]
    return [path for path in (*paths, *deep) if os.path.isdir(path)]


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
