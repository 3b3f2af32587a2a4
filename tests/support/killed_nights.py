"""A few nights of `dataprep run`, each killed at random moments and repeated: the bytes must be
those of nights that nobody disturbed.

    night 0   files come in                night 2   documents are forgotten
    night 1   more come in, one grows      night 3   more come in, a file equals one of before

    clean     out after each night, undisturbed
    killed    clean[n - 1] ─► night n, SIGKILL ─► again, SIGKILL ─► again ─► equal to clean[n]?

`kill_nights` kills processes at random moments, `die_at_changes` a run in this process at chosen
changes of the disk.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.forget import forget
from dataprep.pipeline.run.forgotten import read_requests
from dataprep.pipeline.run.summary import run_all
from support.forks import ForkServer
from support.jobs import WORDS
from support.killable import Killed, dying, without_processes
from support.nights import write_config, write_lines
from support.trees import tree

FORGETS = 2  # this night
CONFIG = {
    "corpora": {"a": {"inputs": ["raw/a-*.jsonl"]}, "b": {"inputs": ["raw/b-*.jsonl"]}},
    "splits": {"train": 0.75, "validation": 0.25},
    "seq_lens": [64],
    "dedup": "exact",
    "append": True,
    "shard_bytes": 65536,
    "pack": {"shard_rows": 64},
}


@dataclass(frozen=True)
class Nights:
    """The commands of each night, and what `out` must hold after it."""

    home: Path
    server: ForkServer
    texts: int = 150  # in a file
    clean: list[Mapping[str, bytes]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.home / "out"

    def words(self, night: int) -> list[str]:
        if night == FORGETS:
            return ["forget", "out", "--documents", "gone.txt"]
        return ["run", "c.json", "--workers", "2", "-q"]

    def bring(self, night: int) -> None:
        """Bring in what comes in until a night; files stay as they are then."""
        shutil.rmtree(self.home / "raw", ignore_errors=True)
        for number, act in enumerate(INPUTS[: night + 1]):
            act(self.home / "raw", random.Random(number), self.texts)

    def restore(self, night: int) -> None:
        """Make `out` as it is before a night."""
        shutil.rmtree(self.out, ignore_errors=True)
        if night:
            shutil.copytree(self.home / f"clean-{night - 1}", self.out)
        self.bring(night)

    def undisturbed(self) -> None:
        """Live all nights once."""
        write_config(self.home / "c.json", **CONFIG)
        (self.home / "gone.txt").write_text("a-0.jsonl:3\nb-0.jsonl:5\na-1.jsonl:7\n")
        for night in range(len(INPUTS)):
            self.bring(night)
            began = time.monotonic()
            ended = self.server.run(self.words(night), cwd=self.home)
            assert ended.code == 0, ended.stderr
            self.seconds.append(time.monotonic() - began)
            self.clean.append(held(self.out))
            shutil.copytree(self.out, self.home / f"clean-{night}")


def held(out: Path) -> dict[str, bytes]:
    """Return all that `out` holds, but for the times in its summary."""
    found = tree(out)
    found.pop("summary.json", None)
    return found


def _texts(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 60))) for _ in range(count)]


def _first(raw: Path, rng: random.Random, count: int) -> None:
    for name in ("a-0", "a-1", "b-0"):
        write_lines(raw / f"{name}.jsonl", _texts(rng, count))


def _more(raw: Path, rng: random.Random, count: int) -> None:
    texts = _texts(rng, count // 2)
    write_lines(raw / "a-2.jsonl", texts)
    write_lines(raw / "b-1.jsonl", [*texts[: count // 8], *_texts(rng, count // 4)])
    write_lines(raw / "b-0.jsonl", _texts(rng, count // 5), mode="a")


def _nothing(raw: Path, rng: random.Random, count: int) -> None:
    """Documents are forgotten."""


def _equal(raw: Path, rng: random.Random, count: int) -> None:
    shutil.copy(raw / "a-0.jsonl", raw / "a-3.jsonl")
    write_lines(raw / "b-2.jsonl", _texts(rng, count // 3))


INPUTS: tuple[Callable[[Path, random.Random, int], None], ...] = (_first, _more, _nothing, _equal)


@dataclass(slots=True)
class KilledNights:
    """What came of the kills."""

    tried: int = 0
    mid_run: int = 0  # it had begun to write, and had not ended
    wrong: list[str] = field(default_factory=list)


def kill_nights(nights: Nights, *, mid_run: int, seed: int = 0) -> KilledNights:
    """Kill until so many kills fell into the work; every night is completed and compared."""
    rng, seen = random.Random(seed), KilledNights()
    while seen.mid_run < mid_run and seen.tried < 4 * mid_run + 20:
        night = seen.tried % len(INPUTS)
        nights.restore(night)
        before = held(nights.out)
        while True:  # several kills on the way
            run = nights.server.start(nights.words(night), cwd=nights.home)
            killed = run.kill(after=rng.uniform(0.1, 1.1) * nights.seconds[night]).was_killed
            seen.tried += 1
            after = held(nights.out)
            seen.mid_run += killed and after != before
            before = after
            if not killed or rng.random() < 0.6:
                break
        seen.wrong += _finished(nights, night)
    return seen


def die_at_changes(
    nights: Nights, night: int, numbers: Iterable[int], cache: Path
) -> tuple[int, list[str]]:
    """Die at the n-th change of the disk; return how often, and what was wrong afterwards."""
    died, wrong = 0, list[str]()
    for number in numbers:
        nights.restore(night)
        try:
            with without_processes(), dying(number), chdir(nights.home):
                _live_here(night, cache)
        except Killed:
            died += 1
        else:
            break  # there are no more changes
        with without_processes(), dying(), chdir(nights.home):
            _live_here(night, cache)
        wrong += [f"change {number} of night {night}: {each}" for each in _others(nights, night)]
    return died, wrong


def _live_here(night: int, cache: Path) -> None:
    if night == FORGETS:
        forget(Path("out"), read_requests("gone.txt"))
        return
    config = load_config(RunConfig, files=["c.json"])
    run_all(StepChain(config=config, cache_dir=cache), lambda todo: silent)


def _finished(nights: Nights, night: int) -> list[str]:
    """Run the night again, undisturbed; return what is wrong with what it leaves."""
    ended = nights.server.run(nights.words(night), cwd=nights.home)
    names = _others(nights, night)
    if ended.code or names:
        return [f"night {night}: exit {ended.code}, {names[:5]}: {ended.stderr[-900:]}"]
    return []


def _others(nights: Nights, night: int) -> list[str]:
    """Return the files that have other bytes than after a night that nobody disturbed."""
    found, wanted = held(nights.out), nights.clean[night]
    return sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
