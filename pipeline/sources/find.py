"""What the user names, to sources.

    path, glob        local files, by their endings (endings.py)
    folder            all readable files below it, or what `datasets` saved there (hub.py)
    URL               fsspec (remote.py)
    hf:…              hub.py
    synthetic:…       synthetic.py

Sources come in the order of their paths. Each has the fingerprint of its content.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import hub, synthetic
from dataprep.pipeline.sources.endings import ONLY_IF_NAMED, is_found_in_folders, sniff_kind
from dataprep.pipeline.sources.fingerprint import PREFIX, fingerprint_files
from dataprep.pipeline.sources.known import FORMATS
from dataprep.pipeline.sources.remote import find_urls, fingerprint_url
from dataprep.pipeline.sources.stream import is_url, naming
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.types import Source

_MAX_THREADS = 8


def find_sources(spec: str, *, separator: str = "", cache_dir: Path | None = None) -> list[Source]:
    """The sources that `spec` names; `separator` parts the documents of a `.txt`."""
    if spec.startswith(synthetic.PREFIX):
        return [synthetic.find_synthetic(spec)]
    if spec.startswith(hub.PREFIX):
        name = hub.parse_hub_name(spec)
        if name.streaming:
            return [hub.streamed_source(name)]
        paths = hub.hub_arrow_files(name)
    elif spec.startswith("file://"):
        paths = _find_local(unquote(urlsplit(spec).path))
    elif is_url(spec):
        paths = find_urls(spec)
    else:
        paths = _find_local(spec)
    return _describe(paths, separator, cache_dir)


def _describe(paths: Sequence[str], separator: str, cache_dir: Path | None) -> list[Source]:
    if any(map(is_url, paths)):
        with ThreadPoolExecutor(_MAX_THREADS) as pool:
            kinds = list(pool.map(_kind, paths))
            fingerprints = list(pool.map(fingerprint_url, paths))
    else:
        kinds = list(map(_kind, paths))
        fingerprints = fingerprint_files(paths, cache_dir)
    return [
        Source(
            kind=kind,
            path=path,
            num_bytes=num_bytes,
            fingerprint=fingerprint,
            compression=compression,
            separator=separator if FORMATS[kind].has_separator else "",
        )
        for path, (kind, compression), (num_bytes, fingerprint) in zip(
            paths, kinds, fingerprints, strict=True
        )
    ]


def _kind(path: str) -> tuple[str, str]:
    """(kind, compression)"""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"the name of {path!r} is not UTF-8; rename it") from None
    return sniff_kind(path)


def _find_local(spec: str) -> list[str]:
    """Absolute paths, so that a worker may run anywhere."""
    path = os.path.abspath(os.path.expanduser(spec)) if spec else ""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        if hub.is_saved(path):
            return hub.saved_arrow_files(path)
        return _in_folder(path)
    folder, at, split = path.rpartition("@")
    if at and hub.is_saved(folder):
        return hub.saved_arrow_files(folder, split)
    if glob.has_magic(path):
        return _by_pattern(path, spec)
    if os.path.exists(path):
        raise InputError(f"{spec} is neither a file nor a folder")
    if os.path.islink(path):
        raise InputError(f"{spec} is a link to nothing ({os.readlink(path)})")
    raise InputError(f"{spec} does not exist" if spec else "an input is an empty string")


def _by_pattern(pattern: str, spec: str) -> list[str]:
    """Files that match; what the search could not look into is an error, not a shorter corpus."""
    found = sorted(glob.glob(pattern, recursive=True))
    _check_folders(pattern, spec)
    files = [name for name in found if not os.path.isdir(name)]
    for name in files:
        if not os.path.isfile(name):
            raise InputError(f"{name} (by {spec}) is no file that can be read: a broken link?")
    if not files:
        what = "folders only; end it in /*.jsonl or the like" if found else "nothing"
        raise InputError(f"{spec} matches {what}")
    # A folder linked into itself shows the same files at every depth.
    once = {os.path.realpath(name): name for name in reversed(files)}
    return sorted(once.values())


def _check_folders(pattern: str, spec: str) -> None:
    """Every folder that the pattern goes through can be listed."""
    fixed = (
        pattern[: next(i for i, c in enumerate(pattern) if c in "*?[")].rpartition("/")[0] or "/"
    )

    def refuse(error: OSError) -> None:
        raise InputError(f"cannot look into {error.filename} (by {spec}): {error.strerror}")

    deep = "**" in pattern
    for _, folders, _ in os.walk(fixed, onerror=refuse):
        if not deep:
            folders.clear()


def _in_folder(folder: str) -> list[str]:
    files = sorted(_walk(folder, set()))
    if not files and kind_of(folder) == "unfinished":
        raise InputError(f"{folder} is unfinished: run the command that was making it again")
    if not files:
        raise InputError(
            f"no readable file in {folder}; name the files: {folder}/*.jsonl "
            f"({' and '.join(ONLY_IF_NAMED)} files are only taken if named so)"
        )
    return files


def changed_sources(sources: Sequence[Source], cache_dir: Path | None) -> list[Source]:
    """Local files that are no longer what their fingerprints say."""
    local = [s for s in sources if s.fingerprint.startswith(PREFIX) and not is_url(s.path)]
    now = fingerprint_files([s.path for s in local], cache_dir)
    return [s for s, (_, found) in zip(local, now, strict=True) if s.fingerprint != found]


def _walk(folder: str, seen: set[str]) -> Iterator[str]:
    """Readable files below `folder`; linked folders are followed, once."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    if hub.is_saved(folder):
        yield from hub.saved_arrow_files(folder)
        return
    kind = kind_of(folder)
    if kind == "encoded":
        yield from _walk(os.path.join(folder, "shards"), seen)
        return
    if kind:  # an output below its own input is not to be read the next time
        return
    with naming(folder), os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in sorted(shown, key=lambda entry: entry.name):
        path = os.path.join(folder, entry.name)
        # What is known from the listing needs no look at the file; a link may lead anywhere.
        is_link = entry.is_symlink()
        if os.path.isdir(path) if is_link else entry.is_dir():
            yield from _walk(path, seen)
        elif is_found_in_folders(path):
            if not (os.path.isfile(path) if is_link else entry.is_file()):
                raise InputError(f"{path} is no file that can be read: a pipe, or a broken link?")
            yield path
