"""Check a dataset that grows: its generations against the parts that they name, and the folder.

    manifest.json           byte by byte the newest of these
    generations/00000.json  byte by byte what its parts join to
    parts/00000 …           each a dataset of its own, which `verify` reads

Files of generations, and parts that only older ones name, may have been removed. What a run that
was killed leaves, and the next one uses or removes, is passed over, as a work folder is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dataprep.pipeline.errors import ConflictError, CorruptError
from dataprep.pipeline.files import temporary
from dataprep.pipeline.storage.joined import joined
from dataprep.pipeline.storage.manifest import (
    MANIFEST,
    MARK,
    WORK,
    kind_of,
    manifest_text,
    read_manifest,
)
from dataprep.pipeline.storage.parts import (
    GENERATIONS,
    PARTS,
    Growing,
    generation_name,
    read_generation,
)
from dataprep.pipeline.storage.readme import README, README_TEXT

_PART = re.compile(r"[0-9]{5,}(-[0-9]+)?")


def generations_of(folder: Path, newest: Growing) -> dict[int, Growing]:
    """Read every generation that is there, in order; the newest must be."""
    found: dict[int, Growing] = {}
    for number in range(newest.generation + 1):
        if (folder / generation_name(number)).exists() or number == newest.generation:
            found[number] = _generation(folder, number)
    return found


def parts_named(folder: Path, generations: Mapping[int, Growing]) -> list[str]:
    """Return all parts that any generation names and that are there, in order; those of the newest
    must be."""
    newest = generations[max(generations)]
    wanted = {part.path for part in newest.parts}
    named = {part.path for manifest in generations.values() for part in manifest.parts}
    return sorted(path for path in named if path in wanted or _is_whole(folder / path))


def _is_whole(place: Path) -> bool:
    """Return whether a part is there, and not being removed: its manifest goes first."""
    return (place / MANIFEST).exists()


def check_growth(folder: Path, generations: Mapping[int, Growing]) -> list[int]:
    """Raise CorruptError unless every generation is what its parts join to, and nothing else is in
    the folder; return those that cannot be read any more."""
    newest = max(generations)
    _check_places(folder, generations)
    _check_card(folder)
    _check_bytes(folder, MANIFEST, (folder / generation_name(newest)).read_bytes())
    parts: dict[str, Growing] = {}
    unread = []
    for number, manifest in generations.items():
        paths = [part.path for part in manifest.parts]
        if number != newest and not all(_is_whole(folder / path) for path in paths):
            unread.append(number)
            continue
        for path in paths:
            parts[path] = parts[path] if path in parts else _part(folder / path, manifest)
        try:
            whole = joined(folder, [(path, parts[path]) for path in paths], number)
        except ConflictError as error:
            raise CorruptError(f"generation {number} of {folder} cannot be: {error}") from None
        _check_bytes(folder, generation_name(number), manifest_text(whole).encode())
    return unread


def _check_card(folder: Path) -> None:
    path = folder / README
    if not path.exists() or path.read_bytes() != README_TEXT.encode():
        raise CorruptError(f"{path} is not what dataprep writes there; restore it from {PARTS}/")


def _generation(folder: Path, number: int) -> Growing:
    """Read a generation from its own file, the newest one, too."""
    found = read_manifest(folder, generation_name(number))
    if not isinstance(found, Growing) or found.generation != number or not found.parts:
        path = folder / generation_name(number)
        raise CorruptError(f"{path} is not generation {number} of {folder}; restore it")
    read_generation(folder, number)  # of the same kind as the newest
    return found


def _part(place: Path, whole: Growing) -> Growing:
    part = read_manifest(place)
    if not isinstance(part, type(whole)) or part.parts:
        raise CorruptError(f"{place} is not a part of a {whole.kind} dataset; restore it")
    return part


def _check_bytes(folder: Path, name: str, wanted: bytes) -> None:
    if (folder / name).read_bytes() != wanted:
        raise CorruptError(
            f"{folder / name} is not what the parts of {folder} join to; restore it, or make the "
            "dataset again"
        )


# --- what is in the folder ---


def _check_places(folder: Path, generations: Mapping[int, Growing]) -> None:
    """Raise if there is a link, or anything that is of no generation and of no run."""
    newest = max(generations)
    next_one = generation_name(newest + 1)  # of a run that was killed before it was published
    files = {MANIFEST, README, next_one, *map(generation_name, generations)}
    files |= {temporary(Path(name)).as_posix() for name in (MANIFEST, README, next_one)}
    parts = {part.path for manifest in generations.values() for part in manifest.parts}
    for path in _entries(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise CorruptError(f"{path} is a link; a dataset must hold its files itself")
        is_ours = path.is_dir() if name in parts else name in files or _is_left(path, name)
        if not is_ours:
            raise CorruptError(f"{path} is of no generation of the dataset; remove it")


def _entries(folder: Path) -> Iterator[Path]:
    """Yield all that is in the folder but in the parts, which are read by themselves."""
    for path in sorted(folder.iterdir()):
        is_inner = path.name in (GENERATIONS, PARTS) and path.is_dir() and not path.is_symlink()
        if is_inner:
            yield from sorted(path.iterdir())
        elif path.name != WORK:
            yield path


def _is_left(path: Path, name: str) -> bool:
    """Return whether it is a part that a run has begun, or one that no generation needs."""
    if not (name.startswith(f"{PARTS}/") and _PART.fullmatch(path.name) and path.is_dir()):
        return False
    return bool(kind_of(path)) or all(map(_is_bare_work, path.iterdir()))


def _is_bare_work(path: Path) -> bool:
    """Return whether it is a work folder whose mark is not there yet, or not any more."""
    if path.name != WORK or path.is_symlink() or not path.is_dir():
        return False
    return {inner.name for inner in path.iterdir()} <= {temporary(Path(MARK)).name}
