"""The parts of a dataset of codes, and the lists of what they are made of.

    out/web/codes/current.json      the parts that the corpus consists of, in order
    out/web/codes/parts/00000.json  the media that a part is made of: path and fingerprint of each
    out/web/codes/parts/00000       these media, encoded: a dataset of codes like any other

A list is written before its part is made, and never changes; `current.json` when all are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.errors import CorruptError, DataprepError
from dataprep.pipeline.files import read_sealed, sync_folder
from dataprep.pipeline.jobs.ownership import check_ours, remove_dataset
from dataprep.pipeline.run.parts import number_in, part_folders
from dataprep.pipeline.storage.checked import check_size
from dataprep.pipeline.storage.kinds import EncodedManifest, files_of
from dataprep.pipeline.storage.manifest import MANIFEST, read_manifest
from dataprep.pipeline.storage.parts import PARTS, part_name
from dataprep.pipeline.typed import decode_as
from dataprep.pipeline.types import SingleMedia

CURRENT = "current.json"
LISTS = "[0-9]*.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPart:
    """What a part is made of, written before it is made."""

    fingerprint: str  # of the dataset
    settings: str  # fingerprint of all that decides it, but for the media
    media: tuple[SingleMedia, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCodes:
    """The codes of a corpus."""

    folder: Path
    parts: tuple[Path, ...]  # those that hold any


def codes_of(out: Path) -> MadeCodes | None:
    """Return the newest codes; None if there are none yet."""
    names = current_names(out)
    if names is None:
        return None
    lists = dict(lists_in(out))
    lost = [name for name in names if name not in lists or not is_finished(out / name)]
    if lost:
        raise CorruptError(f"{out / lost[0]} or its list is missing; make it again: --only encode")
    full = [name for name in names if read_part(out, name, lists[name]).shards]
    return MadeCodes(folder=out, parts=tuple(out / name for name in full))


def lists_in(out: Path) -> Iterator[tuple[str, ListedPart]]:
    """Yield the parts that were made or begun, and what they are made of, in order."""
    for path in sorted((out / PARTS).glob(LISTS)):
        data = read_sealed(path)
        if data is None:
            raise CorruptError(
                f"{path} is damaged, so it is not known what {path.stem} is made of; restore it, "
                "or remove it, and its media are encoded again"
            )
        yield f"{PARTS}/{path.stem}", decode_as(data, ListedPart)


def current_names(out: Path) -> list[str] | None:
    data = read_sealed(out / CURRENT)
    if data is None:
        if (out / CURRENT).exists():
            raise CorruptError(
                f"{out / CURRENT} is damaged; restore it, or remove it, and it is written anew"
            )
        return None
    return decode_as(data, list[str])


def list_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def is_of_codes(folder: Path) -> bool:
    """Return whether a folder holds codes of a run, or will hold them."""
    return (folder / CURRENT).exists() or any((folder / PARTS).glob(LISTS))


def begun_or_made(out: Path) -> list[Path]:
    """Return the folders of all parts, also those of which there is only a list."""
    lists = (path.with_suffix("") for path in (out / PARTS).glob(LISTS))
    return sorted({*part_folders(out), *lists})


def next_name(out: Path) -> str:
    names = [place.name for place in begun_or_made(out)]
    return part_name(max(map(number_in, names), default=-1) + 1)


def is_finished(place: Path) -> bool:
    return (place / MANIFEST).exists()


def finished(out: Path, name: str, listed: ListedPart) -> EncodedManifest | None:
    return read_part(out, name, listed) if is_finished(out / name) else None


def read_part(out: Path, name: str, listed: ListedPart) -> EncodedManifest:
    """Return the manifest of a part; CorruptError unless it is what its list says."""
    try:
        part = read_manifest(out / name)
    except DataprepError as error:
        raise CorruptError(f"a part of {out} cannot be used: {error}") from None
    if not isinstance(part, EncodedManifest) or part.fingerprint != listed.fingerprint:
        raise CorruptError(
            f"{out / name} is not what {name}.json beside it says; restore it, or remove both, and "
            "its media are encoded again"
        )
    for entry in files_of(part):
        check_size(out / name, entry)
    return part


def remove_unfinished(out: Path, wanted: Sequence[str]) -> None:
    """Remove what was begun and is not wanted any more: it would never be finished."""
    for place in begun_or_made(out):
        is_wanted = is_finished(place) or f"{PARTS}/{place.name}" in wanted
        if not is_wanted and not place.is_symlink():  # a link is none of ours
            if place.exists():
                check_ours(place)
                remove_dataset(place)
                place.rmdir()
            list_of(place).unlink(missing_ok=True)
    sync_folder(out / PARTS)
