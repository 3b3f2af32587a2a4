"""Datasets that have grown: parts made by `tokenize` or `pack`, published one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dataprep.pipeline.run.generations import publish_generation
from dataprep.pipeline.storage.entries import PartEntry
from dataprep.pipeline.storage.manifest import MANIFEST, read_manifest
from dataprep.pipeline.storage.parts import (
    GENERATIONS,
    PARTS,
    Growing,
    generation_name,
    part_name,
    read_generation,
)
from support.datasets import pack_here
from support.inprocess import tokenize_here

Make = Callable[[Path], object]


def tokenized(inputs: Sequence[Path], **config: Any) -> Make:
    """Return what tokenizes these files into a folder."""

    def make(out: Path) -> None:
        tokenize_here(out, inputs=list(map(str, inputs)), **{"tokenizer": "bytes", **config})
        shutil.rmtree(out.with_name(f"{out.name}-cache"), ignore_errors=True)

    return make


def packed(*folders: Path, **config: Any) -> Make:
    """Return what packs these datasets into a folder."""
    return lambda out: pack_here(out, *folders, **config)


def grow(out: Path, make: Make) -> Growing:
    """Make one more part of the dataset, and a generation with it."""
    parts = parts_in(out)
    return publish_generation(out, [*parts, _made(out, part_name(len(parts)), make)])


def replace_part(out: Path, number: int, version: int, make: Make) -> Growing:
    """Make another version of a part, and a generation with it in its place."""
    parts = parts_in(out)
    parts[number] = _made(out, part_name(number, version), make)
    return publish_generation(out, parts)


def parts_in(out: Path) -> list[tuple[str, Growing]]:
    """The parts of the newest generation, (path in `out`, manifest)."""
    if not (out / MANIFEST).exists():
        return []
    return [(entry.path, manifest_in(out / entry.path)) for entry in manifest_in(out).parts]


def manifest_in(folder: Path) -> Growing:
    found = read_manifest(folder)
    assert isinstance(found, Growing)
    return found


def _made(out: Path, path: str, make: Make) -> tuple[str, Growing]:
    make(out / path)
    return path, manifest_in(out / path)


def copy_of_generation(out: Path, generation: int, copy: Path) -> Path:
    """Copy a dataset as it was before it grew beyond a generation."""
    shutil.copytree(out, copy)
    for path in (copy / GENERATIONS).iterdir():
        if int(path.stem) > generation:
            path.unlink()
    shutil.copyfile(copy / generation_name(generation), copy / MANIFEST)
    named = {entry.path for g in range(generation + 1) for entry in _parts_at(copy, g)}
    for path in (copy / PARTS).iterdir():
        if f"{PARTS}/{path.name}" not in named:
            shutil.rmtree(path)
    return copy


def _parts_at(out: Path, generation: int) -> tuple[PartEntry, ...]:
    found = read_generation(out, generation)
    assert isinstance(found, Growing)
    return found.parts
