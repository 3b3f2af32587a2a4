"""Faults tried on tokenize, pack and encode, and what came of them, in one table.

    scripts/bench faults            about two minutes
    scripts/bench faults --full     2,000 kills, every system call, 10,000 flips: hours
    scripts/bench faults --only kills,power

Every line is: what was tried, how often it took effect, and what went wrong, which must be 0. The
tests in tests/faults use the same code.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from support.calls import fail_calls, kill_at_calls
from support.damage import Found, damage_dataset, damage_work, flip_dataset
from support.elastic import BATCH, resume_all
from support.forks import ForkServer
from support.fuzz import TARGETS, fuzz
from support.installed import started, wait_for
from support.jobs import make_jobs
from support.kills import kill_loop
from support.leaks import leaks_of
from support.losses import lose_power, record_job
from support.packed import write_packed
from support.parents import members_of, workers_of
from support.straced import CALLS, STRACE

COMMANDS = ("tokenize", "pack", "encode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is tried."""

    kills: int  # mid-run, of each command
    calls: range  # n-th system calls
    losses: int | None  # states after a power failure, of each command; None: all
    damages: int  # of each file, by each damage
    flips: int  # of each dataset
    work: int | None  # damages of an unfinished run, of each command; None: all
    inputs: int  # fuzzed, of each target
    hosts: tuple[int, ...]


SMALL = Size(
    kills=15,
    calls=range(1, 30, 7),
    losses=25,
    damages=2,
    flips=150,
    work=25,
    inputs=400,
    hosts=(1, 2, 4),
)
FULL = Size(
    kills=670,
    calls=range(1, 400),
    losses=None,
    damages=20,
    flips=3400,
    work=None,
    inputs=50_000,
    hosts=(1, 2, 3, 4, 6, 8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    what: str
    tried: int
    took_effect: str
    wrong: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    size: Size
    folder: Path
    server: Any
    jobs: Any
    small: Any

    def kills(self) -> Iterator[Line]:
        for name in COMMANDS:
            seen = kill_loop(
                self.server, self.jobs[name], self.folder / "kills", mid_run=self.size.kills
            )
            effect = f"{seen.mid_run} mid-run, {seen.after_commit} after a commit"
            yield line(f"SIGKILL, {name}", seen.tried, effect, seen.mismatches)

    def calls(self) -> Iterator[Line]:
        for call in CALLS:
            for fault in ("KILL", "EIO", "ENOSPC"):
                fired, wrong = 0, []
                for name in COMMANDS:
                    folder = self.folder / f"{call}-{fault}-{name}"
                    folder.mkdir()
                    job, numbers = self.small[name], self.size.calls
                    if fault == "KILL":
                        done = kill_at_calls(self.server, job, call, folder, numbers)
                    else:
                        done = fail_calls(self.server, job, call, fault, folder, numbers)
                    fired += done[0]
                    wrong += done[1]
                yield line(f"{fault} at the n-th {call}", fired, f"{fired} fired", wrong)

    def power(self) -> Iterator[Line]:
        for name in COMMANDS:
            folder = self.folder / f"power-{name}"
            seen = lose_power(self.server, self.small[name], folder, most=self.size.losses)
            effect = f"{seen.with_manifest} with a manifest, {seen.refused} refused"
            yield line(f"power failure, {name}", seen.tried, effect, seen.wrong)

    def damage(self) -> Iterator[Line]:
        for name in COMMANDS:
            rng, job = random.Random(0), self.small[name]
            copy = self.folder / f"damaged-{name}"
            seen = Found()
            damage_dataset(job.folder, copy, times=self.size.damages, rng=rng, seen=seen)
            flip_dataset(
                job.folder,
                copy.with_name(f"{copy.name}-2"),
                flips=self.size.flips,
                rng=rng,
                seen=seen,
            )
            kinds = ", ".join(f"{count} {how}" for how, count in seen.tried.items())
            tried = sum(seen.tried.values())
            yield line(f"damage, {name}: {kinds}", tried, f"{seen.found} found", seen.missed)

    def work(self) -> Iterator[Line]:
        for name in COMMANDS:
            rng, job = random.Random(0), self.small[name]
            folder = self.folder / f"work-{name}"
            calls, seen = record_job(job, folder / "recorded"), Found()
            most = self.size.work
            damage_work(self.server, job, calls, folder, most=most, rng=rng, seen=seen)
            effect = f"{seen.redone} redone, {seen.found} refused"
            tried = sum(seen.tried.values())
            yield line(f"damage of an unfinished {name}", tried, effect, seen.missed)

    def fuzz(self) -> Iterator[Line]:
        for target in TARGETS:
            tried, undeclared = fuzz(target, self.size.inputs)
            yield line(f"fuzzed {target}", tried, "only declared errors allowed", undeclared)

    def elastic(self) -> Iterator[Line]:
        folder = self.folder / "elastic"
        write_packed(folder, num_rows=BATCH * 3 + 5)
        tried, wrong = resume_all(folder, self.size.hosts)
        hosts = ", ".join(map(str, self.size.hosts))
        yield line("resumed on another number of hosts", tried, f"of {hosts}", wrong)

    def leaks(self) -> Iterator[Line]:
        orphans = [left for name in COMMANDS for left in self._orphans_of(name)]
        yield line("parents killed", len(COMMANDS), "with their workers at work", orphans)
        from dataprep.loaders import DataLoader

        folder = self.folder / "leaks"
        write_packed(folder, num_rows=100)

        def use() -> None:
            with DataLoader(folder, batch_size=8, epochs=1) as loader:
                next(loader)

        for kind, count in leaks_of(use, 20).items():
            yield line(f"loaders opened and closed: {kind}", 20, "", [kind] * max(count, 0))

    def _orphans_of(self, name: str) -> list[str]:
        with started(self.jobs[name].command(self.folder / f"orphans-{name}", 2)) as process:
            wait_for(lambda: workers_of(process.pid), "no worker came")
            process.kill()
            process.wait()
            deadline = time.monotonic() + 5
            while members_of(process.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            return [f"{name}: process {left}" for left in members_of(process.pid)]


def line(what: str, tried: int, took_effect: str, wrong: list[str]) -> Line:
    return Line(
        what=what,
        tried=tried,
        took_effect=took_effect,
        wrong=len(wrong),
        examples=tuple(wrong[:3]),
    )


SECTIONS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    "kills": Bench.kills,
    "calls": Bench.calls,
    "power": Bench.power,
    "damage": Bench.damage,
    "work": Bench.work,
    "fuzz": Bench.fuzz,
    "elastic": Bench.elastic,
    "leaks": Bench.leaks,
}
NEED_STRACE = ("calls", "power", "work")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="as much as a night allows")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    arguments = parser.parse_args()
    begun = time.monotonic()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        with ForkServer(folder / "log") as server:
            bench = Bench(
                size=FULL if arguments.full else SMALL,
                folder=folder,
                server=server,
                jobs=make_jobs(folder / "jobs", server),
                small=make_jobs(folder / "small", server, is_small=True),
            )
            print(f"{'fault':64} {'tried':>7} {'wrong':>6}  effect")
            for section in arguments.only.split(","):
                if section in NEED_STRACE and STRACE is None:
                    print(f"{section}: left out, strace is not installed")
                    continue
                for found in SECTIONS[section](bench):
                    failed += found.wrong
                    row = f"{found.what:64} {found.tried:7,} {found.wrong:6,}  {found.took_effect}"
                    print(row, flush=True)
                    for example in found.examples:
                        print(f"    {' '.join(example.split())[:300]}", flush=True)
    print(f"{failed} wrong, {time.monotonic() - begun:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
