"""Run jobs on workers: EXECUTORS, one contract, so far one executor.

An executor runs all jobs of a worker module (see `worker`), retries those of a dead worker,
passes messages on and raises the first error.

    jobs 0 1 2 3 4, 2 workers        each gets one job before any gets a second

    worker A    0 ████ 2 ████ 4 …    while A computes 2 it commits 0
    worker B    1 ██ ✝               SIGKILL: noticed at once
    worker C         1 ██ 3 …        B's jobs go to the next worker, three tries in all

The local executor starts new interpreters with `multiprocess` and never forks (see `processes`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dataprep.pipeline.errors import BY_NAME, DataprepError, ResourceError
from dataprep.pipeline.jobs.worker import Message

if TYPE_CHECKING:
    from dataprep.pipeline.jobs.processes import WorkerProcess

__all__ = ["EXECUTORS", "Executor", "Message", "run_local", "usable_cores"]

MAX_TRIES = 3
JOBS_IN_HAND = 2  # so that a worker can commit one while it computes the next


class Executor(Protocol):
    """Run every job; raise the first error."""

    def __call__(
        self,
        jobs: Sequence[int],
        *,
        worker: str,  # the name of a module with `begin(work)`
        work: Path,
        environment: Mapping[str, str],  # set before a worker imports anything
        num_workers: int,
        describe: Callable[[int], str],  # the name of a job in errors
        on_message: Callable[[Message], None],
    ) -> None: ...


def run_local(
    jobs: Sequence[int],
    *,
    worker: str,
    work: Path,
    environment: Mapping[str, str],
    num_workers: int,
    describe: Callable[[int], str],
    on_message: Callable[[Message], None],
) -> None:
    """Run the jobs in processes on this machine, which end when this one does, however it ends."""
    # multiprocess takes 40 ms to import, which commands that run no jobs need not wait for.
    with _signals_held_back():
        from dataprep.pipeline.jobs.processes import WorkerProcess, wait_for

    def new_process() -> WorkerProcess:
        return WorkerProcess(worker, work.absolute(), environment)

    crew = _Crew(waiting=deque(jobs), size=num_workers, new_process=new_process, describe=describe)
    try:
        while crew.waiting or crew.processes:
            crew.fill()
            crew.hand_out()
            for process in wait_for(crew.processes):
                message = process.receive()
                if message is None:
                    crew.bury(process)
                elif message["type"] == "done":
                    process.jobs.popleft()
                elif message["type"] == "error":
                    raise BY_NAME.get(message["error"], DataprepError)(message["message"])
                else:
                    on_message(message)
    finally:
        crew.dismiss()


@contextmanager
def _signals_held_back() -> Iterator[None]:
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


@dataclass(slots=True, kw_only=True)
class _Crew:
    """The jobs that wait, and the processes that have the others."""

    waiting: deque[int]
    size: int
    new_process: Callable[[], WorkerProcess]
    describe: Callable[[int], str]
    tries: Counter[int] = field(default_factory=Counter)
    processes: list[WorkerProcess] = field(default_factory=list)

    def fill(self) -> None:
        """Start processes while there are jobs for them."""
        active = self._active()
        idle = sum(not process.jobs for process in active)
        for _ in range(min(self.size - len(active), len(self.waiting) - idle)):
            # In the list before it starts, so that a signal in between leaves none behind.
            self.processes.append(self.new_process())
            self.processes[-1].start()

    def hand_out(self) -> None:
        """Give each process one job before any gets a second; close those without a job."""
        active = self._active()
        for depth in range(1, JOBS_IN_HAND + 1):
            for process in active:
                if self.waiting and len(process.jobs) < depth:
                    process.give(self.waiting.popleft())
        for process in active:
            if not process.jobs:
                process.close()

    def bury(self, process: WorkerProcess) -> None:
        """Take back the jobs of a dead process; raise if a job has killed too many."""
        self.processes.remove(process)
        code = process.reap()
        self.waiting.extendleft(reversed(process.jobs))
        if process.jobs:
            # The newer job may not have begun yet, so only the older one counts a try.
            self.tries[process.jobs[0]] += 1
            if self.tries[process.jobs[0]] >= MAX_TRIES:
                names = " or ".join(map(self.describe, process.jobs))
                raise ResourceError(_death_notice(names, code))

    def dismiss(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.reap()

    def _active(self) -> list[WorkerProcess]:
        return [process for process in self.processes if not process.is_closed]


def _death_notice(jobs: str, code: int | None) -> str:
    cause = "exit code unknown" if code is None else f"exit code {code}"
    if code is not None and code < 0:
        cause = signal.Signals(-code).name
    hint = "; the system may be out of memory: use fewer --workers" if code == -9 else ""
    return f"workers died {MAX_TRIES} times ({cause}) on {jobs}{hint}; run again to continue"


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


EXECUTORS: Mapping[str, Executor] = {"local": run_local}
