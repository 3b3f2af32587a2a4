"""Find the sources that the user names.

    path, glob        local files, by their endings (endings.py)
    folder            all readable files below it; a dataset that lists its files (listed.py), or
                      that `dataprep encode` made (encoded.py), is read as such
    URL               fsspec (remote.py)
    hf:…  tfds:…      hub.py, tfds.py
    synthetic:…       synthetic/, and other formats with a prefix (known.py)
    -                 stdin.py; records from Python: memory.py

A file that exists is never taken for a pattern or a chain. Sources are sorted by path; each has the
fingerprint of its content.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dataprep.pipeline.errors import CorruptError, InputError, counted
from dataprep.pipeline.guards.opening import near_path, why_unusable
from dataprep.pipeline.guards.secrets import hidden
from dataprep.pipeline.sources import hub, tfds
from dataprep.pipeline.sources.encoded import (
    check_content,
    dataset_around,
    refuse_orphans,
    shards_of,
)
from dataprep.pipeline.sources.endings import is_found_in_folders, sniff_kind
from dataprep.pipeline.sources.exports import (
    EXPORTED,
    check_exported,
    check_matched,
    check_part,
    exported_files,
)
from dataprep.pipeline.sources.fingerprint import fingerprint_files, unread_files
from dataprep.pipeline.sources.known import format_of, format_with_prefix
from dataprep.pipeline.sources.left_out import nothing_readable
from dataprep.pipeline.sources.listed import instead_of_indexes, is_listed, listed_files
from dataprep.pipeline.sources.mds import check_shards, refuse_unlisted
from dataprep.pipeline.sources.patterns import (
    check_folders,
    fixed_folder,
    is_folder_named,
    not_too_deep,
    outside_datasets,
)
from dataprep.pipeline.sources.remote import check_growth, find_urls, fingerprint_url
from dataprep.pipeline.sources.spools import Spool, Spools
from dataprep.pipeline.sources.stdin import STDIN
from dataprep.pipeline.sources.stream import is_url, naming
from dataprep.pipeline.sources.wholes import (
    Fingerprints,
    beside_all,
    each_once,
    fingerprints_of,
    without_parts,
)
from dataprep.pipeline.storage.manifest import kind_of
from dataprep.pipeline.threads.several import in_threads
from dataprep.pipeline.types import DEFAULT_MAX_RATIO, Source

_MAX_THREADS = 8
STDIN_PATHS = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
EMPTY = "an input is an empty string"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPaths:
    """What an input names: the files that are read, and those in its folder that are not."""

    paths: list[str]
    left_out: list[str] = field(default_factory=list)  # below the folder; "out/": a dataset


def find_sources(
    spec: str,
    *,
    separator: str = "",
    max_ratio: int = DEFAULT_MAX_RATIO,
    cache_dir: Path | None = None,
    left_out: list[str] | None = None,
    spools: Spools | None = None,
    hashed: bool = True,
    options: Mapping[str, str] | None = None,
) -> list[Source]:
    """Return the sources that `spec` names; `separator` separates the documents of a `.txt`.

    Names of files in a folder that are not read are added to `left_out`. `spools` keep what is no
    file. If not `hashed`, local files are not read, have no fingerprint, and can only be looked at.
    `options` say how files without a schema are read: see `Format.options`.
    """
    if spools and spec in spools:
        return [_spooled(spec, spools[spec], max_ratio)]
    if spec == STDIN:
        raise InputError("only tokenize reads stdin (-); a file of that name is ./-")
    (spec,) = hidden([spec])
    is_local = os.path.lexists(spec)  # then it is no other name, whatever it looks like
    if spec.startswith(hub.PREFIX) and not is_local:
        name = hub.parse_hub_name(spec)
        if name.streaming:
            return [hub.streamed_source(name)]
        found = FoundPaths(paths=hub.hub_arrow_files(name))
    elif spec.startswith(tfds.PREFIX) and not is_local:
        found = FoundPaths(paths=tfds.tfds_files(spec))
    elif not is_local and (named := format_with_prefix(spec)):
        return named.find(spec)
    elif is_url(local_path(spec)) and not is_local:
        paths, not_read = find_urls(spec)
        found = FoundPaths(paths=paths, left_out=not_read)
    else:
        with not_too_deep(spec):
            found = _find_local(local_path(spec))
    if left_out is not None:
        left_out += found.left_out
    fingerprints = partial(fingerprint_files, cache_dir=cache_dir) if hashed else unread_files
    sources = _describe(found.paths, separator, max_ratio, fingerprints, options or {})
    if hashed:
        check_content(sources)
        check_exported(sources)
        check_shards(sources)
    return sources


def _spooled(name: str, spool: Spool, max_ratio: int) -> Source:
    return Source(
        kind="jsonl",
        path=name,
        num_bytes=spool.num_bytes,
        fingerprint=spool.fingerprint,
        max_ratio=max_ratio,
        spool=spool.path,
    )


def local_path(spec: str) -> str:
    """Return what a URL of a local file or folder names; anything else as it is.

    Only `file://` is percent-decoded: fsspec opens names as they are written.

    >>> local_path("file:///a%20b"), local_path("local:///a%20b"), local_path("s3://b/a")
    ('/a b', '/a%20b', 's3://b/a')
    """
    if os.path.lexists(spec) or "::" in spec:
        return spec
    if spec.startswith("file://"):
        return unquote(urlsplit(spec).path)
    return spec.removeprefix("local://")


def _describe(
    paths: Sequence[str],
    separator: str,
    max_ratio: int,
    fingerprints: Fingerprints,
    options: Mapping[str, str],
) -> list[Source]:
    paths = without_parts(paths)
    if any(map(is_url, paths)):
        in_threads(partial(check_growth, max_ratio=max_ratio), paths, _MAX_THREADS)
        kinds = in_threads(_kind, paths, _MAX_THREADS)
        fingerprints = fingerprint_urls
    else:
        kinds = list(map(_kind, paths))
    paths, kinds = each_once(paths, kinds)
    kinds = [(format_of(kind).kind_for(options), compression) for kind, compression in kinds]
    own = [_options(kind, path, options) for path, (kind, _) in zip(paths, kinds, strict=True)]
    marks = fingerprints_of(paths, [kind for kind, _ in kinds], own, fingerprints)
    return [
        Source(
            kind=kind,
            path=path,
            num_bytes=num_bytes,
            fingerprint=mark,
            compression=compression,
            separator=separator if format_of(kind).has_separator else "",
            max_ratio=max_ratio,
            options=given,
        )
        for path, (kind, compression), given, (num_bytes, mark) in zip(
            paths, kinds, own, marks, strict=True
        )
    ]


def fingerprint_urls(urls: Sequence[str], *, fresh: bool = False) -> list[tuple[int, str]]:
    return in_threads(partial(fingerprint_url, fresh=fresh), urls, _MAX_THREADS)


def _options(kind: str, path: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the format of a file has; an InputError if it has no such value."""
    if not given:
        return {}
    known = format_of(kind).options
    for name, value in given.items():
        if known.get(name) and value not in known[name]:
            raise InputError(
                f"{path} is {kind}, of which {name} may be {', '.join(known[name])}, not {value}"
            )
    return {name: value for name, value in given.items() if name in known}


