"""Tasks onto worker processes.

A worker is a fresh interpreter (`python -m …`), never a fork. Tasks go in on its stdin and small
messages come out on its stdout, one JSON object a line; tokens never cross. A worker that dies is
noticed at once (its pipe closes), replaced, and its tasks are tried again, three times in all.
A worker holds two tasks, so that it can commit one while it computes the next.

    parent                      worker
      7                   ─►                 numbers of tasks, which the worker's plan has
      12                  ─►
                          ◄─    {"type": "progress"|"sample"|…}      handed to `on_message`
                          ◄─    {"type": "done"}                     the older task; next one
                          ◄─    {"type": "error", "error": …, "message": …}
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataprep.pipeline.errors import BY_NAME, DataprepError, ResourceError

MAX_TRIES = 3
JOBS_IN_HAND = 2
Message = dict[str, Any]


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    jobs: deque[int] = field(default_factory=deque)  # in hand, the older first
    buffer: bytearray = field(default_factory=bytearray)
    is_closed: bool = False  # told that no more jobs come


def run_jobs(
    jobs: Sequence[int],
    *,
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    num_workers: int,
    describe: Callable[[int], str],
    on_message: Callable[[Message], None],
) -> None:
    """Run every job to its end; raises the first error. `describe(job)` names a job in errors."""
    waiting = deque(jobs)
    tries = Counter[int]()
    workers: dict[int, _Worker] = {}  # by the descriptor of their stdout
    with selectors.DefaultSelector() as selector:

        def start() -> None:
            process = subprocess.Popen(
                # -P: what lies in the user's folder is not to be imported.
                [sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **environment},
            )
            assert process.stdout is not None
            descriptor = process.stdout.fileno()
            workers[descriptor] = _Worker(process)
            selector.register(descriptor, selectors.EVENT_READ)

        def hand_out() -> None:
            """One job each before anyone has a second; who has none may go."""
            active = [worker for worker in workers.values() if not worker.is_closed]
            for depth in range(1, JOBS_IN_HAND + 1):
                for worker in active:
                    if waiting and len(worker.jobs) < depth:
                        worker.jobs.append(waiting.popleft())
                        _write(worker, worker.jobs[-1])
            for worker in active:
                if not worker.jobs:
                    _close(worker)

        def bury(worker: _Worker) -> None:
            code = _reap(worker)
            waiting.extendleft(reversed(worker.jobs))
            if worker.jobs:
                # The younger job may not even have begun, so only the older has had its try.
                tries[worker.jobs[0]] += 1
                if tries[worker.jobs[0]] >= MAX_TRIES:
                    names = " or ".join(describe(job) for job in worker.jobs)
                    raise ResourceError(_death_notice(names, code))

        try:
            while waiting or workers:
                active = [worker for worker in workers.values() if not worker.is_closed]
                idle = sum(not worker.jobs for worker in active)
                for _ in range(min(num_workers - len(active), len(waiting) - idle)):
                    start()
                hand_out()
                for key, _ in selector.select(timeout=1.0):
                    worker = workers[key.fd]
                    data = os.read(key.fd, 1 << 16)
                    for message in _messages(worker, data):
                        if message["type"] == "done":
                            worker.jobs.popleft()
                        elif message["type"] == "error":
                            raise _error(message)
                        else:
                            on_message(message)
                    if not data:
                        selector.unregister(key.fd)
                        del workers[key.fd]
                        bury(worker)
        finally:
            for worker in workers.values():
                worker.process.kill()
                _reap(worker)


def _write(worker: _Worker, job: int) -> None:
    assert worker.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died; its stdout says so next
        worker.process.stdin.write(b"%d\n" % job)
        worker.process.stdin.flush()


def _messages(worker: _Worker, data: bytes) -> list[Message]:
    worker.buffer += data
    *lines, rest = bytes(worker.buffer).split(b"\n")
    worker.buffer = bytearray(rest)
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        raise ResourceError(f"a worker said what is no message: {lines[0][:200]!r}") from None


def _error(message: Message) -> DataprepError:
    return BY_NAME.get(message["error"], DataprepError)(message["message"])


def _close(worker: _Worker) -> None:
    worker.is_closed = True
    assert worker.process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        worker.process.stdin.close()


def _reap(worker: _Worker) -> int:
    _close(worker)
    code = worker.process.wait()
    assert worker.process.stdout is not None
    worker.process.stdout.close()
    return code


def _death_notice(what: str, code: int) -> str:
    cause = f"exit code {code}"
    if code < 0:
        cause = signal.Signals(-code).name
    hint = "; the system may be out of memory: use fewer --workers" if code == -9 else ""
    return f"workers died {MAX_TRIES} times ({cause}) on {what}{hint}; run again to go on"


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
