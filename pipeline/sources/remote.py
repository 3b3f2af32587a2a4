"""Files behind URLs: any protocol of fsspec, also chained, e.g. `zip://*.jsonl::data.zip`.

The fingerprint of a URL is made from its address without credentials and from what its store
reports (size, ETag, time), not from the content.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from itertools import compress
from typing import Any

import xxhash

from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.guards.secrets import address_of, hidden_like, identity_of, redacted
from dataprep.pipeline.sources.encoded import SHARDS
from dataprep.pipeline.sources.endings import is_found_in_folders
from dataprep.pipeline.sources.exports import EXPORTED, UNFINISHED, may_match, told_files
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.sources.hub import SAVED_MARKS
from dataprep.pipeline.sources.stream import filesystem_of, naming
from dataprep.pipeline.storage.kinds import AnyFile, files_of
from dataprep.pipeline.storage.manifest import MANIFEST, MARK, WORK, kind_told, manifest_in
from dataprep.pipeline.threads.several import in_threads

URL_PREFIX = "ukey:"
# What stores report that changes when a file is only read.
_VOLATILE = {"time", "atime", "accessTime", "last_accessed", "LastAccessed"}
# Names, which may hold credentials, or differ with the way that the file was named.
_NAMES = {"name", "filename", "orig_filename", "path", "Key", "url", "href"}
_MARKS = (MANIFEST,), (WORK, MARK)  # by which a dataset of ours is known, and an unfinished one
_MAX_THREADS = 8
_ARCHIVES = ("zip", "jar", "tar", "libarchive")


def find_urls(spec: str) -> tuple[list[str], list[str]]:
    """Return the files, sorted, that a URL names: one file, a pattern or a folder.

    Also what is left out of a folder; names of datasets end in a slash.
    """
    left_out: list[str] = []
    with naming(spec):
        filesystem, path = filesystem_of(spec)
        filesystem.invalidate_cache()
        if any(wildcard in path for wildcard in "*?[") and not filesystem.exists(path):
            infos = filesystem.glob(path, detail=True)
            found = [str(name) for name in infos if not filesystem.isdir(name)]
            _check_matched(filesystem, {name: infos[name].get("size") for name in found}, path)
        elif filesystem.info(path)["type"] == "directory":
            found, left_out = _in_folder(filesystem, path, spec)
        else:
            return [spec], []
    if not found:
        only = f", only {', '.join(left_out[:3])}; name the files" if left_out else ""
        raise InputError(f"no file matches {spec}{only}")
    address = address_of(spec)
    return sorted(hidden_like(spec, (_url(address, path, name) for name in found))), left_out


def check_growth(url: str, max_ratio: int) -> None:
    """Raise an InputError if a file in an archive is too much larger than what is stored of it.

    What it has at most is known before it is read: its size stands in the archive, and readers go
    by that. An archive in an archive is checked too.
    """
    links = address_of(url).split("::")
    for i, link in enumerate(links[:-1]):
        if link.partition("://")[0] not in _ARCHIVES:
            continue
        with naming(url):
            filesystem, path = filesystem_of("::".join(links[i:]))
            info = filesystem.info(path)
            stored = info.get("compress_size")  # in a zip
            if stored is None:
                archive, path = filesystem_of("::".join(links[i + 1 :]))
                stored = archive.info(path)["size"]
        if info.get("size") is not None and stored is not None:
            Growth(place=url, stored=stored, max_ratio=max_ratio).check(info["size"])


def fingerprint_url(url: str, *, fresh: bool = False) -> tuple[int, str]:
    """Return (size or -1, `ukey:` + hash of what the store reports); `fresh`: asked again."""
    with naming(url):
        filesystem, path = filesystem_of(url)
        if fresh:
            filesystem.invalidate_cache()
        info = filesystem.info(path)
    size = info.get("size")
    known = [
        (key, redacted(value) if isinstance(value := info[key], str) else str(value))
        for key in sorted(info)
        if key not in _VOLATILE | _NAMES and not _is_name(info[key], path)
    ]
    return (
        -1 if size is None else int(size),
        f"{URL_PREFIX}{xxhash.xxh3_128_hexdigest(repr([identity_of(url), known]).encode())}",
    )


def _is_name(value: object, path: str) -> bool:
    """Return whether a store reports the file's own path, or a URL of it.

    >>> _is_name("s3://b/1", "b/1"), _is_name("/b/1", "/b/1"), _is_name("0d5f1", "1")
    (True, True, False)
    """
    return isinstance(value, str) and f"/{value}".endswith(f"/{path.lstrip('/')}")


def _in_folder(filesystem: Any, folder: str, spec: str) -> tuple[list[str], list[str]]:
    """Return the files to read, and the names below the folder that are left out."""
    top = f"{folder.rstrip('/')}/"
    sizes = {str(k): v.get("size") for k, v in filesystem.find(folder, detail=True).items()}
    names = {name.removeprefix(top): name for name in sizes}
    shown = sorted(name for name in names if not re.search(r"(^|/)\.", name))
    if any(os.path.basename(name) in SAVED_MARKS for name in shown):
        raise InputError(
            f"{spec} was saved by `datasets`, and such folders can only be read locally;"
            " copy it, or name its files: .../*.arrow"
        )
    datasets = _datasets(filesystem, names)
    if datasets.get("") == UNFINISHED:
        raise _unfinished(folder)
    for above in _above(folder.rstrip("/")):
        part = {path: e for path, e in _listed(filesystem, above).items() if path.startswith(top)}
        if part:
            told_files(part, sizes, above)
    exports = [names[f"{name}{MANIFEST}"] for name, kind in datasets.items() if kind == EXPORTED]
    data = {path for each in exports for path in _exported(filesystem, each, sizes)}
    kept, left_out = [], []
    for name in shown:
        dataset = next((d for d in datasets if name.startswith(d)), None)
        is_code = dataset == "" and datasets[""] == "encoded" and name.startswith(f"{SHARDS}/")
        is_data = names[name] in data
        if dataset is not None and not is_code and not is_data:
            if datasets[dataset] != EXPORTED:  # else it is a manifest, an index or a card
                left_out.append(dataset)
        elif is_found_in_folders(name):
            kept.append(names[name])
        else:
            left_out.append(name)
    return kept, [name for name in dict.fromkeys(left_out) if name]


def _exported(filesystem: Any, manifest: str, sizes: Mapping[str, int | None]) -> list[str]:
    """Return the files of an export; a CorruptError unless they are there, in their sizes."""
    top = manifest.removesuffix(MANIFEST)
    present = {path: size for path, size in sizes.items() if path.startswith(top)}
    folder = os.path.dirname(manifest)
    return told_files(_listed(filesystem, folder), present, folder)


def _check_matched(filesystem: Any, sizes: Mapping[str, int | None], pattern: str) -> None:
    """Raise a CorruptError if the exports in which a pattern matches these files lack some that it
    would match, or have them in another size, or are unfinished."""
    folders = {os.path.dirname(path) for path in sizes}
    around = sorted(folders.union(*map(_above, folders)))
    for folder in compress(around, in_threads(partial(_is_ours, filesystem), around, _MAX_THREADS)):
        entries = _listed(filesystem, folder)
        listed = {path: entry for path, entry in entries.items() if may_match(path, pattern)}
        there = (path for path in listed if path in sizes or _is_file(filesystem, path))
        told_files(listed, {path: sizes.get(path) for path in there}, folder)


def _above(folder: str) -> list[str]:
    """Return the folder above this one, if there is one: some stores have credentials in their
    paths, in which a slash is no end of a folder.

    >>> _above("bucket/old/shards"), _above("shards")
    (['bucket/old'], [''])
    """
    above = os.path.dirname(folder)
    return [above] if redacted(f"//{folder}").startswith(redacted(f"//{above}")) else []


def _is_ours(filesystem: Any, folder: str) -> bool:
    return any(_is_file(filesystem, os.path.join(folder, *name)) for name in _MARKS)


def _is_file(filesystem: Any, path: str) -> bool:
    """Return whether a file is there; what may not be looked at is nothing that concerns us."""
    try:
        return bool(filesystem.isfile(path))
    except OSError:
        return False


def _listed(filesystem: Any, folder: str) -> dict[str, AnyFile]:
    """Return what the manifest of an export lists, by path; nothing if the folder is none."""
    manifest, mark = (os.path.join(folder, *name) for name in _MARKS)
    if not _is_file(filesystem, manifest):
        if _is_file(filesystem, mark):
            raise _unfinished(folder)
        return {}
    if _kind_told(filesystem, manifest) != EXPORTED:
        return {}
    entries = files_of(manifest_in(manifest, filesystem.cat_file(manifest)))
    return {os.path.join(folder, entry.path): entry for entry in entries}


def _unfinished(folder: str) -> CorruptError:
    return CorruptError(
        f"{folder} is an unfinished dataset; finish it with the command that makes it"
    )


def _kind_told(filesystem: Any, path: str) -> str:
    with filesystem.open(path, "rb") as file:
        return kind_told(file.read(200))


def _datasets(filesystem: Any, names: Mapping[str, str]) -> dict[str, str]:
    """Return the kind of each dataset of ours, by its folder: {"out/": "tokenized"}."""
    found: dict[str, str] = {}
    for name, path in names.items():
        if os.path.basename(name) == MANIFEST:
            kind = _kind_told(filesystem, path)
            if kind:
                found[name.removesuffix(MANIFEST)] = kind
        elif f"/{name}".endswith(f"/{WORK}/{MARK}"):
            found.setdefault(name.removesuffix(f"{WORK}/{MARK}"), UNFINISHED)
    return found


def _url(spec: str, stripped: str, path: str) -> str:
    """Return `spec`, whose path in its filesystem is `stripped`, with another path.

    >>> _url("zip://*.jsonl::s3://b/x.zip", "*.jsonl", "a.jsonl")
    'zip://a.jsonl::s3://b/x.zip'
    >>> _url("simplecache::s3://b/*.jsonl", "b/*.jsonl", "b/a.jsonl")
    'simplecache::s3://b/a.jsonl'
    >>> _url("ftp://me:pw@host/d/*.jsonl", "/d/*.jsonl", "/d/a.jsonl")
    'ftp://me:pw@host/d/a.jsonl'
    """
    if "://" in path and "::" not in spec:
        return path
    links = spec.split("::")
    place = next((i for i, link in enumerate(links) if "://" in link), len(links) - 1)
    protocol, mark, _ = links[place].partition("://")
    if mark and stripped and links[place].endswith(stripped):  # a host may stand before the path
        links[place] = links[place].removesuffix(stripped) + path
    else:
        links[place] = path if "://" in path or not mark else f"{protocol}://{path}"
    return "::".join(links)
