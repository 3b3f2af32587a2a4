"""Take part in a run of another machine, by what it has put into a bucket.

the machine that began          s3://bucket/tokenized/.work/9c41…/plan.json, engine.json, …
another                         a work folder of its own with the same files; what its workers
                                commit there goes to the bucket, too

The folder is of one session, which is one start of the command: at the next, the plan may be
another, and what was committed may have been thrown away.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dataprep.pipeline.caches import own_turn, remove_unused
from dataprep.pipeline.errors import ConflictError
from dataprep.pipeline.files import make_folder
from dataprep.pipeline.jobs.stored import (
    StoredWork,
    folder_here,
    keep_in_store,
    stored_work,
)
from dataprep.pipeline.jobs.stored_plans import fetch_plan, planned_names
from dataprep.pipeline.storage.manifest import WORK
from dataprep.pipeline.storage.objects import open_objects

JOINED = "joined"

_held: list[int] = []  # descriptors of folders: others see by their locks that they are in use


def join(url: str, run: str, session: str) -> Path:
    """Return a work folder here for a run in a bucket; `url` and `run` stand in its store.json.

    Processes of a session share the folder, and the first of them fetches the plan. Folders of
    sessions that have ended are removed.
    """
    home = folder_here(JOINED)
    work = home / session / WORK
    with own_turn(home):
        make_folder(work)
        _held.append(os.open(work.parent, os.O_RDONLY))
        fcntl.flock(_held[-1], fcntl.LOCK_SH)
        for other in home.iterdir():
            if other.name != session:
                remove_unused(other)
        if stored_work(work) is None:
            _fetch_plan(StoredWork(objects=open_objects(url), run=run), work)
            keep_in_store(work, url, run)
    return work


def _fetch_plan(stored: StoredWork, work: Path) -> None:
    """Bring all of the work but what tasks have committed."""
    found = stored.objects.entries(stored.prefix)
    names = planned_names(stored, [entry.name for entry in found])
    if not names:
        raise ConflictError(f"{stored.objects.url} has no such run any more; begin it again")
    fetch_plan(stored, names, work)
