"""A worker module that does what a test tells it, and writes down what it did.

    acts = {0: ["die once"], 1: ["wait released", "commit fail InputError"]}

Steps that begin with `commit` are done in the commit. What happened is in `work/log`, a line each:
`run 0 PID`, `commit 0 PID`.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import BY_NAME
from dataprep.pipeline.jobs import worker
from dataprep.pipeline.jobs.executors import run_local
from dataprep.pipeline.jobs.trail import Span
from dataprep.pipeline.jobs.worker import Commit, RunJob, Send, at

TESTS = Path(__file__).parents[1]
MODULE = "support.toy_worker"
LARGE = [("text", list(range(300_000)))]  # more than a pipe holds
# As a worker finds them before it imports anything else.
ENVIRONMENT = dict(os.environ)


def importable() -> dict[str, str]:
    """Return the environment in which a worker finds this module."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def act_out(
    work: Path,
    acts: Mapping[int, Sequence[str]],
    *,
    num_workers: int = 1,
    task_timeout: float | None = None,
    on_message: Callable[[dict[str, Any]], None] = lambda message: None,
    run: Callable[..., None] = run_local,
    sizes: Sequence[float] | None = None,
    **environment: str,
) -> None:
    write_acts(work, acts)
    run(
        sorted(acts),
        sizes=sizes or [1] * len(acts),
        worker=MODULE,
        work=work,
        environment={**importable(), **environment},
        num_workers=num_workers,
        task_timeout=task_timeout,
        describe=lambda job: f"job {job}",
        on_message=on_message,
    )


def told(work: Path, what: str, **environment: str) -> Any:
    """Return what a worker says of itself."""
    values: list[Any] = []
    act_out(
        work,
        {0: [f"tell {what}"]},
        on_message=lambda message: values.append(message.get("value")),
        **environment,
    )
    return values[1]


def write_acts(work: Path, acts: Mapping[int, Sequence[str]]) -> None:
    work.mkdir(exist_ok=True)
    (work / "acts.json").write_text(json.dumps(acts))


def log_of(work: Path) -> list[tuple[str, int, int]]:
    """Return what was done: ("run" or "commit", job, process)."""
    lines = (work / "log").read_text().splitlines() if (work / "log").exists() else []
    return [(word, int(job), int(pid)) for word, job, pid in map(str.split, lines)]


def jobs_of(work: Path, what: str) -> list[int]:
    return [job for word, job, _ in log_of(work) if word == what]


def begin(work: Path) -> RunJob:
    time.sleep(float(os.environ.get("SLOW_START", "0")))
    if "EXIT_AT_START" in os.environ:
        os._exit(int(os.environ["EXIT_AT_START"]))
    acts = json.loads((work / "acts.json").read_text())

    def run(job: int, send: Send) -> Commit:
        _note(work, "run", job)
        steps = acts[str(job)]
        if "quiet" not in steps:
            send({"type": "ran", "job": job, "pid": os.getpid()})
        for step in steps:
            if not step.startswith("commit "):
                _do(step, work, job, send)

        def commit() -> None:
            for step in steps:
                if step.startswith("commit "):
                    _do(step.removeprefix("commit "), work, job, send)
            _note(work, "commit", job)

        return commit

    return run


def _note(work: Path, what: str, job: int) -> None:
    with open(work / "log", "a", encoding="utf-8") as file:
        file.write(f"{what} {job} {os.getpid()}\n")


