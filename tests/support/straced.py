"""Run commands under strace, which fails or kills at chosen system calls.

    inject(server, job.command(out, 1), "fsync:error=EIO:when=3", log)
    Injected(ended=Ended(code=6, …), hits=[Hit(call="fsync", path="…/out/.work")])

`when=3` is the third such call of a thread, so that the parent, its workers and their commit
threads are hit one after the other. A test must look at `hits`: what never fired proves nothing.
(`-e trace=none` would silently switch injection off, so the calls are traced.)
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.forks import Ended, ForkServer

STRACE = shutil.which("strace")
# Calls that a program may use for one thing.
CALLS = {
    "fsync": "fsync,fdatasync",
    "rename": "rename,renameat,renameat2",
    "unlink": "unlink,unlinkat,rmdir",
    "mkdir": "mkdir,mkdirat",
    "write": "write,pwrite64,writev,pwritev",
    "openat": "openat",
}
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One call that was failed or killed."""

    call: str
    path: str  # of the file, where strace tells it


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    ended: Ended
    hits: tuple[Hit, ...]


def inject(
    server: ForkServer, words: Sequence[str], call: str, fault: str, n: int, log: Path
) -> Injected:
    """Run a command whose n-th call of a kind has this fault: error=EIO, signal=KILL …"""
    assert STRACE
    calls = CALLS[call]
    run = server.start(words, is_held=True)
    _wait_for(lambda: _state(run.pid) == "T", "the run did not stop")
    tracer = subprocess.Popen(
        [
            *(STRACE, "-f", "-y", "-s", "256", "-o", str(log), "-p", str(run.pid)),
            *("-e", f"trace={calls}", "-e", f"inject={calls}:{fault}:when={n}"),
        ],
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        _wait_for(lambda: _tracer(run.pid) == tracer.pid, "strace did not attach")
        os.kill(run.pid, signal.SIGCONT)
        ended = run.wait()
        tracer.wait(20)
    finally:
        tracer.kill()
        tracer.wait()
    return Injected(ended=ended, hits=tuple(_hits(log, fault, calls.split(","), n)))


def _hits(log: Path, fault: str, calls: Sequence[str], n: int) -> list[Hit]:
    lines = log.read_text("utf-8", "replace").splitlines()
    if fault.startswith("error"):
        return [_hit(line) for line in lines if "(INJECTED)" in line]
    # A killed thread is known by its last call, which has the number that was asked for.
    last: dict[str, str] = {}
    count: dict[str, int] = {}
    for line in lines:
        pid, _, rest = line.partition(" ")
        rest = rest.lstrip()
        if rest.startswith(tuple(f"{call}(" for call in calls)):
            last[pid] = line
            count[pid] = count.get(pid, 0) + 1
    killed = {line.partition(" ")[0] for line in lines if "killed by SIGKILL" in line}
    return [_hit(last[pid]) for pid in sorted(killed & set(last)) if count[pid] == n]


def _hit(line: str) -> Hit:
    """123 fsync(7</out/.work/plan.json.tmp>) = -1 EIO (Input/output error) (INJECTED)"""
    match = re.match(r"\d+ +(?:<\.\.\. )?(\w+)", line)
    paths = re.findall(r'[<"](/[^<>"]*)[>"]', line)
    return Hit(call=match[1] if match else "?", path=paths[-1] if paths else "")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _tracer(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("TracerPid")).split()[1])


def _wait_for(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.001)
