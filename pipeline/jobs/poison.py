"""Records that kill their worker: found, remembered, and then treated as bad records.

    try 1    task 7 dies on the records 3200 to 3941 of piece 0  .work/poison-000007.json: suspects
    try 2    they are run one by one; it dies on record 3517     .work/poison-000007.json: suspects
    try 3    it dies on record 3517 again, with no other worker  .work/poison-000007.json: records
    try 4    record 3517 is bad: "a worker died of SIGSEGV on this record"

The parent writes the file of a task, workers read it before they begin with that task. What is
written in the end depends only on which records are poison, not on when and how often workers died.
The last try has the machine to itself, so that what many workers need is not taken for the fault of
a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.pipeline.errors import ResourceError
from dataprep.pipeline.jobs.deaths import Death
from dataprep.pipeline.jobs.plans import find_plan, write_plan
from dataprep.pipeline.jobs.trail import Doing, Place, Span

POISON = "poison"  # what the names of the files begin with
MAX_TRIES = 3
MOST_IN_A_ROW = 3  # records that lacked memory, with none between them that went through


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonRecord:
    task: int
    place: Place
    reason: str
    lacks_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """What is known so far of a task; also its file."""

    records: tuple[PoisonRecord, ...] = ()
    suspects: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPoison:
    """What is known of one task."""

    records: Mapping[Place, PoisonRecord]
    suspects: Span | None

    def touches(self, start: Place, stop: Place) -> bool:
        """Return whether any record from `start` up to `stop` is poison or suspect."""
        if self.suspects and start < self.suspects[1] and self.suspects[0] < stop:
            return True
        return any(start <= place < stop for place in self.records)

    def singles_out(self, place: Place) -> bool:
        return place in self.records or self.suspects_at(place)

    def suspects_at(self, place: Place) -> bool:
        return self.suspects is not None and self.suspects[0] <= place < self.suspects[1]


def poison_name(task: int) -> str:
    """Return the name of the file of a task: poison-000007.json"""
    return f"{POISON}-{task:06d}.json"


def read_poison(work: Path, task: int) -> Poison:
    """Return what is known; if the file is damaged, workers die again and it is found again."""
    return find_plan(work, Poison, poison_name(task)) or Poison()


def has_poison(work: Path) -> bool:
    """Return whether anything is known of any task."""
    return any(work.glob(f"{POISON}-*.json"))


def poison_of(work: Path, task: int) -> TaskPoison:
    """Return what is known of a task, for its worker."""
    known = read_poison(work, task)
    return TaskPoison(
        records={record.place: record for record in known.records}, suspects=known.suspects
    )


def forget_poison(work: Path, tasks: Iterable[int]) -> None:
    """Try every record of these tasks again, as a run that stops at the first bad one does."""
    if has_poison(work):
        for task in tasks:
            (work / poison_name(task)).unlink(missing_ok=True)


class Deaths:
    """The deaths of the tasks of a run: who may try again, and which records are to blame."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._by_task: dict[int, list[Place | None]] = {}  # since a record was found; where alone
        # Records that lacked memory since one went through: in each task, and in any.
        self._rows: dict[int | None, list[PoisonRecord]] = {}

    def tries(self, task: int) -> int:
        return len(self._by_task.get(task, ()))

    def add(self, task: int, name: str, doing: Doing, death: Death) -> None:
        """Note a death, and where to look closely; raise if the task has killed too many."""
        span = doing.span if doing.job == task and death.may_be_poison else None
        places = self._by_task.setdefault(task, [])
        places.append(span[0] if span and doing.alone else None)
        if doing.passed:
            self._rows.pop(doing.job, None)
            self.went_through()
        if len(places) >= MAX_TRIES:
            if places[-1] is None or places[-1] != places[-2]:
                raise ResourceError(_notice(name, death))
            self._blame(task, places[-1], name, death)
            places.clear()
        elif span:
            self._write(task, replace(read_poison(self._work, task), suspects=span))

    def went_through(self) -> None:
        """Note that records of some task went through."""
        self._rows.pop(None, None)

    def _blame(self, task: int, place: Place, name: str, death: Death) -> None:
        record = PoisonRecord(
            task=task,
            place=place,
            reason=f"a worker {death.reason} on this record",
            lacks_memory=death.lacks_memory,
        )
        known = read_poison(self._work, task)
        self._write(task, replace(known, records=(*known.records, record)))
        for key in (task, None) if death.lacks_memory else ():
            row = self._rows.setdefault(key, [])
            row.append(record)
            if len(row) > MOST_IN_A_ROW:
                # It is the memory that is wrong, not so many records: they are as good as new.
                for each in row:
                    self._acquit(each)
                raise ResourceError(_notice(name, death))

    def _acquit(self, record: PoisonRecord) -> None:
        known = read_poison(self._work, record.task)
        others = tuple(each for each in known.records if each != record)
        self._write(record.task, replace(known, records=others))

    def _write(self, task: int, known: Poison) -> None:
        write_plan(self._work, known, poison_name(task))


def _notice(name: str, death: Death) -> str:
    hint = f"; {death.hint}" if death.hint else ""
    return f"workers died {MAX_TRIES} times ({death.cause}) on {name}{hint}; run again to continue"
