"""The plan of a run in a bucket, by which other machines take part and finalize publishes.

here                          in the bucket
.work/plan.json, tasks.plan   s3://…/.work/9c41…/plan.json, tasks.plan
.work/rows/*                  s3://…/.work/9c41…/rows/*
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dataprep.pipeline.files import Written, make_folder
from dataprep.pipeline.hashes import hash_file
from dataprep.pipeline.jobs.ownership import IDENTITY, TURN
from dataprep.pipeline.jobs.placing import REQUESTS, Found, holds
from dataprep.pipeline.jobs.publish import PUBLISH
from dataprep.pipeline.jobs.stored import STORE, TASKS, StoredWork
from dataprep.pipeline.storage.manifest import MARK
from dataprep.pipeline.storage.objects import NoSuchObjectError
from dataprep.pipeline.threads.several import in_threads

CHECKED = "checked"
_OF_THIS_MACHINE = {MARK, IDENTITY, STORE, PUBLISH, TURN}


def put_plan(stored: StoredWork, found: Found, work: Path) -> None:
    """Let other machines have the plan; what the store has of it stays."""

    def put(path: Path) -> None:
        name = stored.name_of(path.relative_to(work).as_posix())
        file = Written(num_bytes=path.stat().st_size, xxh3_128=hash_file(path))
        with suppress(NoSuchObjectError):  # another process may have just ended the work
            if holds(stored.objects, found, name, file):
                return
        stored.objects.put(name, path, xxh3_128=file.xxh3_128)

    in_threads(put, [path for path in sorted(work.rglob("*")) if _is_plan(path, work)], REQUESTS)


def planned_names(stored: StoredWork, names: Sequence[str]) -> list[str]:
    """Return which of these objects are of the plan, by their names in the work folder."""
    own = [n.removeprefix(stored.prefix) for n in names if n.startswith(stored.prefix)]
    return [name for name in own if not name.startswith(f"{TASKS}/") and name != PUBLISH]


def fetch_plan(
    stored: StoredWork,
    names: Sequence[str],
    work: Path,
    is_wanted: Callable[[Path], bool] = lambda path: True,
) -> None:
    """Bring files of the plan, by their names in the work folder."""
    for folder in {TASKS, CHECKED, *(name.rpartition("/")[0] for name in names)}:
        make_folder(work / folder)
    wanted = [name for name in names if is_wanted(work / name)]
    in_threads(
        lambda name: stored.objects.download(stored.name_of(name), work / name), wanted, REQUESTS
    )


def _is_plan(path: Path, work: Path) -> bool:
    """Return whether a file of the work folder is of the plan, which other machines need."""
    own = path.relative_to(work)
    is_own = own.parts[0] in (TASKS, CHECKED) or own.name in _OF_THIS_MACHINE
    return path.is_file() and not is_own and not own.name.endswith(".tmp")
