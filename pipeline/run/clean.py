"""What a run left that nothing needs: found, weighed, and removed if asked for.

    out/web/tokenized/parts/00003          no manifest: begun, and never finished
    out/web/tokenized/.work                the work folder of an unfinished run
    out/web/tokenized/parts/00001          no generation names it, or only those older than the
                                           newest N, if only those are kept
    out/web/codes/parts/00000              of earlier settings, if only the newest N are kept

Only what bears a mark of dataprep or is listed by a manifest of its own is removed, and never what
a kept generation names. The small files of older generations stay: a trainer that moved on from one
needs to know how many rows it had. Of a part the manifest goes before its files: a kill at any
moment leaves datasets that are whole, and the next call finds the rest.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dataprep.pipeline.errors import ConfigError, CorruptError, DataprepError
from dataprep.pipeline.files import FileId, disk_errors_named, sync_folder, temporary
from dataprep.pipeline.jobs.ownership import check_ours, check_work, remove_dataset, remove_work
from dataprep.pipeline.jobs.workspace import locked
from dataprep.pipeline.run.chain import CODES, PACKED, TOKENIZED
from dataprep.pipeline.run.datasets import datasets_below
from dataprep.pipeline.run.listed import (
    begun_or_made,
    current_names,
    is_finished,
    is_of_codes,
    list_of,
)
from dataprep.pipeline.run.parts import names_mentioned, number_in, part_folders
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, read_manifest
from dataprep.pipeline.storage.parts import GENERATIONS, PARTS, Growing

UNFINISHED = "unfinished work"
UNNAMED = "parts that no kept generation names"
REASONS = (UNFINISHED, UNNAMED)  # in the order in which they are freed

_GENERATION = re.compile(r"([0-9]{5,})\.json(\.tmp)?")
_FOLDER = re.compile(rf"{CODES}|{TOKENIZED}|{PACKED}-[0-9]+(-.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A file or folder that nothing needs."""

    path: Path
    reason: str
    remove: Callable[[], None]
    num_bytes: int = 0  # that come free when it goes, after those before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What was found, and removed if that was asked for."""

    leftovers: tuple[Leftover, ...]
    kept_back: tuple[str, ...]  # what looks like work of dataprep, but may be somebody else's
    was_removed: bool

    @property
    def num_bytes(self) -> int:
        return sum(item.num_bytes for item in self.leftovers)


def clean(place: Path, *, keep: int | None = None, go: bool = False) -> Cleaned:
    """List what is left over in a dataset or in the folder of a run, and remove it if `go`.

    `keep` is how many generations of each dataset are kept; None: all. LockedError if a run is at
    work there.
    """
    if not place.is_dir():
        raise ConfigError(f"{place} is not a folder; name a dataset or the out folder of a run")
    with _run_locked(place), ExitStack() as locks:
        datasets = list(datasets_below(place))
        if not datasets:
            raise ConfigError(
                f"{place} holds no dataset; name a dataset or the out folder of a run"
            )
        for dataset in datasets:
            if dataset != place:
                locks.enter_context(locked(dataset))
        kept_back: list[str] = []
        found = [item for dataset in datasets for item in _left_in(dataset, keep, kept_back)]
        found.sort(key=lambda item: REASONS.index(item.reason))  # stable: by dataset within
        weighed = tuple(_weighed(found))
        if go:
            with disk_errors_named(place):
                for item in weighed:
                    item.remove()
    return Cleaned(leftovers=weighed, kept_back=tuple(kept_back), was_removed=go)


def free_replaced(out: Path) -> None:
    """Remove parts that were made only to take documents out of them: they hold what is forgotten.

    No generation names them, but a version without those documents. The caller holds the lock.
    """
    for dataset in datasets_below(out):
        if is_of_codes(dataset) or not (dataset / MANIFEST).exists():
            continue
        parts = part_folders(dataset)
        if not any("-" in part.name for part in parts):
            continue
        if {part.name for part in parts} <= names_mentioned(dataset):
            continue  # which is known at once; what is removed needs generations that were checked
        named = {name for _, file in _generations(dataset) for name in _named_in(dataset, file)}
        versions = {number_in(name) for name in named if "-" in name}
        for part in parts:
            is_named = f"{PARTS}/{part.name}" in named
            if not is_named and "-" not in part.name and number_in(part.name) in versions:
                check_ours(part)
                _remove_part(part)


def _named_in(dataset: Path, file: Path) -> set[str]:
    return _named_by(dataset, f"{GENERATIONS}/{file.name}")[1] if file.suffix == ".json" else set()


# --- where to look ---


@contextmanager
def _run_locked(place: Path) -> Iterator[None]:
    """Lock the folder, and those of the runs whose datasets it is, has or is part of, if there may
    be such: a run locks its own folder, and of a dataset only the part that it is making."""
    whole = place.absolute()
    around = whole.parents[1] if whole.parent.name == PARTS else whole
    below = (dataset.absolute() for dataset in datasets_below(place))
    runs = {each.parents[1] for each in (around, *below) if _may_be_of_a_run(each)}
    with ExitStack() as locks:
        for folder in sorted({*runs, whole}):
            locks.enter_context(locked(folder))
        yield


def _may_be_of_a_run(dataset: Path) -> bool:
    return bool(_FOLDER.fullmatch(dataset.name)) and len(dataset.parents) > 1  # OUT/CORPUS/packed-8


