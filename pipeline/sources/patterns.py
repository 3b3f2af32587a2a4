"""What a pattern matches is what a folder has: no dataset, and no folder skipped in silence.

    data/*/*/*.parquet     data/2024/01/a.parquet          read
                           data/out/shards/a.parquet       data/out has a manifest: left out

Else an output below its own input would be read by the next run. What lies in a dataset above the
first wildcard was named by the user and is read.
"""

from __future__ import annotations

import glob
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.opening import is_folder, why_unusable
from dataprep.pipeline.sources.encoded import dataset_around
from dataprep.pipeline.storage.manifest import kind_of

_NONE: frozenset[str] = frozenset()
_LOST_AND_FOUND = "lost+found"


def fixed_folder(pattern: str) -> str:
    """Return the folder above the first wildcard.

    >>> fixed_folder("/data/cats/*/a?.jpg")
    '/data/cats'
    """
    fixed: list[str] = []
    for part in pattern.split(os.sep):
        if glob.has_magic(part):
            break
        fixed.append(part)
    return os.sep.join(fixed) or os.sep


def outside_datasets(
    paths: Iterable[str], pattern: str, spec: str, *, with_codes: bool
) -> tuple[list[str], list[str]]:
    """Return the matched files to read, and the datasets that hold the others.

    Names of datasets end in a slash. Shards of codes are read `with_codes`. An InputError says if
    all files are in datasets.
    """
    top = fixed_folder(pattern)

    @cache
    def dataset_of(folder: str) -> str:
        if folder == top or folder == os.path.dirname(folder):
            return ""
        return folder if kind_of(folder) else dataset_of(os.path.dirname(folder))

    @cache
    def left_out_with(folder: str) -> str:
        are_codes = with_codes and dataset_around(folder) not in ("", folder)
        return "" if are_codes else dataset_of(folder)

    files: list[str] = []
    datasets: dict[str, None] = {}
    for path in paths:
        dataset = left_out_with(os.path.dirname(path))
        if dataset:
            datasets[dataset] = None
        else:
            files.append(path)
    if datasets and not files:
        raise InputError(
            f"{spec} matches only files of datasets, as {next(iter(datasets))}, which patterns "
            "leave out; name the folder of the dataset"
        )
    return files, [f"{dataset}/" for dataset in datasets]


def check_folders(pattern: str, spec: str) -> None:
    """Raise an InputError if a folder that the pattern goes through cannot be listed or entered.

    `glob` would silently leave out what is in it.
    """
    parts = pattern.split(os.sep)
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    fixed = fixed_folder(pattern)
    _list(fixed, spec, is_named=True, deep=parts[first] == "**")
    for i in range(first + 1, len(parts)):
        if "**" in parts[first:i] and not any(part.startswith(".") for part in parts[first:-1]):
            return  # all that is below has been looked at, but for hidden folders
        above = os.sep.join(parts[:i]) or os.sep
        for folder in glob.glob(above, recursive=True):
            if is_folder_named(folder):
                _list(folder, spec, deep=parts[i] == "**")


def _list(
    folder: str,
    spec: str,
    *,
    is_named: bool = False,
    deep: bool = False,
    above: frozenset[str] = _NONE,
) -> None:
    try:
        os.stat(os.path.join(folder, os.curdir))  # fails if the folder may not be entered
        with os.scandir(folder) as entries:
            # To the end: a disk may fail in the middle.
            found = deque(entries, maxlen=None if deep else 0)
    except OSError as error:
        if not is_named and _is_of_the_system(folder, error):
            return
        raise InputError(
            f"cannot list {folder} (for {spec}): {error.strerror}; make it readable, or name the "
            "folders that you mean"
        ) from error
    real = os.path.realpath(folder) if deep else ""
    if real not in above:
        for entry in found:
            if entry.name[0] != "." and is_folder_named(entry.path, entry):
                _list(entry.path, spec, deep=True, above=above | {real})


def _is_of_the_system(folder: str, error: OSError) -> bool:
    """Return whether it is the closed folder at the root of a disk that holds nobody's data."""
    is_closed = isinstance(error, PermissionError)
    top, name = os.path.split(folder)
    return is_closed and name == _LOST_AND_FOUND and os.path.ismount(top)


def is_folder_named(path: str, entry: os.DirEntry[str] | None = None) -> bool:
    """Return whether it is a folder; an InputError, which names it, if that cannot be known."""
    try:
        if entry is not None and entry.is_file(follow_symlinks=False):  # mostly known already
            return False
        return is_folder(path)
    except OSError as error:
        raise InputError(f"{path} {why_unusable(path, error)}") from error


@contextmanager
def not_too_deep(spec: str) -> Iterator[None]:
    """Turn the error of folders in folders, a thousand deep, into one that names them."""
    try:
        yield
    except RecursionError:
        raise InputError(f"folders of {spec} are nested too deep; name those you mean") from None
