"""Damage files of a dataset, or of an unfinished run, and see whether it is found.

dataset       flip, cut, empty, NUL or delete a file ─► verify: CorruptError
.work         the same                               ─► the same bytes, or exit 4 or 5
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.verify import verify
from support.forks import ForkServer
from support.jobs import Job
from support.power import state_after, write_world
from support.recorded import Call


def _flip(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) * 8)
    damaged = bytearray(data)
    damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged)


ENOUGH = 5  # missed damages of an unfinished run, after which no more are looked for

# Each gives other bytes, or None where the file is gone.
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "flip": _flip,
    "cut": lambda data, rng: data[: rng.randrange(len(data))],
    "empty": lambda data, rng: b"",
    "NUL": lambda data, rng: bytes(len(data)),
    "delete": lambda data, rng: None,
}


@dataclass(slots=True)
class Found:
    tried: Counter[str] = field(default_factory=Counter)  # by damage
    found: int = 0
    redone: int = 0  # the run gave the same bytes
    missed: list[str] = field(default_factory=list)


def damage(path: Path, how: str, rng: random.Random) -> bool:
    """Damage a file; False where that changes nothing (an empty file has no bit to flip)."""
    before = path.read_bytes()
    after = DAMAGES[how](before, rng) if before or how == "delete" else before
    if after == before:
        return False
    if after is None:
        path.unlink()
    else:
        path.write_bytes(after)
    return True


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def damage_dataset(
    dataset: Path, copy: Path, *, times: int, rng: random.Random, seen: Found
) -> None:
    """Damage each file of a copy `times` times by each damage, and verify it."""
    shutil.copytree(dataset, copy)
    verify(copy)  # the control: as it is, it is whole
    for path in files_below(copy):
        whole = path.read_bytes()
        for how in DAMAGES:
            for _ in range(times if how in ("flip", "cut") else 1):
                if not damage(path, how, rng):
                    continue
                seen.tried[how] += 1
                try:
                    verify(copy)
                    seen.missed.append(f"{how} of {path.relative_to(copy)}")
                except CorruptError:
                    seen.found += 1
                except Exception as error:
                    seen.missed.append(f"{how} of {path.relative_to(copy)}: {error!r}")
                path.write_bytes(whole)
    verify(copy)


def flip_dataset(dataset: Path, copy: Path, *, flips: int, rng: random.Random, seen: Found) -> None:
    """Flip bits anywhere in a copy: files of many bytes are hit more often."""
    shutil.copytree(dataset, copy)
    files = [path for path in files_below(copy) if path.stat().st_size]
    sizes = [path.stat().st_size for path in files]
    for path in rng.choices(files, weights=sizes, k=flips):
        whole = path.read_bytes()
        damage(path, "flip", rng)
        seen.tried["flip"] += 1
        try:
            verify(copy)
            seen.missed.append(f"flip of {path.relative_to(copy)}")
        except CorruptError:
            seen.found += 1
        path.write_bytes(whole)


def unfinished_states(calls: Sequence[Call]) -> Iterator[tuple[str, list[Call]]]:
    """Yield the calls of a run up to two kills: half of its shards committed; all but published."""
    places = [i for i, call in enumerate(calls) if call.name == "rename"]
    markers = [i for i in places if calls[i].paths[1].endswith(".done")]
    (manifest,) = (i for i in places if calls[i].paths[1] == "manifest.json")
    yield "half done", list(calls[: markers[len(markers) // 2] + 2])
    yield "before the manifest", list(calls[:manifest])


def damage_work(
    server: ForkServer,
    job: Job,
    calls: Sequence[Call],
    folder: Path,
    *,
    most: int | None,
    rng: random.Random,
    seen: Found,
) -> None:
    """Damage each file of an unfinished run, and go on; `most`: so many of all these cases."""
    cases = []
    for state, done in unfinished_states(calls):
        world = state_after(done, "killed")
        files = [name for name, data in world.items() if data is not None]
        cases += [(state, world, name, how) for name in files for how in DAMAGES]
    if most is not None and len(cases) > most:
        cases = rng.sample(cases, most)
    for number, (state, world, name, how) in enumerate(cases):
        if len(seen.missed) >= ENOUGH:
            break
        out = write_world(world, folder / f"{number:05d}")
        if not damage(out / name, how, rng):
            continue
        seen.tried[how] += 1
        ended = server.run(job.command(out, 2))
        verdict = job.verdict(out)
        if ended.code == 0 and verdict == "equal":
            seen.redone += 1
        elif ended.is_clean and ended.code in (2, 4, 5) and verdict == "unfinished":
            seen.found += 1
        else:
            case = f"{job.name}, {state}: {how} of {name}"
            seen.missed.append(f"{case}: exit {ended.code}, {verdict}: {ended.stderr[-200:]}")
        shutil.rmtree(out)
