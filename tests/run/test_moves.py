"""Nights on which files grow, are copied, rotated and exchange their names: each line is read once,
whatever its file is called now."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path

import pytest

from dataprep.configs.load import load_config
from dataprep.configs.run import RunConfig
from dataprep.pipeline.jobs import silent
from dataprep.pipeline.run.chain import StepChain
from dataprep.pipeline.run.summary import run_all
from support.killable import Killed, dying, without_processes
from support.nights import texts_of, whole_texts, write_config, write_lines

Files = dict[str, list[str]]  # by name: lines


class Moves:
    """What becomes of files in a night; nothing that was there is lost."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.files: Files = {}
        self._count = 0

    def lines(self) -> list[str]:
        """Return new lines; some are equal to others."""
        self._count += 10
        numbers = range(self._count, self._count + self.rng.randint(1, 4))
        return [f"line {self.rng.choice([n, n, n % 7])}" for n in numbers]

    def add(self) -> None:
        self.files[self._name()] = self.lines() if self.rng.random() < 0.8 else []

    def append(self) -> None:
        self.files[self._one()] += self.lines()

    def copy(self) -> None:
        self.files[self._name()] = [*self.files[self._one()]]

    def rename(self) -> None:
        self.files[self._name()] = self.files.pop(self._one())

    def exchange(self) -> None:
        a, b = self._one(), self._one()
        self.files[a], self.files[b] = self.files[b], self.files[a]

    def rotate(self) -> None:
        names = [self._one()]
        while names[-1] in self.files:
            names.append(f"{names[-1]}.1")
        for old, new in zip(names[-2::-1], names[:0:-1], strict=True):
            self.files[new] = self.files.pop(old)
        self.files[names[0]] = self.lines()

    def live(self, raw: Path) -> None:
        acts: list[Callable[[], None]] = [self.add]
        if self.files:
            acts += [self.append, self.copy, self.rename, self.exchange, self.rotate]
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice(acts)()
        shutil.rmtree(raw, ignore_errors=True)
        for name, lines in self.files.items():
            write_lines(raw / f"{name}.jsonl", lines)

    def held(self) -> Mapping[str, int]:
        return Counter(line for lines in self.files.values() for line in lines)

    def _name(self) -> str:
        self._count += 1
        return f"{self.rng.choice(['log', 'ü', 'a b'])}{self._count}"

    def _one(self) -> str:
        return self.rng.choice([*self.files])


def live_nights(seed: int, nights: int, home: Path, cache: Path) -> None:
    moves = Moves(seed)
    dedup = moves.rng.choice(["none", "exact"])
    with chdir(home), without_processes():
        write_config(Path("c.json"), inputs=["raw/*.jsonl"], append=True, dedup=dedup)
        config = load_config(
            RunConfig, files=["c.json"], flags={"allow_empty": True, "out": f"out-{seed}"}
        )

        def run(dies_at: int = 1 << 30) -> None:
            with dying(dies_at):
                run_all(StepChain(config=config, cache_dir=cache), lambda todo: silent)

        out = Path(config.out, "data")
        for _ in range(nights):
            moves.live(Path("raw"))
            try:
                run(dies_at=moves.rng.randint(1, 600))
            except Killed:
                run()
            assert Counter(texts_of(out / "tokenized")) == moves.held()
            packed = Counter(whole_texts(out / "packed-64"))
            assert packed == (moves.held() if dedup == "none" else Counter({*moves.held()}))


def test_each_line_is_read_once_whatever_its_file_is_called(
    tmp_path: Path, cache_dir: Path
) -> None:
    for seed in range(5):
        live_nights(seed, 4, tmp_path, cache_dir)
    live_nights(
        1144, 8, tmp_path, cache_dir
    )  # several are empty, and one takes the name of another


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_each_line_is_read_once_on_many_nights(tmp_path: Path, cache_dir: Path) -> None:
    for seed in range(5, 150):
        live_nights(seed, 6, tmp_path, cache_dir)
