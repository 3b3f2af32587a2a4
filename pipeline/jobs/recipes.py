"""What a command must define so that `make_dataset` can make its dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.jobs.commits import Marker, Markers
from dataprep.pipeline.jobs.executors import Message
from dataprep.pipeline.jobs.limits import Limits, NameRecord, check_counts
from dataprep.pipeline.jobs.progress import Example
from dataprep.pipeline.jobs.publish import NOTHING_FOUND, Draft, Findings
from dataprep.pipeline.jobs.shares import JobShare
from dataprep.pipeline.jobs.workspace import Identity
from dataprep.pipeline.storage.manifest import Manifest

# Called with what happens, for people: ("plan" | "proof" | "start" | "progress", values).
Report = Callable[[str, Mapping[str, Any]], None]

NO_LIMITS = Limits()

P = TypeVar("P")
M = TypeVar("M", bound=Marker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    out: Path | str  # a str: the address of a folder in a bucket
    manifest: Manifest = field(repr=False)
    was_complete: bool  # there was nothing to do
    found: Findings = field(default=NOTHING_FOUND, repr=False)  # of this run
    # Inputs of the same content that were called otherwise when it was made: (then, now).
    moved: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[M]):
    """The jobs of a run, new or continued, and how workers do them."""

    worker: str  # the module with `begin(work)`
    markers: Markers[M]  # which jobs are done, and with what result
    num_workers: int
    task_timeout: float | None  # seconds without a sign of life; None: the default
    describe: Callable[[int], str]  # the name of a job in errors
    sizes: Sequence[float]  # of all jobs, by their numbers: which take longer than others
    begun: Mapping[str, Any]  # what `report` gets when the run starts
    environment: Mapping[str, str] = field(default_factory=dict)
    on_message: Callable[[Message], None] = lambda message: None  # for messages other than progress
    # Bad records of tasks that an earlier run has done: how many, and the first of them.
    known_bad: Mapping[int, tuple[int, list[Example]]] = field(default_factory=dict)
    name_record: NameRecord = lambda task, piece, line: f"record {line} of task {task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Generic[P, M]):
    """One command; P is its plan, M the marker that its workers commit."""

    out: str
    plan: Callable[[], P]  # look at the inputs; write nothing
    identity: Callable[[P], Identity]  # the fingerprint is its hash
    names: Callable[[P], Sequence[str]]  # of the inputs, in the order of identity["sources"]
    reads: Callable[[P], Sequence[str]]  # files and folders that are read: none may lie in `out`
    begin: Callable[[P, Path, Report], Work[M]]  # write the plan for the workers
    changed: Callable[[P], str]  # which input changed since it was planned, or ""
    draft: Callable[[P, Path, Markers[M]], Draft]  # the dataset, by its markers
    # The fingerprints of the inputs, if there may be more of them than identity["sources"] lists.
    prints: Callable[[P], Sequence[str]] = lambda plan: ()
    folders: Callable[[P], Sequence[str]] = lambda plan: ()  # `out` may not lie in one of these
    limits: Limits = NO_LIMITS
    check: Callable[[Mapping[str, int], Limits], None] = check_counts  # refuse an empty result
    may_change: tuple[str, ...] = ()  # config keys that may change when a run is continued
    executor: str = "local"  # of EXECUTORS
    executor_options: Mapping[str, Any] = field(default_factory=dict)  # what only that one takes
    share: JobShare | None = None  # what an element of a task array does; None: all


class UntrustedWorkError(Exception):
    """The work done so far cannot be used, because of the error that this holds."""

    def __init__(self, cause: DataprepError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def done_by_others(
    worker: str, markers: Markers[M], sizes: Sequence[float], describe: Callable[[int], str]
) -> Work[M]:
    """Return the work that others have done, with nothing prepared for workers."""
    num_jobs, num_left = len(markers.own), len(markers.left())
    return Work(
        worker=worker,
        markers=markers,
        sizes=sizes,
        num_workers=1,
        task_timeout=None,
        describe=describe,
        begun={"tasks": num_jobs, "tasks_done": num_jobs - num_left},
    )
