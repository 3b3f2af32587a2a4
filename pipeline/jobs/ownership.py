"""Whose files are in the output folder: what is not ours is never removed.

out/manifest.json              ours if its checksum fits; lists every file of the dataset
out/.work/dataprep-work        the mark of a work folder; all in such a folder is ours
out/.work/publish.json         files that an unfinished run has moved to their places
out/.work/removed.json         the manifest of a dataset that is being removed
out/shards/notes.txt           listed nowhere: somebody else's, so nothing is written or removed
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.files import make_folder, sync_folder, temporary, write_atomic
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.publish import find_publication
from dataprep.pipeline.storage.manifest import MANIFEST, MARK, WORK

MARK_TEXT = (
    b"The work of an unfinished run of dataprep, which removes this folder and all in it.\n"
    b"Run the same command again to continue.\n"
)
IDENTITY = "identity.json"
REMOVED = "removed.json"
TURN = "turn"  # what elements of a task array lock while they prepare
FOLDERS = ("shards", "index", "provenance", "keys")
# What runs write into their work folder and its folders, with .tmp behind it until it is whole.
WORK_FILES = {
    "": rf"({MARK}|[a-z]+(-\d+)?\.json|tasks\.plan)(\.tmp)?|{TURN}"
    r"|tasks|rows|provenance|checked|texts",
    "tasks": r"\d{6,}-[0-9a-f-]+\.[a-z.]+(\.tmp)?",
    "rows": r"\d{5,}-[a-z_]+\.npy(\.tmp)?",
    "provenance": r"(origins\.npy|files-\d{5,}\.json|media\.parquet)(\.tmp)?",
    "checked": r"[0-9a-f]+",
    "texts": r"(errors\.jsonl|README\.md|index\.json)(\.tmp)?|provenance",
    "texts/provenance": r"[a-z]+(-\d{5,})?\.jsonl?(\.tmp)?",
}


def is_of_work(name: str) -> bool:
    """Return whether an object below .work in a bucket has a name that runs give: the work of each
    is in a folder of its own, .work/9c41…/"""
    own = name.removeprefix(f"{WORK}/")
    if own in (MARK, IDENTITY, REMOVED):
        return True
    run, _, path = own.partition("/")
    folder, _, last = path.rpartition("/")
    is_run = re.fullmatch("[0-9a-f]{16}", run) is not None
    return is_run and folder in WORK_FILES and re.fullmatch(WORK_FILES[folder], last) is not None


def check_ours(out: Path) -> None:
    """Raise if the folder holds files of others where we would write or remove some."""
    if not out.is_dir():
        return
    check_work(out)
    listed = listed_files(out)  # there may be hundreds of thousands: told once
    folders = _folders(listed)
    for name in (*folders, MANIFEST):
        if (out / name).is_symlink():
            raise ConfigError(f"{out / name} is a link, which dataprep does not write through")
    is_finished, is_begun = (out / MANIFEST).exists(), (out / WORK / MARK).exists()
    known = {WORK, *listed}
    known |= {MANIFEST} if is_finished else set()
    known |= {temporary(out / MANIFEST).name} if is_begun else set()
    for name in _present(out, folders if is_finished or is_begun else ()):
        if name not in known:
            raise ConfigError(
                f"--out {out} holds {name}, which dataprep did not write; "
                "move it away or name a new folder"
            )


def make_work(out: Path) -> Path:
    """Return the work folder, marked as ours."""
    work = out / WORK
    if not (work / MARK).exists():
        make_folder(work)
        write_atomic(work / MARK, MARK_TEXT)
    return work


def remove_dataset(out: Path) -> None:
    """Remove the files that a manifest or a work folder of ours lists. After a kill the same call
    goes on: the manifest lies in the work folder until everything that it lists is gone."""
    if not any((out / name).exists() for name in (MANIFEST, WORK)):
        return
    work = make_work(out)
    if (out / MANIFEST).exists():
        os.replace(out / MANIFEST, work / REMOVED)
        sync_folder(work)
        sync_folder(out)
    listed = listed_files(out)
    for name in (*listed, temporary(out / MANIFEST).name):
        (out / name).unlink(missing_ok=True)
    for folder in _folders(listed):
        with suppress(OSError):  # it is not there, or holds a file of somebody else
            (out / folder).rmdir()
    remove_work(work)
    sync_folder(out)


def remove_work(work: Path) -> None:
    """Remove the work folder. What says which run it is goes first, so that no run goes on with a
    part of it; the mark goes last, so that what a kill leaves is known as ours."""
    (work / IDENTITY).unlink(missing_ok=True)
    for path in work.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()
    (work / MARK).unlink(missing_ok=True)
    work.rmdir()


def check_work(out: Path) -> None:
    """Raise if there is a work folder that is not ours."""
    work = out / WORK
    if work.is_symlink() or (work.exists() and not work.is_dir()):
        raise ConfigError(f"{work} is not a folder of dataprep; move it away or name another --out")
    names = {path.name for path in work.iterdir()} if work.is_dir() else set()
    if names <= {temporary(work / MARK).name, TURN}:  # a run was killed before its mark
        return
    if MARK not in names:
        raise ConfigError(
            f"{work} has no mark of dataprep ({MARK}), so it may be somebody else's; "
            "remove it yourself, or name another --out"
        )
    try:
        is_whole = read_bounded(work / MARK) == MARK_TEXT and not (work / MARK).is_symlink()
    except OSError:
        is_whole = False
    if not is_whole:
        raise CorruptError(f"{work / MARK} is damaged; remove {work} yourself if it is not needed")
    for folder, known in WORK_FILES.items():
        for path in (work / folder).iterdir() if (work / folder).is_dir() else ():
            if not re.fullmatch(known, path.name):
                raise ConfigError(
                    f"{work} holds {path.relative_to(work)}, which dataprep did not write; "
                    "move it away: the folder is removed when the run ends"
                )


def check_plain(work: Path) -> None:
    """Raise CorruptError if something else stands where a file of an unfinished run is expected."""
    for folder in WORK_FILES:
        # What a listing tells of each: there may be hundreds of thousands, on a slow disk.
        for entry in list(os.scandir(work / folder)) if (work / folder).is_dir() else ():
            is_folder = f"{folder}/{entry.name}".removeprefix("/") in WORK_FILES
            is_plain = entry.is_dir if is_folder else entry.is_file
            if not is_plain(follow_symlinks=False):
                raise CorruptError(
                    f"{entry.path} is damaged: it is not what dataprep wrote there; "
                    "remove it, or start again with --overwrite"
                )


def _present(out: Path, known: Collection[str]) -> Iterator[str]:
    """Yield what is in the folder, by paths: files, and folders, which are none of our files;
    `known` folders are looked into."""
    for path in sorted(out.iterdir()):
        is_folder = path.is_dir() and not path.is_symlink() and path.name != WORK
        if not (is_folder and path.name in known):
            yield f"{path.name}/" if is_folder else path.name
    for folder in known:
        for place, folders, files in os.walk(out / folder, topdown=False):
            inner = [name for name in folders if not os.path.islink(os.path.join(place, name))]
            links = set(folders) - set(inner)
            for name in sorted((*files, *links, *(f"{name}/" for name in inner))):
                yield os.path.join(os.path.relpath(place, out), name)


def _folders(listed: Iterable[str]) -> list[str]:
    """Return the folders that may hold our files: an export has others."""
    own = {name.partition("/")[0] for name in listed if "/" in name}
    return [*FOLDERS, *sorted(own - {*FOLDERS})]


def listed_files(out: Path) -> list[str]:
    """Return the files of the dataset that is there, is being removed or is being published."""
    listed = [*_listed_by(out / MANIFEST), *_listed_by(out / WORK / REMOVED)]
    publication = find_publication(out / WORK)
    if publication is not None:
        listed += [name for _, name, _ in publication.moves]
    return [name for name in listed if _is_below(name)]


def _listed_by(path: Path) -> Iterator[str]:
    """Yield the files that a manifest lists, one of another version too."""
    if not path.exists():
        return
    try:
        values = json.loads(read_bounded(path))
        checksum = values.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, OSError):
        raise ConfigError(
            f"{path} is damaged or not a manifest of dataprep, so it is not known which files are "
            "dataprep's; remove what you do not need yourself, or name another --out"
        ) from None
    if checksum != fingerprint(values):
        raise CorruptError(
            f"{path} was edited or damaged (its checksum does not fit), so it is not known which "
            "files are dataprep's; remove the folder yourself, or name another --out"
        )
    yield from _paths_in(values)


def _paths_in(values: Any) -> Iterator[str]:
    """Yield the path of every entry that has a hash."""
    if isinstance(values, dict):
        if isinstance(values.get("path"), str) and "xxh3_128" in values:
            yield values["path"]
        values = list(values.values())
    if isinstance(values, list):
        for value in values:
            yield from _paths_in(value)


def _is_below(name: str) -> bool:
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts
