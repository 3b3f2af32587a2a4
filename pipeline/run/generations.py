"""Publish a generation: the parts of a dataset as one, under a number that nothing else ever gets.

    README.md                always the same: for who opens the folder
    generations/00000.json   parts/00000
    generations/00001.json   parts/00000, parts/00001             ◄── written first
    manifest.json            the same bytes as the newest         ◄── written last, when all is done

Rows of a generation never move: a later one has the same parts in the same order, and more of them.
In the place of a part there may be a new version of it, of as many rows. Only where a dataset is
made anew, all parts are others; those of earlier generations stay as they are. A run that was
killed between the two files leaves a generation that no reader sees, and that the next writes anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from dataprep.pipeline.errors import ConflictError, counted
from dataprep.pipeline.files import disk_errors_named, make_folder, write_atomic
from dataprep.pipeline.jobs.ownership import check_work, remove_work
from dataprep.pipeline.storage.entries import PartEntry
from dataprep.pipeline.storage.joined import joined
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, manifest_text, read_manifest
from dataprep.pipeline.storage.parts import G, Growing, generation_name
from dataprep.pipeline.storage.readme import README, README_TEXT


def publish_generation(out: Path, parts: Sequence[tuple[str, G]], *, anew: bool = False) -> G:
    """Make the dataset in `out` consist of these parts, (path in it, manifest); return the whole.

    `anew`: they need not be those that it consists of now, and more. If it consists of them
    already, nothing is written. The caller holds the lock of `out`.
    """
    before = _newest(out)
    number = before.generation if before else 0
    manifest = joined(out, parts, number)
    if before is not None and before != manifest:
        manifest = joined(out, parts, number + 1)
        if not anew:
            _check_rows_stay(out, before, manifest)
    text, own = manifest_text(manifest).encode(), out / generation_name(manifest.generation)
    with disk_errors_named(out):
        remove_leftovers(out / path for path, _ in parts)
        if before != manifest:
            make_folder(own.parent)
            if not os.path.lexists(out / README):  # else it is ours, or somebody's own
                write_atomic(out / README, README_TEXT.encode())
            write_atomic(own, text)
            write_atomic(out / MANIFEST, text)
    return manifest


def remove_leftovers(parts: Iterable[Path]) -> None:
    """Remove what a run that was killed at the very end of a part has left of its work."""
    for part in parts:
        if (part / WORK).exists():
            check_work(part)
            remove_work(part / WORK)


def _newest(out: Path) -> Growing | None:
    """Return the manifest of a dataset that grows; None if there is none yet."""
    if not (out / MANIFEST).exists():
        return None
    found = read_manifest(out)
    if not getattr(found, "parts", ()):
        raise ConflictError(
            f"{out} holds a {found.kind} dataset that was made at once, and cannot grow; "
            "name another folder"
        )
    assert isinstance(found, Growing)
    return found


def _check_rows_stay(out: Path, before: Growing, after: Growing) -> None:
    """Raise ConflictError unless every part has its place, and as many items, as before."""
    if len(after.parts) < len(before.parts):
        raise ConflictError(
            f"{out} consists of {counted(len(before.parts), 'part')}, and cannot become one of "
            f"{len(after.parts)}; make the dataset anew in another folder"
        )
    for number, (old, new) in enumerate(zip(before.parts, after.parts, strict=False)):
        rows = _num_items(before, number), _num_items(after, number)
        if _place_of(old) != _place_of(new) or rows[0] != rows[1]:
            raise ConflictError(
                f"{new.path} ({rows[1]:,}) cannot stand for {old.path} ({rows[0]:,}) in {out}: "
                "rows of a generation never move; make the dataset anew in another folder"
            )


def _place_of(part: PartEntry) -> str:
    """Return the name of a part without its version."""
    return part.path.partition("-")[0]


def _num_items(manifest: Growing, number: int) -> int:
    """Return how many rows or documents a part has."""
    first = sum(part.shards for part in manifest.parts[:number])
    own = manifest.shards[first : first + manifest.parts[number].shards]
    return sum(getattr(shard, "num_documents", shard.num_records) for shard in own)
