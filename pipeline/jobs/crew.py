"""The workers of a run: who gets which job, who is stuck, and what becomes of the jobs of the dead.

waiting    3 4 5 6            in order; jobs that come back are put in their place
A          1 2                two jobs in hand, so that it can commit one while it runs the next
B          7                  its worker died once: this job is run with no other in hand
failed     4: InputError      jobs after 4 are given up; 1 2 3 are still run, they come first
"""

from __future__ import annotations

import time
from bisect import insort
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from dataprep.pipeline.errors import DataprepError, ResourceError
from dataprep.pipeline.jobs.deaths import STOPPED, STUCK, Death
from dataprep.pipeline.jobs.poison import MAX_TRIES, Deaths
from dataprep.pipeline.jobs.trail import Doing
from dataprep.pipeline.jobs.worker import Message

JOBS_IN_HAND = 2  # so that a worker can commit one while it computes the next
DEFAULT_TIMEOUT = 3600.0  # seconds: longer than the largest document takes with a slow tokenizer
START_TIMEOUT = 300.0  # least seconds to import, load and compile before the first job
CLOSE_TIMEOUT = 60.0  # seconds to end after the last job
LOOK_SECONDS = 1.0  # how often workers are looked at
STOPPED_SECONDS = 5.0
MOST_LOSSES = 20  # of machines under one job, or of workers before they are up
MOST_SECONDS = 2.0  # that a look counts: if the run itself was stopped, nobody was stuck meanwhile


class Hand(Protocol):
    """A worker as its crew sees it: a process of this machine, or one behind a cluster."""

    jobs: deque[int]  # the older first
    is_closed: bool  # it was told that there are no more jobs
    has_failed: bool  # it has sent an error, so that it ends without having died

    @property
    def is_up(self) -> bool:
        """Whether it can be given jobs: what others wait for may never start."""

    def start(self) -> None: ...
    def give(self, job: int) -> None: ...
    def close(self) -> None: ...
    def kill(self, cause: Death | None = None) -> None: ...
    def reap(self) -> tuple[Death, Doing]: ...
    def receive(self) -> tuple[list[Message], bool]: ...
    def doing(self) -> Doing: ...
    def is_stopped(self) -> bool: ...


@dataclass(slots=True, kw_only=True)
class LifeSigns:
    """For how long a worker has been quiet or stopped."""

    steps: int = -1
    quiet: float = 0.0
    stopped: float = 0.0


