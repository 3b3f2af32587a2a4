"""Fail, or kill at, every n-th system call of a kind; the run must go on to the same bytes.

    kill_at_calls(server, job, "rename", folder, range(1, 200))    (37, [])     fired, wrong
    fail_calls(server, job, "write", "ENOSPC", folder, range(1, 200))

A kind is used up when its n-th call does not come any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from support.forks import Ended, ForkServer
from support.jobs import Job
from support.straced import Hit, inject


def kill_at_calls(
    server: ForkServer, job: Job, call: str, folder: Path, numbers: Iterable[int]
) -> tuple[int, list[str]]:
    """Kill at the n-th call of each kind; return how many fired, and what went wrong."""
    fired, wrong = 0, []
    for n in numbers:
        out = folder / f"{call}-{n}"
        killed = inject(server, job.command(out, 1), call, "signal=KILL", n, folder / "strace.log")
        if not killed.hits:
            break  # there are no more such calls
        fired += 1
        verdict = job.verdict(out)
        if verdict not in ("unfinished", "equal"):
            wrong.append(f"{call} {n}: {verdict} after the kill")
        ended = server.run(job.command(out, 2))
        if ended.code or job.verdict(out) != "equal":
            wrong.append(f"{call} {n} {killed.hits}: {ended.code} {job.verdict(out)}")
    return fired, wrong


def check_failed_call(job: Job, out: Path, ended: Ended, hits: tuple[Hit, ...]) -> list[str]:
    """Return what is wrong with the end of a run one of whose calls failed."""
    wrong = []
    verdict = job.verdict(out)
    if verdict not in ("unfinished", "equal"):
        wrong.append(f"{verdict} at {hits}")
    ours = any(str(out) in hit.path for hit in hits)
    if ours and not ended.is_clean:
        wrong.append(f"exit {ended.code} at {hits}: {ended.stderr[-300:]}")
    if ended.code == 0 and verdict != "equal":
        wrong.append(f"exit 0 without a dataset at {hits}")
    return wrong


def fail_calls(
    server: ForkServer, job: Job, call: str, error: str, folder: Path, numbers: Iterable[int]
) -> tuple[int, list[str]]:
    fired, wrong = 0, []
    for n in numbers:
        out = folder / f"{call}-{error}-{n}"
        done = inject(server, job.command(out, 1), call, f"error={error}", n, folder / "log")
        if not done.hits:
            break
        fired += 1
        wrong += check_failed_call(job, out, done.ended, done.hits)
        again = server.run(job.command(out, 2))
        if again.code or job.verdict(out) != "equal":
            wrong.append(f"{call} {n} {done.hits}: {again.code} {job.verdict(out)} {again.stderr}")
    return fired, wrong
