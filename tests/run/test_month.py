"""A month of nights: data that comes, grows, changes, goes and must be forgotten, runs that are
killed, overlap and are repeated, and a trainer that goes on through it all.

After each night plain Python says what every dataset must hold: the inputs were read in order, each
document is on its side, duplicates and what was forgotten are gone.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from conftest import RunCli
from dataprep import DataLoader
from dataprep.loaders import open_dataset
from dataprep.pipeline.jobs import workspace
from support.forks import ForkServer
from support.nights import text_of, whole_texts, write_config, write_lines

SPLITS = {"train": 0.75, "validation": 0.25}
NIGHTS = 28
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


@dataclass(frozen=True)
class Document:
    text: str
    path: str
    line: int


@dataclass
class Model:
    """What the datasets must hold, in plain Python."""

    rng: random.Random
    raw: Path
    files: dict[str, list[str]] = field(default_factory=dict)  # lines, also of those that are gone
    unread: set[str] = field(default_factory=set)  # files with lines that no run has taken yet
    frozen: set[str] = field(default_factory=set)  # files that changed or are gone: ignored
    forgotten: set[str] = field(default_factory=set)
    read: list[Document] = field(default_factory=list)  # in the order of the datasets

    def text(self) -> str:
        words = self.rng.choices(WORDS, k=self.rng.randint(1, 8))
        return " ".join([*words, str(self.rng.randint(0, 40))][: self.rng.randint(1, 9)])

    def add(self, name: str) -> None:
        self.files[name] = [self.text() for _ in range(self.rng.randint(1, 12))]
        write_lines(self.raw / name, self.files[name])
        self.unread.add(name)

    def append(self) -> None:
        for name in self._some():
            more = [self.text() for _ in range(self.rng.randint(1, 5))]
            self.files[name] += more
            write_lines(self.raw / name, more, mode="a")
            self.unread.add(name)

    def change(self) -> None:
        for name in self._some():
            self.frozen.add(name)
            if self.rng.random() < 0.5:
                write_lines(self.raw / name, ["something else entirely", *self.files[name][1:]])
            else:
                (self.raw / name).unlink()

    def _some(self) -> list[str]:
        names = [name for name in self.files if name not in self.frozen | self.unread]
        return self.rng.sample(names, 1) if names else []

    def take(self, sources: Sequence[Any]) -> None:
        """A run has read all that was there; the datasets say in which order."""
        self.unread.clear()
        self.read = []
        for source in sources:
            lines = self.files[Path(source.path).name]
            sizes = [len(json.dumps({"text": text})) + 1 for text in lines]
            first, last = (bisect_left([0, *accumulate(sizes)], at) for at in _range_of(source))
            self.read += [
                Document(text, source.path, number)
                for number, text in enumerate(lines[first:last], first + 1)
            ]
        every = [(str(self.raw / n), i) for n, lines in self.files.items() for i in _to(len(lines))]
        assert sorted((d.path, d.line) for d in self.read) == sorted(every)

    def packed(self, split: str) -> list[str]:
        firsts = dict.fromkeys(document.text for document in self.read)
        return sorted(t for t in firsts if t not in self.forgotten and side(t) == split)


def _range_of(source: Any) -> tuple[int, int]:
    return source.start, source.start + source.bytes


def _to(count: int) -> range:
    return range(1, count + 1)


def side(text: str) -> str:
    """Return the split of a text, computed as the docs say."""
    data = text.encode()
    digest = xxhash.xxh3_128_digest(f"text {len(data)}\n".encode() + data)
    x = int.from_bytes(digest[:8], "little")
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    x ^= x >> 31
    return "train" if x < (3 << 62) else "validation"


def check_datasets(model: Model, out: Path) -> None:
    """Compare everything that the datasets hold with what plain Python says."""
    tokenized = open_dataset(out / "data/tokenized")
    assert len(tokenized) == len(model.read)
    for number, document in enumerate(model.read):
        found = tokenized[number]
        if document.text in model.forgotten:
            assert not found["loss_mask"].any()
            assert len(set(found["tokens"].tolist())) == 1
        else:
            assert text_of(found["tokens"]) == document.text
            assert found["loss_mask"].tolist() == [False] + [True] * (len(found["tokens"]) - 1)
    for split in SPLITS:
        folder = out / f"data/packed-64-{split}"
        assert whole_texts(folder) == model.packed(split)
        counts = open_dataset(folder).about.counts
        assert counts["documents_read"] == len(model.read)
        loss = open_dataset(folder)[:]["loss_mask"][:, 1:].sum()
        assert counts["target_tokens"] == int(loss)


@dataclass
class Trainer:
    """Trains on the newest generation of each night, and remembers every batch."""

    folder: Path
    schedule: dict[int, int] = field(default_factory=dict)
    state: dict[str, Any] | None = None
    seen: list[Any] = field(default_factory=list)

    def night(self) -> None:
        step, dataset = len(self.seen), open_dataset(self.folder)
        if not len(dataset):  # all that came in is on the other side: nothing to train on yet
            return
        newest = dataset.about.generation
        if not self.schedule or self.schedule[max(self.schedule)] != newest:
            self.schedule[step] = newest
        with self.loader() as loader:
            if self.state is not None:
                loader.set_state(self.state)
            self.seen += [next(loader)["inputs"].copy() for _ in range(2)]
            self.state = json.loads(json.dumps(loader.get_state()))

    def loader(self) -> DataLoader:
        return DataLoader(self.folder, batch_size=2, seed=3, generation=dict(self.schedule))

    def replay(self) -> None:
        with self.loader() as loader:
            for step, batch in enumerate(self.seen):
                assert np.array_equal(loader[step]["inputs"], batch), step


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_month_of_nights(
    run_cli: RunCli, commands: ForkServer, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    model = Model(rng=rng, raw=tmp_path / "raw")
    out = tmp_path / "out"
    config = write_config(
        tmp_path / "c.json",
        inputs=["raw/*.jsonl"],
        splits=SPLITS,
        dedup="exact",
        append=True,
        on_changed="ignore",
    )
    trainer = Trainer(out / "data/packed-64-train")
    killed = locked = 0
    for night in range(NIGHTS):
        model.add(f"{night:02d}.jsonl")
        for act, chance in ((model.append, 0.5), (model.change, 0.15)):
            if rng.random() < chance:
                act()
        if rng.random() < 0.4:
            run = commands.start(["run", str(config)], cwd=tmp_path)
            killed += run.kill(after=rng.uniform(0.0, 0.6)).was_killed
            if rng.random() < 0.5:  # more comes in before the next try
                model.add(f"{night:02d}-late.jsonl")
        if rng.random() < 0.2:  # another run has the folder
            with workspace.locked(out):
                locked += run_cli("run", config, check=False).code == 75
                run_cli("run", config, "--if-locked", "skip")
        run_cli("run", config)
        model.take(open_dataset(out / "data/tokenized").about.sources)
        if rng.random() < 0.25:
            chosen = rng.choice(model.read)
            model.forgotten.add(chosen.text)
            (tmp_path / "gone.txt").write_text(f"{chosen.path}:{chosen.line}\n")
            run_cli("forget", out, "--documents", tmp_path / "gone.txt")
        check_datasets(model, out)
        again = json.loads(run_cli("run", config, "--json").stdout)
        assert not any(step["why"] for step in again["steps"])
        trainer.night()
    assert killed >= 3
    assert locked >= 1
    assert model.forgotten
    assert model.frozen
    trainer.replay()
    for folder in ("tokenized", "packed-64-train", "packed-64-validation"):
        run_cli("verify", out / "data" / folder)
