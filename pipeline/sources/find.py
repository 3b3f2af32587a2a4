"""Find the sources that the user names.

    path, glob        local files, by their endings (endings.py)
    folder            all readable files below it, or a dataset saved by `datasets` (hub.py)
    URL               fsspec (remote.py)
    hf:…              hub.py
    synthetic:…       synthetic.py

Sources are sorted by path. Each has the fingerprint of its content.
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
    """Return the sources that `spec` names; `separator` separates the documents of a `.txt`."""
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
    """Return (kind, compression)."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"the name of {path!r} is not UTF-8; rename it") from None
    return sniff_kind(path)


def _find_local(spec: str) -> list[str]:
    """Return absolute paths, so that a worker may run in any folder."""
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
        raise InputError(f"{spec} is a broken link (to {os.readlink(path)})")
    raise InputError(f"{spec} does not exist" if spec else "an input is an empty string")


def _by_pattern(pattern: str, spec: str) -> list[str]:
    """Return the files that match; a folder that cannot be listed is an error, not left out."""
    found = sorted(glob.glob(pattern, recursive=True))
    _check_folders(pattern, spec)
    files = [name for name in found if not os.path.isdir(name)]
    for name in files:
        if not os.path.isfile(name):
            raise InputError(
                f"{name} (matched by {spec}) is not a readable file; is it a broken link?"
            )
    if not files:
        what = "only folders; end it in /*.jsonl, for example" if found else "nothing"
        raise InputError(f"{spec} matches {what}")
    # A folder that is linked into itself shows the same files at every depth.
    once = {os.path.realpath(name): name for name in reversed(files)}
    return sorted(once.values())


def _check_folders(pattern: str, spec: str) -> None:
    """Raise an InputError if a folder that the pattern goes through cannot be listed."""
    fixed = (
        pattern[: next(i for i, c in enumerate(pattern) if c in "*?[")].rpartition("/")[0] or "/"
    )

    def refuse(error: OSError) -> None:
        raise InputError(f"cannot list {error.filename} (for {spec}): {error.strerror}")

    deep = "**" in pattern
    for _, folders, _ in os.walk(fixed, onerror=refuse):
        if not deep:
            folders.clear()


def _in_folder(folder: str) -> list[str]:
    files = sorted(_walk(folder, set()))
    if not files and kind_of(folder) == "unfinished":
        raise InputError(
            f"{folder} is an unfinished dataset; finish it with the command that makes it"
        )
    if not files:
        raise InputError(
            f"no readable file in {folder}; name the files: {folder}/*.jsonl "
            f"({' and '.join(ONLY_IF_NAMED)} files are read only if named like this)"
        )
    return files


def changed_sources(sources: Sequence[Source], cache_dir: Path | None) -> list[Source]:
    """Return the local files whose content no longer has its fingerprint."""
    local = [s for s in sources if s.fingerprint.startswith(PREFIX) and not is_url(s.path)]
    now = fingerprint_files([s.path for s in local], cache_dir)
    return [s for s, (_, found) in zip(local, now, strict=True) if s.fingerprint != found]


def _walk(folder: str, seen: set[str]) -> Iterator[str]:
    """Yield the readable files below `folder`; linked folders are followed once."""
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
    if kind:  # an output that lies below its own input must not be read by the next run
        return
    with naming(folder), os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in sorted(shown, key=lambda entry: entry.name):
        path = os.path.join(folder, entry.name)
        # The listing says what an entry is; only a link must be followed to find out.
        is_link = entry.is_symlink()
        if os.path.isdir(path) if is_link else entry.is_dir():
            yield from _walk(path, seen)
        elif is_found_in_folders(path):
            if not (os.path.isfile(path) if is_link else entry.is_file()):
                raise InputError(f"{path} is not a readable file; is it a pipe or a broken link?")
            yield path