def _do(step: str, work: Path, job: int, send: Send) -> None:
    name, _, argument = step.partition(" ")
    steps: dict[str, Callable[[], object]] = {
        "die": partial(_die, work, job, argument),
        "exit": partial(os._exit, int(argument) if argument.isdigit() else 1),
        "fail": partial(_fail, argument),
        "touch": (work / argument).touch,
        "wait": partial(_wait_for, work / argument),
        "talk": threading.Thread(target=send, args=[{"type": "told", "value": LARGE}]).start,
        "hang": partial(time.sleep, 3600),
        "loop": _loop,
        "live": partial(_live, argument, send),
        "panic": _panic,
        "at": lambda: send(at(_span(argument), alone=False)),
        "alone": lambda: send(at(_span(argument), alone=True)),
        "print": partial(_print, argument),
        "tell": lambda: send({"type": "told", "value": TELL[argument]()}),
        "leave": partial(_leave_program, work),
        "signal": lambda: os.kill(os.getppid(), getattr(signal, argument)),
        "quiet": lambda: None,
        "pause": partial(time.sleep, 0.2),
        "nest": _start_a_process,
        "halve": partial(_halve, work, send, argument),
        "close": partial(_close_connection, send),
    }
    steps[name]()


def _die(work: Path, job: int, times: str) -> None:
    """By SIGKILL: always, `once`, `twice`."""
    deaths = work / f"deaths-{job}"
    before = len(deaths.read_text()) if deaths.exists() else 0
    if before < {"": 99, "once": 1, "twice": 2}[times]:
        deaths.write_text("x" * (before + 1))
        os.kill(os.getpid(), signal.SIGKILL)


def _halve(work: Path, send: Send, then: str) -> None:
    """Once, send all but the last byte of a message, and then stop or hang."""
    if (work / "halved").exists():
        return
    (work / "halved").touch()

    def half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, len(data).to_bytes(8, "little") + data[:-1])
        if then == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(3600)

    vars(worker)["send_whole"] = half
    send({"type": "told", "value": "half"})


def _close_connection(send: Send) -> None:
    """Close the connection to the parent, and hang instead of ending."""

    def close(descriptor: int, data: bytes) -> None:
        os.close(descriptor)
        time.sleep(3600)

    vars(worker)["send_whole"] = close
    send({"type": "told"})


def _fail(name: str) -> None:
    if name == "ENOSPC":
        raise OSError(errno.ENOSPC, "no space")
    errors: dict[str, type[Exception]] = {
        **BY_NAME,
        "MemoryError": MemoryError,
        "ValueError": ValueError,
        "BrokenPipeError": BrokenPipeError,
    }
    raise errors[name]("because of the test")


def _loop() -> None:
    while True:
        pass


def _live(seconds: str, send: Send) -> None:
    """Send signs of life for so long."""
    deadline = time.monotonic() + float(seconds)
    while time.monotonic() < deadline:
        send(at(None))
        time.sleep(0.05)


class PanicException(BaseException):
    """As pyo3 raises it."""


def _panic() -> None:
    raise PanicException("because of the test")


def _span(lines: str) -> Span:
    start, stop = map(int, lines.split())
    return (0, start), (0, stop)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"nobody made {path}"
        time.sleep(0.002)


def _print(text: str) -> None:
    sys.stdout.write(f"{text} by its file\n")
    sys.stdout.flush()
    os.write(1, f"{text} by its number\n".encode())
    subprocess.run(["echo", f"{text} by a program"], check=True)
    print(f"{text} to stderr", file=sys.stderr, flush=True)


def _leave_program(work: Path) -> None:
    program = subprocess.Popen(["sleep", "100"], close_fds=False, start_new_session=True)
    (work / "program").write_text(str(program.pid))
    program.returncode = 0  # it is left behind on purpose


def _start_a_process() -> None:
    from multiprocess import get_context

    process = get_context("fork").Process(target=os._exit, args=(5,))
    process.start()
    process.join()
    assert process.exitcode == 5


def _environment_at_start() -> dict[str, str]:
    """Return the environment with which this process was executed."""
    pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(pair.decode().split("=", 1) for pair in pairs if pair)


TELL: dict[str, Callable[[], Any]] = {
    "large": lambda: LARGE,
    "environment": lambda: dict(os.environ),
    "environment-at-import": lambda: ENVIRONMENT,
    "environment-at-start": _environment_at_start,
    "path": lambda: (sys.flags.safe_path, sys.path),
    "main": lambda: vars(sys.modules["__main__"]).get("__file__"),
    "signals": lambda: (
        signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []),
    ),
}
