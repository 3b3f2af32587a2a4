"""What workers commit: files under temporary names, then under their own, then a marker.

    .work/tasks/000007-1f3a-0000.arrayrecord, .index.npy, …    durable, hashed
    .work/tasks/000007-1f3a-0000.done                          the marker: counts, hashes, a cursor
    .work/tasks/000007-1f3a-0001.arrayrecord.tmp               lost if the worker is killed

A shard counts only when its marker exists and is whole. A task is done when its last shard has a
marker. A run that is continued trusts no file: `trusted_markers` compares all with their markers.
Where the dataset is made in a bucket, files and markers go there as well (`stored`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from dataprep.pipeline.files import Written, lost, read_sealed, sync_folder, temporary, write_sealed
from dataprep.pipeline.jobs.stored import TASKS, stored_work
from dataprep.pipeline.threads.several import in_threads
from dataprep.pipeline.typed import decode_as

HASHING_THREADS = 8  # hashing and reading both let go of the interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a task continues: a piece, by its place in the task, and a line of that piece."""

    piece: int = 0
    line: int = 0


class Marker(Protocol):
    """What is written about one committed shard."""

    @property
    def final(self) -> bool:
        """Whether it is the last shard of its task."""

    @property
    def files(self) -> Mapping[str, Written]:
        """Its files, by their role."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it: every record that was read is bad or empty."""


M = TypeVar("M", bound=Marker)


def make_tasks_folder(work: Path) -> None:
    (work / TASKS).mkdir(exist_ok=True)


def stem_of(work: Path, name: str) -> Path:
    """Return what the paths of all shards of a task begin with; `name` is the task's name."""
    return work / TASKS / name


def shard_file(stem: Path, number: int, ending: str) -> Path:
    """Return the path of the file of a shard with this ending."""
    return stem.with_name(f"{stem.name}-{number:04d}{ending}")


def marker_file(stem: Path, number: int) -> Path:
    return shard_file(stem, number, ".done")


def write_marker(stem: Path, number: int, marker: Marker, paths: Mapping[str, Path]) -> None:
    """Write the marker of a shard, whose files must be durable under their names: their paths, by
    role."""
    sync_folder(stem.parent)
    path, data = marker_file(stem, number), msgspec.json.encode(marker)
    stored = stored_work(stem.parent.parent)
    if stored is None:
        write_sealed(path, data)
        return
    stored.commit(path, data, {paths[role]: written for role, written in marker.files.items()})
    write_sealed(path, data)
    for role in marker.files:
        paths[role].unlink()


def read_markers(stem: Path, kind: type[M]) -> list[M]:
    """Return the markers of a task's committed shards, in order, up to one that is damaged."""
    found: list[M] = []
    while (data := read_sealed(marker_file(stem, len(found)))) is not None:
        found.append(decode_as(data, kind))
    return found


def markers_to_go_on(stem: Path, kind: type[M]) -> list[M]:
    """Return the markers after which a worker goes on with a task. Where work is kept in a store,
    another machine may have committed the first shards: their markers are brought here."""
    found = read_markers(stem, kind)
    stored = stored_work(stem.parent.parent)
    while stored is not None and not is_done(found):
        path = marker_file(stem, len(found))
        data = stored.whole(path.name)
        if data is None:
            break
        write_sealed(path, data)
        found.append(decode_as(data, kind))
    return found


def has_commits(work: Path) -> bool:
    """Return whether any shard was committed."""
    return any((work / TASKS).glob("*.done"))


def is_done(markers: Sequence[Marker]) -> bool:
    return bool(markers) and markers[-1].final


def remove_leftovers(stem: Path, number: int, endings: Iterable[str]) -> None:
    """Remove what a killed worker left of the shard it was writing."""
    for path in (*(shard_file(stem, number, e) for e in endings), marker_file(stem, number)):
        path.unlink(missing_ok=True)
        temporary(path).unlink(missing_ok=True)


class Markers(Generic[M]):
    """The markers of all tasks, for the parent; each is read once."""

    def __init__(
        self, stems: Sequence[Path], kind: type[M], own: Sequence[int] | None = None
    ) -> None:
        """`own` are the tasks that this process is to do; None: all."""
        self._stems, self._kind = stems, kind
        self.own = range(len(stems)) if own is None else own
        self._done: dict[int, list[M]] = {}

    def left(self) -> list[int]:
        """Return those of its own tasks that are not done."""
        return [i for i in self.own if not self._is_done(i)]

    def of(self, task: int) -> list[M]:
        """Return the markers of a task that is done."""
        if not self._is_done(task):
            # Its worker said that it is done: the first marker that is not whole is to blame.
            found = read_markers(self._stems[task], self._kind)
            raise lost(marker_file(self._stems[task], len(found)))
        return self._done[task]

    def take(self, task: int, found: list[M]) -> None:
        """Keep the markers of a task, which were read just now, if it is done."""
        if is_done(found):
            self._done[task] = found

    def hold_nothing(self) -> bool:
        """Return whether nothing was committed, or only shards with nothing in them."""
        stems = [self._stems[i] for i in self.own]
        found = (marker for stem in stems for marker in read_markers(stem, self._kind))
        return all(marker.is_empty for marker in found)

    def _is_done(self, task: int) -> bool:
        if task not in self._done:
            self.take(task, read_markers(self._stems[task], self._kind))
        return task in self._done


def trusted_markers(
    stems: Sequence[Path],
    kind: type[M],
    endings: Mapping[str, str],
    *,
    is_wanted: Callable[[M], bool] = lambda marker: True,
    own: Sequence[int] | None = None,
    rehash: bool = True,
) -> Markers[M]:
    """Return the markers, after those that are not wanted, and those of shards that are not as
    they were committed, are removed, with all after them in their tasks.

    `endings` are those of the files of a shard, by role. `own` are the tasks of this process, whose
    markers are looked at; None: all. Without `rehash`, a file that nothing seems to have touched
    since it was hashed is taken to be whole.
    """
    found = _marker_numbers(stems)
    # Markers that came from a store were compared with it when they came.
    is_stored = bool(stems) and stored_work(stems[0].parent.parent) is not None
    is_as_written = Written.is_at if rehash else Written.is_untouched_at

    def is_whole(stem: Path, number: int, marker: M) -> bool:
        return is_stored or all(
            is_as_written(written, shard_file(stem, number, endings[role]))
            for role, written in marker.files.items()
        )

    def trusted(task: int) -> list[M]:
        stem = stems[task]
        every, usable = read_markers(stem, kind), 0
        for number, marker in enumerate(every):
            if not (is_wanted(marker) and is_whole(stem, number, marker)):
                break
            usable += 1
        # The last first: a run that is killed meanwhile must not leave one behind a gap, since the
        # shards before it may be cut elsewhere when they are made again.
        for number in sorted(found.get(stem.name, ()), reverse=True):
            if number >= usable:
                marker_file(stem, number).unlink(missing_ok=True)
        return every[:usable]

    markers = Markers(stems, kind, own)
    marked = [i for i in markers.own if stems[i].name in found]
    for task, usable in zip(marked, in_threads(trusted, marked, HASHING_THREADS), strict=True):
        markers.take(task, usable)
    return markers


def _marker_numbers(stems: Sequence[Path]) -> dict[str, list[int]]:
    """Return the numbers of the shards that have a marker, by the names of their stems."""
    found: dict[str, list[int]] = {}
    for path in stems[0].parent.glob("*.done") if stems else ():
        name, _, number = path.stem.rpartition("-")
        if number.isdecimal():
            found.setdefault(name, []).append(int(number))
    return found