def _kind(path: str) -> tuple[str, str]:
    """Return (kind, compression)."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"the name of {path!r} is not UTF-8; rename it") from None
    return sniff_kind(path)


def _find_local(spec: str) -> FoundPaths:
    """Return absolute paths, so that a worker may run in any folder."""
    path = os.path.abspath(os.path.expanduser(spec)) if spec else ""
    if path in STDIN_PATHS:
        raise InputError(f"{spec} is stdin, which the input - reads, as JSONL; say - instead")
    if os.path.isfile(path):
        return FoundPaths(paths=instead_of_indexes([path]))
    if os.path.isdir(path):
        if is_listed(path):
            return FoundPaths(paths=listed_files(path))
        return _in_folder(path)
    folder, at, split = path.rpartition("@")
    if at and is_listed(folder):
        return FoundPaths(paths=listed_files(folder, split))
    if glob.has_magic(path) and not os.path.lexists(path):
        return _by_pattern(path, spec)
    if os.path.lexists(path):
        raise InputError(f"{spec} {why_unusable(path)}")
    if at and (prepared := tfds.prepared_below(folder)):
        raise InputError(
            f"{spec} does not exist; {folder} has {counted(len(prepared), 'dataset')} of "
            f"tensorflow_datasets below it: name {prepared[-1]}@{split}"
        )
    raise InputError(f"{spec} does not exist{near_path(spec)}" if spec else EMPTY)


def _by_pattern(pattern: str, spec: str) -> FoundPaths:
    """Return the files that match; a folder that cannot be listed is an error, not left out."""
    found = sorted(glob.glob(pattern, recursive=True))
    check_folders(pattern, spec)
    matched = [name for name in found if not os.path.isdir(name)]
    files, datasets = outside_datasets(matched, pattern, spec, with_codes=True)
    for name in files:
        if not os.path.isfile(name):
            raise InputError(f"{name} (matched by {spec}) {why_unusable(name)}")
    if not files:
        what = "only folders; end it in /*.jsonl, for example" if found else "nothing"
        raise InputError(f"{spec} matches {what}")
    check_matched(files, pattern)
    # A folder that is linked into itself shows the same files at every depth.
    folder_of = lru_cache(maxsize=None)(os.path.realpath)
    places = ((folder_of(os.path.dirname(f)), os.path.basename(f), f) for f in reversed(files))
    once = {(folder, name): file for folder, name, file in places}
    top = fixed_folder(pattern)
    return FoundPaths(
        paths=sorted(instead_of_indexes([*once.values()])),
        left_out=[path.removeprefix(f"{top}/") for path in datasets],
    )


def _in_folder(folder: str) -> FoundPaths:
    if kind_of(folder) == "unfinished":
        raise CorruptError(
            f"{folder} is an unfinished dataset; finish it with the command that makes it"
        )
    check_part(folder)
    left_out: list[str] = []
    files = sorted(_walk(folder, set(), left_out))
    refuse_orphans(files, folder)
    read_with = beside_all(files)
    others = [path.removeprefix(f"{folder}/") for path in left_out if path not in read_with]
    if not files:
        raise InputError(f"no readable file in {folder}{nothing_readable(folder, others)}")
    return FoundPaths(paths=files, left_out=others)


def _listed_in(folder: str) -> list[str]:
    """Return the files of a dataset that lists them, in a folder that is read."""
    try:
        return listed_files(folder)
    except hub.SplitError as error:
        above = os.path.dirname(folder)
        raise InputError(
            f"{error}; as it lies in a folder that is read, name both: {folder}@SPLIT, and by "
            f"patterns what else is there, such as {above}/*.jsonl"
        ) from None


def _walk(folder: str, seen: set[str], left_out: list[str]) -> Iterator[str]:
    """Yield the readable files below `folder`; linked folders are followed once."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    if is_listed(folder):
        yield from _listed_in(folder)
        return
    dataset = dataset_around(folder)
    if dataset:
        yield from shards_of(dataset)
        return
    kind = kind_of(folder)
    if kind not in ("", EXPORTED):  # an output below its own input, which the next run would read
        left_out.append(f"{folder}/")
        return
    if kind == EXPORTED:  # a dataset in another trainer's format, which may come in again
        files = exported_files(folder)
        yield from filter(is_found_in_folders, files)
        left_out += (path for path in files if not is_found_in_folders(path))
        return
    with naming(folder), os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    refuse_unlisted(folder, (entry.name for entry in shown))
    for entry in sorted(shown, key=lambda entry: entry.name):
        path = os.path.join(folder, entry.name)
        # The listing says what an entry is; only a link must be followed to find out.
        is_link = entry.is_symlink()
        if is_folder_named(path) if is_link else entry.is_dir():
            yield from _walk(path, seen, left_out)
        elif is_found_in_folders(path):
            if not (os.path.isfile(path) if is_link else entry.is_file()):
                raise InputError(f"{path} {why_unusable(path)}")
            yield path
        else:
            left_out.append(path)
