"""Measure how fast exports are written, beside `cp` of the bytes that they write.

    python scripts/bench_export.py [DATA] [--copies 200] [--formats megatron hf …]

DATA holds mix20.jsonl and tokenizers/NAME/tokenizer.json; without it, documents are made up. The
text is repeated, tokenized and packed once. Then each format is exported by one worker, and what it
wrote is copied by `cp`, twice, of which the second counts. CPU seconds are user and system of all
processes; what an export of one document takes is taken off. "of cp" is
how much of its speed an export has: 100 % is as fast. An export also hashes what it reads and
writes, and waits for the disk. Parquet is compressed, so its bytes are few; see "Mtok/s".
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NEEDS = {"maxtext": ("--max-length", "2048"), "xlstm": ("--max-length", "2048")}
PACKED = ("megatron-bridge", "hf", "mds")
ALL = ("megatron", "olmo", "datatrove", "nanogpt", "xlstm", "maxtext", "mds", "hf")
HEAD = (
    "format             of         MB written   wall s    CPU s   cp wall   cp CPU   "
    "of cp: wall    CPU   Mtok/CPU s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    wall: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--copies", type=int, default=200, help="of mix20.jsonl")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=[*ALL])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        make_datasets(arguments.data, home, arguments.copies)
        print(HEAD)
        for to in arguments.formats:
            bench(home, "tokenized", to, arguments.workers)
        for to in PACKED:
            bench(home, "packed", to, arguments.workers)


def make_datasets(data: Path | None, home: Path, copies: int) -> None:
    """Make a large and a tiny dataset of each kind."""
    tokenizer = "bytes" if data is None else str(data / "tokenizers" / "gpt2" / "tokenizer.json")
    whole = made_up() if data is None else (data / "mix20.jsonl").read_bytes()
    (home / "large.jsonl").write_bytes(whole * copies)
    (home / "tiny.jsonl").write_text(json.dumps({"text": "hello"}) + "\n")
    for size in ("large", "tiny"):
        tokenized, packed = home / f"{size}-tokenized", home / f"{size}-packed"
        tokenize = ("--tokenizer", tokenizer, "--shard-bytes", str(64 << 20), "--no-add-bos")
        dataprep("tokenize", home / f"{size}.jsonl", *tokenize, "--out", tokenized)
        dataprep("pack", tokenized, "--seq-len", 2048, "--out", packed)


def made_up() -> bytes:
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(5.8, 1.1, 2000), 20_000).astype(int).tolist()
    return b"".join(json.dumps({"text": "x" * n}).encode() + b"\n" for n in lengths)


def bench(home: Path, kind: str, to: str, workers: int) -> None:
    costs = {}
    for size in ("tiny", "large"):
        out = home / "out"
        shutil.rmtree(out, ignore_errors=True)
        words = ("--to", to, *NEEDS.get(to, ()), "-j", workers, "--shard-bytes", 64 << 20)
        costs[size] = cost_of(
            *command("export", home / f"{size}-{kind}", *words, "--out", out, "-q")
        )
    num_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    num_tokens = json.loads((out / "manifest.json").read_bytes())["counts"]["tokens"]
    for _ in range(2):
        copy = cost_of("cp", "-r", str(out), str(home / "copy"))
        shutil.rmtree(home / "copy")
    wall = max(costs["large"].wall - costs["tiny"].wall, 1e-9)
    cpu = max(costs["large"].cpu - costs["tiny"].cpu, 1e-9)
    print(
        f"{to:<18} {kind:<10} {num_bytes / 1e6:>9,.0f} {wall:>10.2f} {cpu:>8.2f} "
        f"{copy.wall:>9.2f} {copy.cpu:>8.2f} {copy.wall / wall:>12.0%} {copy.cpu / cpu:>6.0%} "
        f"{num_tokens / cpu / 1e6:>10.0f}",
        flush=True,
    )


def command(*words: object) -> tuple[str, ...]:
    return (sys.executable, "-m", "dataprep", *map(str, words))


def dataprep(*words: object) -> None:
    subprocess.run([*command(*words), "-q"], check=True)


def cost_of(*words: str) -> Cost:
    """Return what a program takes, with all that it starts."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, check=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall=ended - began, cpu=cpu)


if __name__ == "__main__":
    main()
