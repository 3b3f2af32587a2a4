"""Take part in a run of another machine, by what it has put into a bucket.

the machine that began          s3://bucket/tokenized/.work/9c41…/plan.json, engine.json, …
another                         a work folder of its own with the same files; what its workers
                                commit there goes to the bucket, too
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dataprep.pipeline.caches import default_cache
from dataprep.pipeline.errors import ConflictError
from dataprep.pipeline.files import make_folder
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.jobs.stored import (
    STAGING,
    StoredWork,
    keep_in_store,
    stored_work,
)
from dataprep.pipeline.jobs.stored_plans import fetch_plan, planned_names
from dataprep.pipeline.storage.manifest import WORK
from dataprep.pipeline.storage.objects import open_objects


def join(url: str, run: str) -> Path:
    """Return a work folder here for a run in a bucket; `run` and `url` stand in its store.json.

    Processes that join at the same time share the folder; the first of them fetches the plan.
    """
    stored = StoredWork(objects=open_objects(url), run=run)
    name = f"{hash_bytes(stored.objects.url.encode())[:16]}-{run}"
    work = default_cache() / STAGING / name / WORK
    make_folder(work)
    descriptor = os.open(work.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if stored_work(work) is None:
            _fetch_plan(stored, work)
            keep_in_store(work, stored.objects.url, run)
    finally:
        os.close(descriptor)
    return work


def _fetch_plan(stored: StoredWork, work: Path) -> None:
    """Bring all of the work but what tasks have committed."""
    found = stored.objects.entries(stored.prefix)
    names = planned_names(stored, [entry.name for entry in found])
    if not names:
        raise ConflictError(f"{stored.objects.url} has no such run any more; begin it again")
    fetch_plan(stored, names, work)
