"""Run jobs on workers: EXECUTORS, one contract.

An executor runs all jobs of a worker module (see `worker`), retries those of a worker that died,
was stopped or got stuck (see `poison`), passes messages on, and raises the error of the first job
that has one: in the order of the jobs, not of time.

    jobs 0 1 2 3 4, 2 workers        each gets one job before any gets a second (see `crew`)

    worker A    0 ████ 2 ████ 4 …    while A computes 2 it commits 0
    worker B    1 ██ ✝               SIGKILL: noticed at once
    worker C         1 ██ 3 …        B's jobs go to the next worker, three tries in all

The local executor starts new interpreters with `multiprocess` and never forks (see `processes`);
that of Ray does the same on the machines of a cluster (see `slots`), and gives out the largest jobs
first, so that none of them is begun last.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dataprep.pipeline.errors import BY_NAME, DataprepError, ResourceError
from dataprep.pipeline.guards import secrets
from dataprep.pipeline.jobs.crew import LOOK_SECONDS, Crew, Hand
from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.kept import kept_workers
from dataprep.pipeline.jobs.poison import Deaths
from dataprep.pipeline.jobs.worker import Message
from dataprep.pipeline.threads.exits import stopped_at_exit

if TYPE_CHECKING:
    from dataprep.pipeline.jobs.processes import WorkerProcess

__all__ = [
    "EXECUTORS",
    "Executor",
    "JobError",
    "Message",
    "keeps_memory",
    "options_of",
    "run_crew",
    "run_local",
    "signals_held_back",
    "usable_cores",
    "workers_worth",
]


MOST_WORKERS = 1 << 16


class JobError(Exception):
    """An error that belongs to a job: that of an earlier job, if there is one, is told instead."""

    def __init__(self, job: int, cause: DataprepError) -> None:
        super().__init__(str(cause))
        self.job, self.cause = job, cause


class Executor(Protocol):
    """Run every job; raise the error of the first that has one."""

    def __call__(
        self,
        jobs: Sequence[int],
        *,
        sizes: Sequence[float],  # of all jobs, by their numbers
        worker: str,  # the name of a module with `begin(work)`
        work: Path,
        environment: Mapping[str, str],  # set before a worker imports anything
        num_workers: int,
        task_timeout: float | None,  # seconds without a sign of life; None: the default
        describe: Callable[[int], str],  # the name of a job in errors
        on_message: Callable[[Message], None],  # may raise a JobError
    ) -> None: ...


@stopped_at_exit
def run_local(
    jobs: Sequence[int],
    *,
    sizes: Sequence[float] = (),
    worker: str,
    work: Path,
    environment: Mapping[str, str],
    num_workers: int,
    task_timeout: float | None = None,
    describe: Callable[[int], str],
    on_message: Callable[[Message], None],
) -> None:
    """Run the jobs in processes on this machine, which end when this one does, however it ends;
    in their order, whatever their `sizes`."""
    # multiprocess takes 40 ms to import, which commands that run no jobs need not wait for.
    with signals_held_back():
        from dataprep.pipeline.jobs.processes import WorkerProcess, wait_for

    known, kept = secrets.packed(), kept_workers()

    def new_process() -> WorkerProcess:
        process = kept.take(environment, known)
        if process is None:
            return WorkerProcess(worker, work.absolute(), environment, addresses)
        process.take_up(worker, work.absolute())
        return process

    crew = Crew(
        waiting=sorted(jobs),
        size=num_workers,
        new_process=new_process,
        keep=lambda process: kept.keep(process, known),
        describe=describe,
        deaths=Deaths(work),
        timeout=task_timeout,
    )
    addresses = Handed(known)
    try:
        run_crew(crew, wait_for, on_message)
    finally:
        addresses.close()


def run_ray(jobs: Sequence[int], **given: Any) -> None:
    """Run the jobs on a cluster of Ray, or on one that is started on this machine."""
    with signals_held_back():
        from dataprep.pipeline.jobs.cluster import run_on_cluster

    run_on_cluster(jobs, **given)


def run_crew(
    crew: Crew,
    wait_for: Callable[[Iterable[Any], float], Iterable[Hand]],
    on_message: Callable[[Message], None],
) -> None:
    """Run the jobs of a crew to their end; `wait_for` those that have something to say."""
    try:
        while crew.is_busy():
            crew.hand_out()
            for process in wait_for(crew.processes, LOOK_SECONDS):
                messages, is_dead = process.receive()
                for message in messages:
                    _take_message(message, process, crew, on_message)
                if is_dead:
                    crew.bury(process)
            crew.look_after()
    finally:
        crew.dismiss()
    crew.raise_first_error()


def _take_message(
    message: Message,
    process: Hand,
    crew: Crew,
    on_message: Callable[[Message], None],
) -> None:
    if message["type"] == "done":
        process.jobs.remove(message["job"])
    elif message["type"] == "passed":
        crew.deaths.went_through()
    elif message["type"] == "error":
        process.has_failed = True
        error = BY_NAME.get(message["error"], DataprepError)(message["message"])
        if message["job"] is None or isinstance(error, ResourceError):
            raise error  # the fault of no job
        crew.fail(message["job"], error)
    elif message["type"] != "dying":
        try:
            on_message(message)
        except JobError as error:
            crew.fail(error.job, error.cause)


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Let Ctrl-C wait: packages import others in `try: … except:`, which would swallow it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs the handlers of signals in the main thread only
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: its handler was not set by Python, which cannot set it again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    for late in came:
        signal.raise_signal(late)


def keeps_memory() -> dict[str, str]:
    """Return the environment in which glibc keeps some of what a worker frees, for its next arrays.

    Arrays of megabytes, a new one for each batch, would else be given back to the system and come
    again page by page: a fifth of the time of a worker that does little else than copy.
    """
    values = {"MALLOC_TRIM_THRESHOLD_": 64 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}
    return {name: os.environ.get(name, str(value)) for name, value in values.items()}


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def most_workers(executor: str) -> int:
    """Return how many workers there can be; a cluster knows that itself."""
    return usable_cores() if executor == "local" else MOST_WORKERS


def workers_worth(num_bytes: float, bytes_per_worker: int, most: int) -> int:
    """Return how many workers so much is worth: one for what takes as long as its start, at least
    one, and at most `most`."""
    return int(min(most, max(1, num_bytes / bytes_per_worker)))


def options_of(executor: str, ray_address: str | None, workers: int | None) -> dict[str, Any]:
    """Return what only this executor takes."""
    return {"address": ray_address, "asked": workers} if executor == "ray" else {}


EXECUTORS: Mapping[str, Executor] = {"local": run_local, "ray": run_ray}
