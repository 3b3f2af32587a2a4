"""The markers of a run in a bucket: those of whole shards come here, others go.

s3://…/.work/9c41…/tasks/000007-1f3a-0000.done   ──►  .work/tasks/000007-1f3a-0000.done
                                                      if its files are there as it says
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from dataprep.pipeline.files import sealed
from dataprep.pipeline.jobs.placing import REQUESTS, Found
from dataprep.pipeline.jobs.stored import TASKS, StoredFile, StoredWork
from dataprep.pipeline.storage.objects import Objects
from dataprep.pipeline.threads.several import in_threads


def marker_names(stored: StoredWork, found: Found) -> list[str]:
    """Return the names of the markers that are there, in order."""
    prefix = stored.name_of(f"{TASKS}/")
    return sorted(name for name in found if name.startswith(prefix) and name.endswith(".done"))


def bring_markers(stored: StoredWork, found: Found, names: Sequence[str], tasks: Path) -> None:
    """Bring the markers that are not in this folder, of shards that are whole in the store."""

    def is_stored(name: str, file: StoredFile) -> bool:
        entry = found.get(name)
        if entry is None or entry.num_bytes != file.num_bytes:
            return False
        # Written once more by another process of this run, it may have another e_tag.
        same = entry.e_tag == file.e_tag
        return same or stored.objects.entry_and_hash(name)[1] == file.xxh3_128

    def bring(name: str) -> None:
        folder, _, own = name.rpartition("/")
        shard = stored.shard(own)
        if shard and all(is_stored(f"{folder}/{n}", file) for n, file in shard.files.items()):
            (tasks / own).write_bytes(sealed(bytes(shard.marker)))

    missing = [name for name in names if not (tasks / name.rpartition("/")[2]).exists()]
    in_threads(bring, missing, REQUESTS)


def drop_markers(objects: Objects, names: Iterable[str]) -> None:
    """Remove markers, the last of each task first: none may be left behind a gap."""
    by_place: dict[int, list[str]] = defaultdict(list)
    by_stem: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names, reverse=True):
        stem = by_stem[name.rpartition("-")[0]]
        by_place[len(stem)].append(name)
        stem.append(name)
    for _, some in sorted(by_place.items()):
        objects.delete(some)