@dataclass(slots=True, kw_only=True)
class Crew:
    """The jobs that wait, and the processes that have the others."""

    waiting: list[int]  # in order
    size: int
    new_process: Callable[[], Hand]
    keep: Callable[[Any], bool]  # for another run, if that may be; it has no job
    describe: Callable[[int], str]
    deaths: Deaths
    timeout: float | None
    order: Callable[[int], Any] = lambda job: job  # by which waiting jobs are sorted
    processes: list[Hand] = field(default_factory=list)
    losses: Counter[int | None] = field(default_factory=Counter)  # by job; None: before it was up
    failed: dict[int, DataprepError] = field(default_factory=dict)
    # Jobs that were in hand when a worker died, which may have been the fault of either.
    singly: set[int] = field(default_factory=set)
    watches: dict[int, LifeSigns] = field(default_factory=dict)  # by id of the process
    looked: float = field(default_factory=time.monotonic)

    def is_busy(self) -> bool:
        if self.failed:
            return bool(self.waiting) or any(map(self._needed, self.processes))
        return bool(self.waiting or self.processes)

    def hand_out(self) -> None:
        """Give each process one job before any gets a second; keep or close those without one."""
        for depth in range(1, JOBS_IN_HAND + 1):
            while self.waiting and (process := self._taker(self.waiting[0], depth)) is not None:
                process.give(self.waiting.pop(0))
        for process in self._active():
            if process.jobs or (self.waiting and not process.is_up):
                continue
            if not process.is_up:  # it would first have to start, for nothing
                self.processes.remove(process)
                process.kill()
                process.reap()
                continue
            # After a failure it may have been killed: nobody needs it any more.
            if not (self.waiting or self.failed) and self.keep(process):
                self.processes.remove(process)
                self.watches.pop(id(process), None)
            else:
                process.close()

    def _taker(self, job: int, depth: int) -> Hand | None:
        """Return the process to give this job to, if it may be begun now."""
        active = self._active()
        in_hand = [j for process in self.processes for j in process.jobs]
        if any(map(self._is_last_try, in_hand)) or (self._is_last_try(job) and in_hand):
            return None  # the last try has the machine to itself
        for process in active:
            alone = job in self.singly or any(j in self.singly for j in process.jobs)
            if process.is_up and len(process.jobs) < (1 if alone else depth):
                return process
        num_coming = sum(not process.is_up for process in active)
        for _ in range(min(self.size - len(active), len(self.waiting) - num_coming)):
            process = self._start()
            if process.is_up:
                return process
        return None

    def _start(self) -> Hand:
        # In the list before it starts, so that a signal in between leaves none behind.
        self.processes.append(self.new_process())
        try:
            self.processes[-1].start()
        except OSError as error:
            raise ResourceError(
                f"cannot start a worker: {error.strerror}; use fewer --workers, or raise the limit "
                "(ulimit -a lists them)"
            ) from error
        return self.processes[-1]

    def _is_last_try(self, job: int) -> bool:
        return self.deaths.tries(job) == MAX_TRIES - 1

    def bury(self, process: Hand) -> None:
        """Take back the jobs of a process that has ended; raise if a job has killed too many."""
        self.processes.remove(process)
        self.watches.pop(id(process), None)
        was_up = process.is_up
        death, doing = process.reap()
        jobs = [job for job in process.jobs if not self._is_given_up(job)]
        for job in jobs:
            insort(self.waiting, job, key=self.order)
        if death.is_loss:
            for job in jobs:
                self._lose(job, death)
            if not was_up:
                self._lose(None, death)
        elif jobs and not process.has_failed:
            self.singly.update(jobs)
            job = doing.job if doing.job in jobs else jobs[0]
            self.deaths.add(job, self.describe(job), doing, death)

    def _lose(self, job: int | None, death: Death) -> None:
        """Count a worker that went with its machine, which is the fault of no job."""
        self.losses[job] += 1
        if self.losses[job] > MOST_LOSSES:
            when = "before they began" if job is None else f"on {self.describe(job)}"
            count = self.losses[job]
            raise ResourceError(
                f"{count} workers were lost {when} ({death.cause}); run again to continue"
            )

    def fail(self, job: int, error: DataprepError) -> None:
        """Give up this job and all after it; those before it are run, since they may fail too."""
        self.failed[job] = error
        self.waiting = [job for job in self.waiting if not self._is_given_up(job)]
        for process in self.processes:
            if not self._needed(process):
                process.kill()

    def raise_first_error(self) -> None:
        if self.failed:
            raise self.failed[min(self.failed)]

    def look_after(self) -> None:
        """Kill workers that are stopped or stuck; `bury` then takes their jobs back."""
        now = time.monotonic()
        if now - self.looked < LOOK_SECONDS:
            return
        elapsed, self.looked = min(now - self.looked, MOST_SECONDS), now
        for process in filter(lambda each: each.is_up, self.processes):
            watch = self.watches.setdefault(id(process), LifeSigns())
            watch.stopped = watch.stopped + elapsed if process.is_stopped() else 0.0
            steps = process.doing().steps
            watch.quiet = watch.quiet + elapsed if steps == watch.steps else 0.0
            watch.steps = steps
            if watch.stopped >= STOPPED_SECONDS:
                process.kill(STOPPED)
            elif watch.quiet >= self._patience(process, steps):
                process.kill(STUCK)

    def _patience(self, process: Hand, steps: int) -> float:
        if not process.jobs:
            return CLOSE_TIMEOUT
        timeout = DEFAULT_TIMEOUT if self.timeout is None else self.timeout
        return timeout if steps else max(timeout, START_TIMEOUT)

    def dismiss(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.reap()

    def _active(self) -> list[Hand]:
        return [process for process in self.processes if not process.is_closed]

    def _needed(self, process: Hand) -> bool:
        return any(not self._is_given_up(job) for job in process.jobs)

    def _is_given_up(self, job: int) -> bool:
        return bool(self.failed) and job >= min(self.failed)
