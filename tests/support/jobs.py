"""Small jobs of many shards: what faults are tried on.

    tokenize    8 files                  9 shards, each of a task
    pack        its dataset              28 shards
    export      the same dataset         9 shards of three files each
    encode      40 pictures, a table     15 shards, of the table several in one task

Each takes a few tenths of a second, so that kills at random moments fall into the work.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.encoding import png
from support.forks import ForkServer, Run
from support.trees import tree

WORDS = ["stone", "river", "lamp", "grün", "seven", "cloud", "paper", "日本", "under", "walk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command and the bytes that it must give."""

    name: str
    words: tuple[str, ...]
    clean: Mapping[str, bytes]  # the dataset of an undisturbed run
    folder: Path  # where that dataset is
    seconds: float  # from its first file to its end; 0 if that was not measured

    @property
    def num_shards(self) -> int:
        return sum(name.startswith("shards/") for name in self.clean)

    def command(self, out: Path, workers: int, *more: str) -> list[str]:
        return [*self.words, "--out", str(out), "--workers", str(workers), *more]

    def verdict(self, out: Path) -> str:
        """Return 'equal', 'unfinished' or what is wrong with what lies in `out`."""
        if not (out / "manifest.json").exists():
            return "unfinished"
        found = {name: data for name, data in tree(out).items() if not name.startswith(".work/")}
        if found == self.clean:
            return "equal"
        names = sorted(n for n in {*found, *self.clean} if found.get(n) != self.clean.get(n))
        return f"other bytes in {', '.join(names[:5])}"


def write_corpus(folder: Path, *, files: int = 8, lines: int = 130, seed: int = 0) -> list[Path]:
    """Files of some 50 KB each, which are a task each."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    paths = []
    for number in range(files):
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(5, 130))) for _ in range(lines)]
        paths.append(folder / f"part-{number}.jsonl")
        paths[-1].write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), "utf-8")
    return paths


def write_pictures(folder: Path, count: int = 40) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number:03d}.png").write_bytes(png(number))
        (folder / f"{number:03d}.txt").write_text(f"picture {number}", "utf-8")
    return folder


def write_table(folder: Path, count: int) -> Path:
    """Pictures in one file, which is one task: it has several shards."""
    path = folder / "table.jsonl"
    rows = [{"image": b64encode(png(100 + n)).decode(), "text": f"row {n}"} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def make_jobs(
    folder: Path,
    server: ForkServer,
    names: Collection[str] = ("tokenize", "pack", "export", "encode"),
    *,
    is_small: bool = False,
) -> dict[str, Job]:
    """Write the inputs and make each dataset once, undisturbed; small ones have 2 to 4 shards, and
    are not made again to see how long that takes."""
    corpus = write_corpus(folder / "corpus", **{"files": 3} if is_small else {})
    pictures = write_pictures(folder / "pictures", **{"count": 5} if is_small else {})
    table = write_table(folder, 9 if is_small else 20)
    tokens = folder / "clean-tokenize"
    commands: dict[str, Sequence[str | Path]] = {
        "tokenize": [
            *("tokenize", *corpus, "--tokenizer", "bytes"),
            *("--shard-bytes", "65536", "--on-error", "quarantine", "--set", "keys=content"),
        ],
        "pack": ["pack", tokens, "--seq-len", "128", "--shard-rows", "400" if is_small else "120"],
        # Three files a shard: of ids, ends and loss.
        "export": ["export", tokens, "--to", "datatrove", "--shard-bytes", "65536"],
        "encode": ["encode", pictures, table, "--encoder", "patches", "--shard-records", "4"],
    }
    return {
        name: _made(name, tuple(map(str, words)), folder / f"clean-{name}", server, not is_small)
        for name, words in commands.items()
        if name in names
    }


def make_exports(folder: Path, server: ForkServer, dataset: Path) -> dict[str, Job]:
    """Export a dataset in all ways to write files but `export`'s own: a head that is known last,
    Parquet, ArrayRecord."""
    more = {"mds": (), "hf": (), "maxtext": ("--max-length", "64")}
    return {
        f"export to {to}": _made(
            f"export to {to}",
            ("export", str(dataset), "--to", to, "--shard-bytes", "65536", *words),
            folder / f"clean-{to}",
            server,
        )
        for to, words in more.items()
    }


def _made(
    name: str, words: tuple[str, ...], folder: Path, server: ForkServer, is_timed: bool = True
) -> Job:
    server.check([*words, "--out", folder, "--workers", "2"])
    return Job(
        name=name,
        words=words,
        clean=tree(folder),
        folder=folder,
        seconds=_measured(words, folder.with_name(f"again-{name}"), server) if is_timed else 0.0,
    )


def _measured(words: tuple[str, ...], out: Path, server: ForkServer) -> float:
    """Return how long the work takes, from its first file to its end."""
    run = server.start([*words, "--out", out, "--workers", "2"])
    wait_for_work(run, out)
    begun = time.monotonic()
    ended = run.wait()
    assert ended.code == 0, ended.stderr
    shutil.rmtree(out)
    return time.monotonic() - begun


def wait_for_work(run: Run, out: Path) -> None:
    """Wait until the run has begun to write, or has ended."""
    deadline = time.monotonic() + 30
    while not (out / ".work").exists() and not run.server.has_answer(0.0005):
        assert time.monotonic() < deadline, "the run did not begin"
