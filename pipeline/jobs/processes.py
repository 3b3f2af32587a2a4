"""One worker process: a new interpreter that `multiprocess` spawns, and the connection to it.

    parent                      worker (`worker.serve`)
      (module, folder)    ─►                     whose jobs come next
      7                   ─►                     numbers of jobs in the plan
      12                  ─►
      REST                ─►                     there are no more jobs of this run
      None                ─►                     nor of another; the worker ends
                          ◄─    {"type": …}      messages, then the end of the connection
                          ◄─    steps, records   the `trail`: shared memory
      addresses           ─►                     with their credentials (`secrets`): shared memory

A spawned process usually imports the parent's `__main__` and copies its `sys.path`. A worker does
neither: otherwise a script without `if __name__ == "__main__"` would run again in it, and it would
import a `random.py` from the user's folder.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from multiprocess import connection, get_context, resource_tracker, spawn

from dataprep.pipeline.jobs.deaths import STUCK, Death, death_of
from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.pipes import Inbox
from dataprep.pipeline.jobs.trail import Doing, Trail
from dataprep.pipeline.jobs.worker import HELD_BACK, REST, SAFE_PATH, Message, serve
from dataprep.pipeline.threads.exits import UNBROKEN, leave_first

END_SECONDS = 30.0  # that a worker may take to end after it has closed its connection


class WorkerProcess:
    """A worker process and the jobs that it has been given."""

    def __init__(
        self, worker: str, work: Path, environment: Mapping[str, str], addresses: Handed
    ) -> None:
        self.jobs: deque[int] = deque()  # the older first
        self.is_closed = False  # it was told that there are no more jobs
        self.has_failed = False  # it has sent an error, so that it ends without having died
        self.is_up = True  # jobs that it is given meanwhile wait for it
        self._killed_for: Death | None = None
        self._last_words = ""
        self.environment = environment
        self._order = worker, work
        context = get_context("spawn")
        with _standard_numbers_taken():
            self._connection, self._theirs = context.Pipe()
            self._trail = Trail()
        self._inbox = Inbox(self._connection.fileno())
        keeps_safe_path = SAFE_PATH in environment or SAFE_PATH in os.environ
        self._process = context.Process(
            target=serve,
            args=(self._theirs, self._trail, addresses),
            kwargs={"parent": os.getpid(), "keeps_safe_path": keeps_safe_path},
            daemon=True,  # an interpreter that exits ends it instead of waiting for it
        )

    def start(self) -> None:
        """Start it, unless it was kept; it begins with what it is to do."""
        if self._process.pid is None:
            self._start()
        self._send(self._order)

    def _start(self) -> None:
        leave_first()  # before multiprocess ends workers and waits for them
        # One at a time: what changes meanwhile belongs to the whole process. Not broken off either:
        # nobody would know of the worker.
        with UNBROKEN, _standard_numbers_taken(), _like_a_command(self.environment):
            self._process.start()
        self._theirs.close()  # so that the worker's death ends the connection

    def give(self, job: int) -> None:
        self.jobs.append(job)
        self._send(job)

    def rest(self) -> None:
        """Let it wait for another run, having no job of this one."""
        self._send(REST)

    def take_up(self, worker: str, work: Path) -> None:
        """Let it begin with another run when it is started next."""
        self._order = worker, work

    def close(self) -> None:
        self.is_closed = True
        self._send(REST)
        self._send(None)

    def _send(self, what: tuple[str, Path] | int | None) -> None:
        with suppress(ConnectionError):  # it died; `receive` will notice
            self._connection.send(what)

    def signs(self) -> list[Any]:
        """Return what becomes ready when the worker has sent a message or has died."""
        return [self._connection, self._process.sentinel]

    def receive(self) -> tuple[list[Message], bool]:
        """Return the messages that have come, and whether it is dead, so that no more come.

        It may be stopped in the middle of a message: this never waits for the rest.
        """
        # Looked at first: what a dead worker has sent is there by now.
        is_dead = bool(connection.wait([self._process.sentinel], 0))
        messages: list[Message] = [pickle.loads(data) for data in self._inbox.take()]
        for message in messages:
            if message["type"] == "dying":
                self._last_words = message["cause"]
        return messages, is_dead or self._inbox.is_closed

    def doing(self) -> Doing:
        return self._trail.read()

    def is_stopped(self) -> bool:
        """Return whether a signal has stopped it, where the system tells (Linux)."""
        try:
            with open(
                f"/proc/{self._process.pid}/stat", encoding="ascii", errors="replace"
            ) as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    def kill(self, cause: Death | None = None) -> None:
        self._killed_for = cause
        if self._process.pid is not None:
            self._process.kill()

    def reap(self) -> tuple[Death, Doing]:
        """Wait until it ends; return its death and what it was doing."""
        self._connection.close()
        self._theirs.close()
        code: int | None = None
        if self._process.pid is not None:  # None: its start was interrupted
            if not self._ends():  # it has closed the connection, but hangs
                self.kill(STUCK)
            self._process.join()
            code = self._process.exitcode  # None if it is lost (SIGCHLD ignored)
            # If the exit code is lost, multiprocess thinks that it still runs.
            with suppress(ValueError):
                self._process.close()
        doing = self._trail.read()
        self._trail.close()
        return self._killed_for or death_of(code, self._last_words), doing

    def _ends(self) -> bool:
        """Return whether it ends before long; a program that it left may hold its sentinel."""
        deadline = time.monotonic() + END_SECONDS
        while self._process.exitcode is None and time.monotonic() < deadline:
            if connection.wait([self._process.sentinel], 0.01):
                return True
        return self._process.exitcode is not None


def wait_for(workers: Iterable[WorkerProcess], timeout: float) -> list[WorkerProcess]:
    """Wait until some of the workers have sent a message or have died, and return those.

    Without workers there is nothing to wait for: the last may have been kept for another run.
    """
    by_sign = {sign: worker for worker in workers for sign in worker.signs()}
    ready = connection.wait(list(by_sign), timeout) if by_sign else []
    return list(dict.fromkeys(by_sign[sign] for sign in ready))


@contextmanager
def _like_a_command(environment: Mapping[str, str]) -> Iterator[None]:
    """Start processes with as little from this one as a shell would give them.

    Signals wait meanwhile, if no other thread takes them: one that ended the parent before it has
    sent all would leave the worker with half a message. SIGINT is for the parent only, so it is
    blocked until the worker ignores it.
    """
    with _environment_set({**environment, SAFE_PATH: "1"}), _nothing_taken_over(), _untracked():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment_set(values: Mapping[str, str]) -> Iterator[None]:
    """Set our own environment, which a new process copies: multiprocess has no argument for it."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _nothing_taken_over() -> Iterator[None]:
    """Leave `__main__`, `sys.path` and `sys.argv` out of what multiprocess sends to a new process.

    An empty `__main__` and a shorter `sys.path` for a moment would do it too, but imports in other
    threads would see them. This affects only what this thread starts.
    """
    usual, starter = spawn.get_preparation_data, threading.get_ident()

    def prepare(name: str) -> dict[str, Any]:
        return {"name": name} if threading.get_ident() == starter else usual(name)

    spawn.get_preparation_data = prepare
    try:
        yield
    finally:
        spawn.get_preparation_data = usual


@contextmanager
def _untracked() -> Iterator[None]:
    """Start processes without the resource tracker of multiprocess, which is one more interpreter.

    It removes semaphores and shared memory that processes leave behind; workers have none.
    """
    usual, starter = resource_tracker.getfd, threading.get_ident()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    resource_tracker.getfd = lambda: nowhere if threading.get_ident() == starter else usual()
    try:
        yield
    finally:
        resource_tracker.getfd = usual
        os.close(nowhere)


@contextmanager
def _standard_numbers_taken() -> Iterator[None]:
    """Occupy descriptors 0, 1 and 2 if the user closed them, so that no pipe gets their number."""
    held = []
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        held.append(descriptor)
    os.close(descriptor)
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
