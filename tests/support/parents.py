"""Programs that call the executor, each in a session of its own, so that what they leave shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from support.toy_worker import TESTS

# What a user would write: no `if __name__ == "__main__"`.
SCRIPT = """
import sys
from pathlib import Path
with open({log!r}, "a") as file:
    file.write("imported\\n")
sys.path.append({tests!r})
from support.toy_worker import act_out
sys.path.remove({tests!r})
{setup}
act_out(Path({work!r}), {acts!r}, num_workers={num_workers})
print("done")
"""


def script(work: Path, acts: dict[int, list[str]], *, setup: str = "", num_workers: int = 2) -> str:
    log = str(work.parent / "imports")
    values = {"work": str(work), "acts": acts, "setup": setup, "num_workers": num_workers}
    return SCRIPT.format(log=log, tests=str(TESTS), **values)


def python(*words: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
        **options,
    )


def workers_of(parent: int) -> list[psutil.Process]:
    """Return the living workers of a process."""
    workers = []
    for child in psutil.Process(parent).children():
        try:
            if any("spawn_main" in word for word in child.cmdline()):
                workers.append(child)
        except psutil.Error:
            continue  # it ended just now
    return workers


def members_of(session: int) -> list[int]:
    """Return the living processes of a session."""
    members = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process.pid)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue  # it ended just now
    return members


def wait_until_gone(session: int) -> None:
    deadline = time.monotonic() + 20
    while left := members_of(session):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.01)


@contextmanager
def in_session(source: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a session of its own; whatever is left of it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        for member in members_of(process.pid):
            os.kill(member, signal.SIGKILL)
        process.communicate()


@contextmanager
def started(work: Path, setup: str = "") -> Iterator[subprocess.Popen[str]]:
    acts = {job: ["quiet", f"touch begun-{job}", "hang"] for job in range(2)}
    with in_session(script(work, acts, setup=setup)) as process:
        yield process


def wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_for_jobs(work: Path) -> None:
    wait_for_file(work / "begun-0")
    wait_for_file(work / "begun-1")
