"""The datasets of a run: `out` holds them, and `verify` and `log` take all of them at once.

out/web/codes/parts/00000     of codes each part is a dataset
out/web/tokenized
out/web/packed-2048
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.run.listed import current_names, is_of_codes
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, kind_of
from dataprep.pipeline.storage.parts import PARTS

MAX_DEPTH = 2  # of the datasets below the folder of a run: CORPUS/packed-2048-train


def datasets_of_run(out: Path) -> list[Path]:
    """Return the datasets that a run has made in this folder; none if it is not that of a run."""
    if not out.is_dir() or kind_of(out) or not any(out.glob(f"*/tokenized/{MANIFEST}")):
        return []
    found: list[Path] = []
    for dataset in datasets_below(out):
        if is_of_codes(dataset):
            found += [dataset / name for name in current_names(dataset) or ()]
        elif (dataset / MANIFEST).exists():
            found.append(dataset)
    return found


def datasets_below(folder: Path, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """Yield the datasets, finished or not, that a folder is or has below it."""
    if any((folder / name).exists() for name in (MANIFEST, WORK, PARTS)):
        yield folder
        return
    if depth:
        with os.scandir(folder) as entries:
            inside = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        for name in inside:
            if not name.startswith("."):
                yield from datasets_below(folder / name, depth - 1)
