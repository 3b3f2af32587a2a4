"""The worker's side of `executors`: receive numbers of jobs, send messages.

A worker module has one top-level function, the same for a local process, a Ray task or an element
of a Slurm array:

    def begin(work: Path) -> RunJob            load what every job needs, once
        run(job: int, send: Send) -> Commit    do one job, up to its commit

A commit (hash, fsync, rename) waits for the disk more than it computes, so it runs in a thread
while the next job begins. Commits stay in order, and a job is done when its commit is:

    main thread     run 7 │ run 12        │ run 13 …
    commit thread         │ commit 7      │ commit 12 …
    messages              │   {"type": "done"}
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.files import disk_errors_named

if TYPE_CHECKING:
    from multiprocess.connection import Connection

SAFE_PATH = "PYTHONSAFEPATH"
Message = dict[str, Any]  # {"type": "progress", …}; small: no tokens
Send = Callable[[Message], None]
Commit = Callable[[], None]
RunJob = Callable[[int, Send], Commit]  # a job is the number of a task in the plan


def serve(
    connection: Connection, worker: str, work: Path, *, parent: int, keeps_safe_path: bool
) -> None:
    """Run the jobs that the connection brings until it brings None."""
    _die_with_parent(parent)
    _become_ordinary(keeps_safe_path)
    _print_to_stderr()
    # A program that a library runs must not keep it open: it must close when this process dies.
    os.set_inheritable(connection.fileno(), False)
    lock = threading.Lock()

    def send(message: Message) -> None:
        # Not `connection.send`: dill takes 14 ms for a sample of 20,000 ids, pickle 0.2 ms.
        data = pickle.dumps(message)
        with lock, _exit_without_parent():
            connection.send_bytes(data)

    def receive() -> int | None:
        with _exit_without_parent():
            job: int | None = connection.recv()
        return job

    with _errors_told(send, work):
        run: RunJob = import_module(worker).begin(work)
        run_in_turn(run, iter(receive, None), send, work)


def run_in_turn(run: RunJob, jobs: Iterator[int], send: Send, work: Path) -> None:
    """Run each job while the one before it is committed."""

    def finish(commit: Commit) -> None:
        # This thread reports its errors itself: the other one may be waiting for a job.
        with _errors_told(send, work):
            commit()
            send({"type": "done"})

    with ThreadPoolExecutor(max_workers=1) as pool:
        committing: Future[None] | None = None
        for job in jobs:
            commit = run(job, send)
            if committing is not None:
                committing.result()
            committing = pool.submit(finish, commit)


@contextmanager
def _errors_told(send: Send, writes_below: Path) -> Iterator[None]:
    """Send an error to the parent, by the name of its class."""
    try:
        with disk_errors_named(writes_below):
            yield
    except DataprepError as error:
        send({"type": "error", "error": type(error).__name__, "message": str(error)})
    except MemoryError:
        message = "a worker ran out of memory; use fewer --workers"
        send({"type": "error", "error": "ResourceError", "message": message})
    except Exception:
        text = f"a worker failed:\n{traceback.format_exc()}"
        send({"type": "error", "error": "DataprepError", "message": text})


@contextmanager
def _exit_without_parent() -> Iterator[None]:
    """Exit at once if the parent is gone: the folder may belong to another run by now."""
    try:
        yield
    except (EOFError, ConnectionError):
        os._exit(1)


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _become_ordinary(keeps_safe_path: bool) -> None:
    """Undo what only the start needed, so that libraries can run programs and processes."""
    from multiprocess import current_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # it was blocked until now
    current_process().daemon = False  # a daemon may not start processes
    if not keeps_safe_path:
        os.environ.pop(SAFE_PATH, None)


def _print_to_stderr() -> None:
    """Send what a library prints to stderr: stdout has the results of the command."""
    if sys.stderr is None:  # the user closed it, and something else may have its number by now
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.dup2(2, 1)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
