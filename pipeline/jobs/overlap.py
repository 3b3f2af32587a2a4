"""Refuse an output folder that is, holds or lies in what is read.

Files are told apart by device and inode, so that links and other names of a mount do not matter:

    --out data/out        input data/out/shards/a.jsonl       inside
                          input local://data/out/a.jsonl      inside
                          input link/a.jsonl, link -> data    inside, if the file is
                          input b.jsonl, a hard link of a file in data/out
    --out s3://b/out      input s3://b/out/shards/a.jsonl     inside, by its name
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import FileId, id_of, links_of, local_paths
from dataprep.pipeline.storage.objects import SCHEMES, is_remote


def refuse_overlap(out: Path | str, reads: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Raise ConfigError for an input inside `out`, and for `out` inside one of `folders`.

    `reads` are files, folders and URLs; `folders` are read with all that they hold. An `out` that
    is a str is the address of a folder in a bucket.
    """
    folders = list(folders)
    if isinstance(out, str):
        _refuse_in_bucket(out, (*reads, *folders), folders)
        return
    target, inside = id_of(str(out)), _ids_below(out)
    above = lru_cache(maxsize=None)(_ids_above)  # many files are in few folders
    real_folder = lru_cache(maxsize=None)(os.path.realpath)
    for address in (*reads, *folders) if target is not None else ():
        for path in local_paths(address):
            folder, name = os.path.split(path)
            if name in ("", os.curdir, os.pardir) or os.path.islink(path):
                folder, name = os.path.split(os.path.realpath(path))
            own = id_of(os.path.join(folder, name))
            is_inside = target == own or target in above(real_folder(folder))
            if own is not None and (is_inside or own in inside):
                raise ConfigError(f"--out {out} is or holds the input {path}; name another folder")
    around = {id_of(os.path.realpath(out)), *_ids_above(os.path.realpath(out.parent))}
    for path in folders:
        if id_of(os.path.realpath(path)) in around - {None}:
            raise ConfigError(f"--out {out} lies in the input {path}; name another folder")


def _refuse_in_bucket(out: str, reads: Iterable[str], folders: Iterable[str]) -> None:
    for address in reads:
        place = _in_bucket(address)
        if place and f"{place}/".startswith(f"{out}/"):
            raise ConfigError(f"--out {out} is or holds the input {address}; name another folder")
    for folder in folders:
        place = _in_bucket(folder)
        if place and f"{out}/".startswith(f"{place}/"):
            raise ConfigError(f"--out {out} lies in the input {folder}; name another folder")


def _in_bucket(address: str) -> str:
    """Return the object that an input is read from, the archive of a chain; "" if it is none."""
    last = links_of(address)[-1]
    if not is_remote(last):
        return ""
    scheme, _, path = last.partition(":/")
    parts = [part for part in path.split("/") if part]
    return "/".join([f"{SCHEMES[scheme]}:/", *parts])


def lies_in(place: str, folder: str) -> bool:
    """Return whether a place, which may not be there yet, is a folder or lies in it."""
    return id_of(folder) in _ids_above(os.path.realpath(place))


def _ids_above(folder: str) -> frozenset[FileId | None]:
    """Return the folder and all folders above it."""
    places = (Path(folder), *Path(folder).parents)
    return frozenset(id_of(str(place)) for place in places) - {None}


def _ids_below(folder: Path) -> set[FileId]:
    found = set()
    for place, _, files in os.walk(folder):
        for name in files:
            identity = id_of(os.path.join(place, name))
            if identity is not None:
                found.add(identity)
    return found
