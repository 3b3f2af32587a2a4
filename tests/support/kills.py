"""Kill runs at random moments, resume them with another number of workers, compare the bytes.

start ─ .work appears ────── SIGKILL ─► resume with 2 workers ─ SIGKILL ─► resume ─► equal?
             └─ 0 to the measured duration, or until the k-th shard is committed
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.forks import Ended, ForkServer, Run
from support.jobs import Job, wait_for_work


@dataclass(slots=True)
class Kills:
    """What came of the kills."""

    tried: int = 0
    mid_run: int = 0  # the run had begun to write, and had not ended
    after_commit: int = 0  # of these: a shard had been committed
    mismatches: list[str] = field(default_factory=list)
    ends: Counter[int] = field(default_factory=Counter)  # exit codes of killed and resumed runs


def _wait_for_commits(run: Run, out: Path, count: int) -> None:
    """Wait until so many more shards are committed, or the run is about to end, or has ended."""
    before = len(list(out.glob(".work/tasks/*.done")))
    while not run.server.has_answer(0.0005) and not (out / "shards").exists():
        if len(list(out.glob(".work/tasks/*.done"))) >= before + count:
            return


def kill_at_random(
    server: ForkServer, job: Job, out: Path, rng: random.Random, seen: Kills
) -> Ended:
    """Start or resume the job and kill it: at a moment of its duration, or after some commits."""
    begun = time.time_ns()
    run = server.start(job.command(out, rng.randint(1, 3)))
    wait_for_work(run, out)
    if rng.random() < 0.5:
        ended = run.kill(after=rng.uniform(0, job.seconds))
    else:
        _wait_for_commits(run, out, rng.randint(1, job.num_shards))
        ended = run.kill(after=rng.uniform(0, 0.01))
    seen.tried += 1
    seen.ends[ended.code] += 1
    if ended.was_killed and (out / ".work").exists() and _wrote_since(begun, out):
        seen.mid_run += 1
        seen.after_commit += any(out.glob(".work/tasks/*.done")) or (out / "shards").exists()
    return ended


def _wrote_since(begun: int, out: Path) -> bool:
    tick = 10_000_000  # the clock of a file system may be that much behind
    return any(path.stat().st_mtime_ns >= begun - tick for path in out.rglob("*"))


def kill_loop(server: ForkServer, job: Job, folder: Path, *, mid_run: int, seed: int = 0) -> Kills:
    """Kill until `mid_run` kills fell into the work; every dataset is completed and compared."""
    rng = random.Random(f"{seed} {job.name}")
    seen = Kills()
    while seen.mid_run < mid_run and seen.tried < 4 * mid_run + 20:
        out = folder / f"{job.name}-{seen.tried:05d}"
        ended = kill_at_random(server, job, out, rng, seen)
        while ended.was_killed and rng.random() < 0.3:  # several kills on the way
            ended = kill_at_random(server, job, out, rng, seen)
        last = server.run(job.command(out, rng.randint(1, 3)))
        seen.ends[last.code] += 1
        verdict = job.verdict(out)
        if last.code or verdict != "equal" or (out / ".work").exists():
            seen.mismatches.append(
                f"{out.name}: exit {last.code}, {verdict}: {last.stderr[-3000:]}"
            )
        else:
            shutil.rmtree(out)
    return seen
