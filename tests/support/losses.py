"""Go on after a power loss: what `power` says may be on the disk, given to the same command.

loss ─► folder ─► a manifest?  then whole, to the byte
              ─► the same command again ─► the same bytes
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from support.forks import ForkServer
from support.jobs import Job
from support.power import Loss, check_record, losses, write_world
from support.recorded import Call, record_command

ENOUGH = 5  # wrong outcomes, after which no more are looked for


@dataclass(slots=True)
class Survived:
    tried: int = 0
    with_manifest: int = 0
    refused: int = 0  # exit 4 or 5, and no manifest: safe, but somebody has to come
    wrong: list[str] = field(default_factory=list)


def record_job(job: Job, folder: Path) -> list[Call]:
    """Run the job under strace in a folder of its own; return what it did below its output."""
    out = folder / "out"
    out.mkdir(parents=True)
    calls = record_command(job.command(out, 2), out, folder / "strace.log")
    check_record(calls, out)
    assert job.verdict(out) == "equal"
    return calls


def go_on(server: ForkServer, job: Job, loss: Loss, folder: Path, seen: Survived) -> None:
    """Write the state to a folder and run the job there."""
    out = write_world(loss.world, folder)
    seen.tried += 1
    has_manifest = (out / "manifest.json").exists()
    seen.with_manifest += has_manifest
    verdict = job.verdict(out)
    if has_manifest and verdict != "equal":
        seen.wrong.append(f"{loss.name}: a manifest, but {verdict}")
        return
    ended = server.run(job.command(out, 2))
    verdict = job.verdict(out)
    if ended.is_clean and ended.code in (4, 5) and verdict == "unfinished":
        seen.refused += 1
    elif ended.code or verdict != "equal" or (out / ".work").exists():
        seen.wrong.append(f"{loss.name}: exit {ended.code}, {verdict}: {ended.stderr[-200:]}")
    shutil.rmtree(out)


def lose_power(
    server: ForkServer, job: Job, folder: Path, *, most: int | None = None, seed: int = 0
) -> Survived:
    """Try every state, or `most` of them: a third at the files that decide, the rest anywhere."""
    found = list(losses(record_job(job, folder), seed=seed))
    if most is not None and len(found) > most:
        rng = random.Random(seed)
        deciding = [loss for loss in found if loss.call.endswith(("manifest.json", "plan.json"))]
        found = [
            *rng.sample(deciding, min(len(deciding), most // 3)),
            *rng.sample(found, most - most // 3),
        ]
    seen = Survived()
    for number, loss in enumerate(found):
        if len(seen.wrong) >= ENOUGH:
            break
        go_on(server, job, loss, folder / f"{number:05d}", seen)
    return seen
