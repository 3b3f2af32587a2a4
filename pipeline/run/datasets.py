"""The datasets of a run: `out` holds them, and `verify` and `log` take all of them at once.

out/web/codes/parts/00000     of codes each part is a dataset
out/web/tokenized
out/web/packed-2048
out/summary.json              what the last run did, if one has ended well
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.run.listed import current_names, is_of_codes
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, kind_of
from dataprep.pipeline.storage.parts import PARTS

SUMMARY = "summary.json"
MAX_DEPTH = 2  # of the datasets below the folder of a run: CORPUS/packed-2048-train


def datasets_of_run(out: Path) -> list[Path]:
    """Return the datasets of a run, finished or not, in this folder; none if it is not that of a
    run."""
    if kind_of(out) or not (is_summary(out / SUMMARY) or any(out.glob(f"*/*/{PARTS}"))):
        return []
    found: list[Path] = []
    for dataset in datasets_below(out):
        names = current_names(dataset) if is_of_codes(dataset) else None
        found += [dataset] if names is None else [dataset / name for name in names]
    return found


def is_summary(path: Path) -> bool:
    """Return whether a run has written this file."""
    try:
        found = json.loads(read_bounded(path))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"ended", "steps"} <= found.keys()


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
