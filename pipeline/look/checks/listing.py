"""Compare what is in the folder of a dataset with what its manifest lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, ExportedManifest, Manifest, files_of

FOLDERS = ("shards", "index", "provenance", "keys")
UNLISTED = (MANIFEST,)  # files of ours that the manifest does not list


def check_listing(folder: Path, manifest: Manifest) -> None:
    """Raise if there is a link, or anything that the manifest does not list.

    The dataset's own folder may be a link. A work folder is passed over: a run that was killed
    after it wrote the manifest leaves one, and the next removes it.
    """
    known = {*UNLISTED, *(entry.path for entry in files_of(manifest))}
    folders = {*FOLDERS}
    if isinstance(manifest, ExportedManifest):
        folders = {path.partition("/")[0] for path in known if "/" in path}
    for path, is_folder in walk(folder):
        if (folder / path).is_symlink():
            raise CorruptError(
                f"{folder / path} is a link; a dataset must hold its files itself: put the file "
                "in its place, or remove it"
            )
        if path not in (folders if is_folder else known):
            raise CorruptError(f"{folder / path} is not in the manifest; remove it")


def walk(folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield everything below a folder as (path, whether it is a folder), sorted; no link is
    followed, and nothing of a work folder is named."""
    for place, folders, files in os.walk(folder):
        above = Path(place).relative_to(folder)
        folders[:] = sorted(set(folders) - ({WORK} if place == str(folder) else set()))
        yield from (((above / name).as_posix(), True) for name in folders)
        yield from (((above / name).as_posix(), False) for name in sorted(files))
