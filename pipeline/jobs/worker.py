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

After its last job a worker is told to rest, and then to end or to begin with the jobs of another
run; modules that it has imported stay, what `begin` loaded goes.

A job says which records it is about to work on, `{"type": "at", …}`: that is its sign of life, and
tells where it was if it dies. Messages of this type go to the `trail`, which is nearly free.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.pipeline.errors import DataprepError, lacks_memory, short
from dataprep.pipeline.files import disk_errors_named
from dataprep.pipeline.guards import secrets
from dataprep.pipeline.jobs.deaths import OUT_OF_MEMORY
from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.pipes import send_whole
from dataprep.pipeline.jobs.trail import Span, Trail

if TYPE_CHECKING:
    from concurrent.futures import Future

    from multiprocess.connection import Connection

SAFE_PATH = "PYTHONSAFEPATH"
REST = -1  # in the place of a job: there are no more of this run
# Signals that wait while a worker is started, and in it until it is an ordinary process.
HELD_BACK = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM}
Message = Mapping[str, Any]  # {"type": "progress", …}; small: no tokens
Send = Callable[[Message], None]
Commit = Callable[[], None]
RunJob = Callable[[int, Send], Commit]  # a job is the number of a task in the plan


def at(span: Span | None, *, alone: bool = False, skips: bool = False) -> Message:
    """Return the message that says which records are worked on; None: it lives, but on none.

    `alone`: it is one record, so that it is to blame if the worker dies; `skips`: a record that is
    known as poison is left out.
    """
    return {"type": "at", "span": span, "alone": alone, "skips": skips}


def serve(
    connection: Connection,
    trail: Trail,
    addresses: Handed,
    *,
    parent: int,
    keeps_safe_path: bool,
) -> None:
    """Run what the connection brings until it brings None: a worker module and the work folder, the
    numbers of jobs, REST, and so on."""
    gc.disable()  # imports leave no garbage
    die_with_parent(parent)
    _die_first()
    _become_ordinary(keeps_safe_path)
    _print_to_stderr()
    # A program that a library runs must not keep it open: it must close when this process dies.
    os.set_inheritable(connection.fileno(), False)
    lock = threading.Lock()

    def send(message: Message) -> None:
        if message["type"] == "at":
            trail.at(message["span"], alone=message["alone"], skips=message["skips"])
            return
        # Not `connection.send`: dill takes 14 ms for a sample of 20,000 ids, pickle 0.2 ms.
        data = pickle.dumps(message)
        with lock, _exit_without_parent():
            send_whole(connection.fileno(), data)

    def receive() -> Any:
        with _exit_without_parent():
            return connection.recv()

    secrets.learn(addresses.read())
    addresses.close()
    is_first = True
    for worker, work in iter(receive, None):
        jobs = iter(receive, REST)
        if not _serve_run(worker, work, jobs, send, trail, freezes=is_first):
            return
        is_first = False
        gc.unfreeze()
        trail.rest()


def _serve_run(
    worker: str, work: Path, jobs: Iterator[int], send: Send, trail: Trail, *, freezes: bool
) -> bool:
    """Run the jobs of one run; return whether all is well."""
    is_well = False
    with _errors_told(send, work, job=None):
        run: RunJob = import_module(worker).begin(work)
        if freezes:  # what all jobs need stays to the end: garbage is not looked for in it
            gc.freeze()
            gc.enable()
        is_well = run_in_turn(run, jobs, send, work, trail)
    return is_well  # noqa: RET504 (after an error that was told it is still False)


def run_in_turn(run: RunJob, jobs: Iterator[int], send: Send, work: Path, trail: Trail) -> bool:
    """Run each job while the one before it is committed; stop at the first error. Return whether
    there was none."""

    def begin(job: int) -> Commit | None:
        commit: Commit | None = None
        trail.begin(job)
        with _errors_told(send, work, job):
            commit = run(job, send)
        if trail.read().passed:
            send({"type": "passed"})
        trail.begin(None)
        return commit

    def finish(job: int, commit: Commit) -> bool:
        # This thread reports its errors itself: the other one may be waiting for a job.
        is_done = False
        with _errors_told(send, work, job):
            commit()
            send({"type": "done", "job": job})
            is_done = True
        return is_done  # noqa: RET504 (after an error that was told it is still False)

    # Not at the top: a parent whose main thread has ended could not import it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        committing: Future[bool] | None = None
        for job in jobs:
            commit = begin(job)
            is_done = committing is None or committing.result()
            if commit is None or not is_done:
                return False
            committing = pool.submit(finish, job, commit)
        return committing is None or committing.result()


@contextmanager
def _errors_told(send: Send, writes_below: Path, job: int | None) -> Iterator[None]:
    """Send an error to the parent, by the name of its class; die of what is not an Exception."""
    try:
        with disk_errors_named(writes_below):
            yield
    except BaseException as error:
        if lacks_memory(error):
            os._exit(OUT_OF_MEMORY)
        if not isinstance(error, Exception):  # a panic of Rust, SystemExit
            text = f"{type(error).__name__}: {error}".partition("\n")[0]
            send({"type": "dying", "cause": short(text, 200)})
            os._exit(1)
        name, message = type(error).__name__, str(error)
        if not isinstance(error, DataprepError):
            name, message = "DataprepError", _failure(error)
        send({"type": "error", "job": job, "error": name, "message": message})


def _failure(error: Exception) -> str:
    """Return one line for the user, and the traceback for a report."""
    line = short(f"{type(error).__name__}: {error}".partition("\n")[0], 200)
    trace = "".join(traceback.format_exception(error))
    return f"a worker failed, which is a fault of dataprep ({line}); please report it:\n{trace}"


@contextmanager
def _exit_without_parent() -> Iterator[None]:
    """Exit at once if the parent is gone: the folder may belong to another run by now."""
    try:
        yield
    except (EOFError, ConnectionError):
        os._exit(1)


def die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _die_first() -> None:
    """Let the kernel kill this process before others if memory runs out: it can be replaced."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _become_ordinary(keeps_safe_path: bool) -> None:
    """Undo what only the start needed, so that libraries can run programs and processes."""
    from multiprocess import current_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
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