# --- what is left over in one dataset ---


def _left_in(dataset: Path, keep: int | None, kept_back: list[str]) -> Iterator[Leftover]:
    if is_of_codes(dataset):
        yield from _left_in_codes(dataset, keep, kept_back)
    elif (dataset / PARTS).is_dir():
        yield from _left_in_grown(dataset, keep, kept_back)
    elif (dataset / MANIFEST).exists():
        yield from _work_in(dataset, kept_back)
    else:
        yield from _if_ours(dataset, UNFINISHED, remove_dataset, kept_back)


def _left_in_grown(dataset: Path, keep: int | None, kept_back: list[str]) -> Iterator[Leftover]:
    is_there = (dataset / MANIFEST).exists()
    newest, named = _named_by(dataset, MANIFEST) if is_there else (-1, set[str]())
    oldest = 0 if keep is None else newest - keep + 1
    strays = list[Path]()
    for number, file in _generations(dataset):
        if number > newest or file.suffix == ".tmp":  # never published: the next run writes it
            strays.append(file)
        elif number >= oldest:
            named |= _named_by(dataset, f"{GENERATIONS}/{file.name}")[1]
    stray = temporary(dataset / MANIFEST)
    if stray.is_file() and not stray.is_symlink():
        strays.append(stray)
    is_ours = is_there or any(map(_is_whole, part_folders(dataset)))
    for file in strays:
        if is_ours:
            yield Leftover(path=file, reason=UNFINISHED, remove=partial(_remove_file, file))
        else:
            kept_back.append(f"{file} is beside no part that dataprep wrote")
    for part in part_folders(dataset):
        if f"{PARTS}/{part.name}" in named:
            yield from _work_in(part, kept_back)
        else:
            reason = UNNAMED if (part / MANIFEST).exists() else UNFINISHED
            yield from _if_ours(part, reason, _remove_part, kept_back)


def _left_in_codes(dataset: Path, keep: int | None, kept_back: list[str]) -> Iterator[Leftover]:
    """Yield parts that were begun, and those of earlier settings if only the newest is kept."""
    current = current_names(dataset) or ()
    for part in begun_or_made(dataset):
        if f"{PARTS}/{part.name}" in current or (keep is None and is_finished(part)):
            yield from _work_in(part, kept_back)
        elif part.exists():
            reason = UNNAMED if is_finished(part) else UNFINISHED
            yield from _if_ours(part, reason, _remove_codes, kept_back)
        else:
            file = list_of(part)
            yield Leftover(path=file, reason=UNFINISHED, remove=partial(_remove_file, file))


def _is_whole(part: Path) -> bool:
    """Return whether a part has a manifest of dataprep."""
    with suppress(DataprepError):
        read_manifest(part)
        return True
    return False


def _generations(dataset: Path) -> Iterator[tuple[int, Path]]:
    folder = dataset / GENERATIONS
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _GENERATION.fullmatch(file.name)
        if match and file.is_file() and not file.is_symlink():
            yield int(match[1]), file


def _named_by(dataset: Path, name: str) -> tuple[int, set[str]]:
    """Return the number of a generation and its parts; CorruptError if that cannot be told."""
    manifest = read_manifest(dataset, name)
    if not isinstance(manifest, Growing) or not manifest.parts:
        raise CorruptError(
            f"{dataset / name} is not of a dataset that grows, and yet there is {PARTS}/ beside "
            "it; nothing is removed, as it is not known what is needed"
        )
    return manifest.generation, {entry.path for entry in manifest.parts}


def _if_ours(
    place: Path, reason: str, remove: Callable[[Path], None], kept_back: list[str]
) -> Iterator[Leftover]:
    try:
        if place.is_symlink():
            raise ConfigError(f"{place} is a link, and what it leads to may be needed")
        check_ours(place)
    except DataprepError as error:
        kept_back.append(str(error))
    else:
        yield Leftover(path=place, reason=reason, remove=partial(remove, place))


def _work_in(dataset: Path, kept_back: list[str]) -> Iterator[Leftover]:
    """Yield what a run that was killed at the very end has left of its work."""
    if not os.path.lexists(dataset / WORK):
        return
    try:
        check_work(dataset)
    except DataprepError as error:
        kept_back.append(str(error))
    else:
        remove = partial(remove_work, dataset / WORK)
        yield Leftover(path=dataset / WORK, reason=UNFINISHED, remove=remove)


# --- how it is removed and weighed ---


def _remove_file(path: Path) -> None:
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def _remove_part(place: Path) -> None:
    remove_dataset(place)
    with suppress(FileNotFoundError):
        place.rmdir()
    sync_folder(place.parent)


def _remove_codes(place: Path) -> None:
    _remove_part(place)
    _remove_file(list_of(place))


def _weighed(leftovers: Iterable[Leftover]) -> Iterator[Leftover]:
    """Yield them with the bytes that come free: of a file of several names, with its last one."""
    gone = Counter[FileId]()
    for item in leftovers:
        num_bytes = 0
        for path in _files_in(item.path):
            found = path.lstat()
            one = found.st_dev, found.st_ino
            gone[one] += 1
            num_bytes += found.st_size if gone[one] == found.st_nlink else 0
        yield replace(item, num_bytes=num_bytes)


def _files_in(path: Path) -> Iterator[Path]:
    if not path.is_dir() or path.is_symlink():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder, name) for name in names)
