"""What a pattern matches is what a folder has: no dataset, and no folder skipped in silence.

    data/*/*/*.parquet     data/2024/01/a.parquet          read
                           data/out/shards/a.parquet       data/out has a manifest: left out

Else an output below its own input would be read by the next run. What lies in a dataset above the
first wildcard was named by the user and is read.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from functools import cache

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.encoded import dataset_around
from dataprep.pipeline.storage.manifest import kind_of

_NONE: frozenset[str] = frozenset()
_LOST_AND_FOUND = "lost+found"  # of the system, at the root of a disk


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
    _list(fixed_folder(pattern), spec)
    for i in range(first, len(parts)):
        above = os.sep.join(parts[:i]) or os.sep
        folders = glob.glob(above, recursive=True) if i > first else [above]
        for folder in filter(os.path.isdir, folders):
            _list(folder, spec, deep=parts[i] == "**")
        if parts[i] == "**":
            return  # all that is below has been looked at


def _list(folder: str, spec: str, *, deep: bool = False, above: frozenset[str] = _NONE) -> None:
    try:
        os.stat(os.path.join(folder, os.curdir))  # fails if the folder may not be entered
        with os.scandir(folder) as entries:
            below = [e.path for e in entries if e.is_dir() and e.name[0] != "."] if deep else []
    except OSError as error:
        if os.path.basename(folder) == _LOST_AND_FOUND:
            return
        raise InputError(
            f"cannot list {folder} (for {spec}): {error.strerror}; make it readable, or name the "
            "folders that you mean"
        ) from error
    real = os.path.realpath(folder) if deep else ""
    if real not in above:
        for path in below:
            _list(path, spec, deep=True, above=above | {real})
