"""A month of nights: data that comes, grows, changes, goes and must be forgotten, runs that are
killed, overlap and are repeated, and a trainer that goes on through it all.

After each night plain Python says what every dataset must hold: the inputs were read in order, each
document is on its side, duplicates and what was forgotten are gone.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from conftest import RunCli
from dataprep import DataLoader
from dataprep.loaders import open_dataset
from support.forks import ForkServer
from support.nights import documents_in_rows, text_of, write_config, write_lines

SPLITS = {"train": 0.75, "validation": 0.25}
NIGHTS = 28
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split()


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
    files: dict[str, list[str]] = field(default_factory=dict)  # as they are on disk
    read: list[Document] = field(default_factory=list)  # what runs have taken, in order
    pending: list[tuple[str, int]] = field(default_factory=list)  # files and their new lines' start
    forgotten: set[str] = field(default_factory=set)
    frozen: set[str] = field(default_factory=set)  # files that changed or are gone: ignored

    def text(self) -> str:
        count = self.rng.randint(1, 8)
        return " ".join(self.rng.choices(WORDS, k=count)) + (
            f" {self.rng.randint(0, 40)}" if self.rng.random() < 0.8 else ""
        )

    def add(self, night: int) -> None:
        name = f"{night:02d}.jsonl"
        self.files[name] = [self.text() for _ in range(self.rng.randint(1, 12))]
        write_lines(self.raw / name, self.files[name])
        self.pending.append((name, 0))

    def append(self) -> None:
        names = [n for n in self.files if n not in self.frozen and n not in dict(self.pending)]
        if names:
            name = self.rng.choice(names)
            start = len(self.files[name])
            more = [self.text() for _ in range(self.rng.randint(1, 5))]
            self.files[name] += more
            write_lines(self.raw / name, more, mode="a")
            self.pending.append((name, start))

    def change(self) -> None:
        names = [n for n in self.files if n not in self.frozen and n not in dict(self.pending)]
        if names:
            name = self.rng.choice(names)
            self.frozen.add(name)
            if self.rng.random() < 0.5:
                write_lines(self.raw / name, ["something else entirely", *self.files[name][1:]])
            else:
                (self.raw / name).unlink()

    def take(self) -> None:
        """A run has taken all that was new, in the order of paths."""
        for name, start in sorted(self.pending):
            for line, text in enumerate(self.files[name][start:], start):
                self.read.append(Document(text, str(self.raw / name), line + 1))
        self.pending.clear()

    def packed(self, split: str) -> list[str]:
        seen: set[str] = set()
        kept = []
        for document in self.read:
            is_first = document.text not in seen
            seen.add(document.text)
            if is_first and document.text not in self.forgotten and side(document.text) == split:
                kept.append(document.text)
        return sorted(kept)


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
        folder = out / f"data/packed-64/{split}"
        segments = [tokens for tokens in documents_in_rows(folder) if len(set(tokens)) > 1]
        assert sorted(map(text_of, segments)) == model.packed(split)
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
        step = len(self.seen)
        newest = open_dataset(self.folder).about.generation
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
    trainer = Trainer(out / "data/packed-64/train")
    killed = overlapped = 0
    for night in range(NIGHTS):
        model.add(night)
        for act, chance in ((model.append, 0.5), (model.change, 0.15)):
            if night and rng.random() < chance:
                act()
        if rng.random() < 0.4:
            ended = commands.start(["run", str(config)], cwd=tmp_path).kill(
                after=rng.uniform(0.0, 0.8)
            )
            killed += ended.was_killed
            if rng.random() < 0.3:  # more comes in before the next try
                write_lines(model.raw / f"{night:02d}-late.jsonl", ["late", f"late {night}"])
                model.files[f"{night:02d}-late.jsonl"] = ["late", f"late {night}"]
                late = f"{night:02d}-late.jsonl"
            else:
                late = ""
        else:
            late = ""
        done = run_cli("run", config, "--json")
        steps = json.loads(done.stdout)["steps"]
        # Files that came while a run was at work are a part of their own, behind the others.
        model.take()
        if late:
            reads = open_dataset(out / "data/tokenized").about.sources
            order = [Path(source.path).name for source in reads]
            model.pending.append((late, 0))
            own = len(model.read)
            model.take()
            if order.index(late) < len(order) - 1 and order[-1] != late:
                model.read = _as_read(model, order, own)
        if rng.random() < 0.25:
            chosen = rng.choice(model.read)
            model.forgotten.add(chosen.text)
            (tmp_path / "gone.txt").write_text(f"{chosen.path}:{chosen.line}\n")
            run_cli("forget", out, "--documents", tmp_path / "gone.txt")
        assert len(steps) == 3
        check_datasets(model, out)
        again = json.loads(run_cli("run", config, "--json").stdout)
        assert not any(step["why"] for step in again["steps"])
        trainer.night()
    assert killed >= 3
    trainer.replay()
    for folder in ("tokenized", "packed-64/train", "packed-64/validation"):
        run_cli("verify", out / "data" / folder)
