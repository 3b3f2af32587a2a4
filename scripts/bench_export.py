"""Measure how fast exports are written, beside `cp` of the bytes that they write.

    python scripts/bench_export.py [--tokens 100000000] [--formats megatron hf …] [--rounds 3]
                                   [--peers PYTHON]

Documents of made-up ids, as frequent as words of a language and none a copy of another, become a
dataset once. Then, round by round: each format is exported by one worker, from the large dataset
and from one of a single document, whose cost is taken off and shown as "fixed"; what it wrote is
copied by `cp` and made durable by `sync`, as exports do; and the format's own writer writes the
same documents out of memory ("own", without fsync). `--peers` is a Python in which the writers of
Megatron (megatron-core, torch) and MDS (mosaicml-streaming) are installed.

"least" is a loop that an export cannot be faster than: it reads the dataset and hashes it, writes
as many bytes as the export and hashes them, makes them durable, reads them back and hashes them.

CPU seconds are user and system of all processes; the least of all rounds counts, since the machine
may be busy. "of cp" is how much of its speed an export has: 100 % is as fast. An export reads other
bytes than it writes, and hashes both. Parquet is compressed, so its bytes are few; see "Mtok/s".
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
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from own_writers import LONGEST, MISSING

from dataprep.pipeline.hashes import CHUNK_BYTES, hash_file
from dataprep.pipeline.storage.foreign.megatron import encode_index

NEEDS = {to: ("--max-length", str(LONGEST)) for to in ("maxtext", "xlstm")}
PACKED = ("megatron-bridge", "hf", "mds", "xlstm")
ALL = ("megatron", "olmo", "datatrove", "nanogpt", "xlstm", "maxtext", "mds", "hf")
HEAD = (
    "format          of          MB | export: fixed   CPU s  wall s Mtok/CPU s | cp: CPU   wall "
    "+ sync: CPU   wall | of cp: CPU | with sync: CPU  wall | least: CPU  of it "
    "| own: CPU s   of own"
)
VOCABULARY = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    cpu: float
    wall: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(cpu=max(self.cpu - other.cpu, 1e-9), wall=max(self.wall - other.wall, 1e-9))

    def __add__(self, other: Cost) -> Cost:
        return Cost(cpu=self.cpu + other.cpu, wall=self.wall + other.wall)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", nargs="*", default=[*ALL])
    parser.add_argument("--packed", nargs="*", default=[*PACKED])
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--folder", type=Path, help="made once and kept, for other runs")
    arguments = parser.parse_args()
    with _home(arguments.folder) as home:
        make_datasets(home, arguments.tokens)
        print(HEAD)
        for kind, formats in (("tokenized", arguments.formats), ("packed", arguments.packed)):
            for to in formats:
                bench(home, kind, to, arguments)


@contextmanager
def _home(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def make_datasets(home: Path, num_tokens: int) -> None:
    """Make a large and a tiny dataset of each kind, unless they are there."""
    write_tokenizer(home / "tokenizer")
    for size, count in (("large", num_tokens), ("tiny", 1)):
        write_ids(home, size, count)
        tokenized, packed = home / f"{size}-tokenized", home / f"{size}-packed"
        how = ("--pretokenized", "tokens", "--tokenizer", home / "tokenizer")
        dataprep("tokenize", home / f"{size}.idx", *how, "--out", tokenized)
        dataprep("pack", tokenized, "--seq-len", LONGEST, "--out", packed)


def write_tokenizer(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    words = {"</s>": 0, **{f"t{i}": i for i in range(1, VOCABULARY)}}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "</s>"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))


def write_ids(home: Path, size: str, num_tokens: int) -> None:
    """Write documents as Megatron has them: each ends with EOS, the only one in it."""
    if (home / f"{size}.idx").exists():
        return
    draw = np.random.default_rng(0)
    lengths = draw.lognormal(5.9, 1.1, max(1, num_tokens // 670)).clip(1, 50_000).astype(int) + 1
    ends = np.cumsum(lengths)
    with open(home / f"{size}.bin", "wb") as file:
        for first in range(0, int(ends[-1]), 1 << 22):
            count = min(1 << 22, int(ends[-1]) - first)
            # As often as words of a language: half as often with twice the rank.
            ids = np.exp(draw.random(count) * np.log(VOCABULARY - 1)).astype("<u2")
            ids[ends[(ends > first) & (ends <= first + count)] - 1 - first] = 0
            file.write(ids.tobytes())
    (home / f"{size}.idx").write_bytes(encode_index(lengths, np.dtype("<u2")))


def bench(home: Path, kind: str, to: str, arguments: argparse.Namespace) -> None:
    found: dict[str, list[Cost]] = defaultdict(list)
    out, copy = home / "out", home / "copy"
    for _ in range(arguments.rounds):
        for size in ("tiny", "large"):
            shutil.rmtree(out, ignore_errors=True)
            words = ("--to", to, *(NEEDS.get(to, ()) if kind == "tokenized" else ()))
            how = ("-j", arguments.workers, "--out", out, "-q")
            found[size].append(cost_of(*command("export", home / f"{size}-{kind}", *words, *how)))
        shutil.rmtree(copy, ignore_errors=True)
        found["cp"].append(cost_of("cp", "-r", str(out), str(copy)))
        files = [str(path) for path in copy.rglob("*") if path.is_file()]
        found["sync"].append(cost_of("sync", *files))
        shutil.rmtree(copy)
        num_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        found["least"].append(
            Cost(cpu=least(home / f"large-{kind}", num_bytes, home / "least"), wall=0.0)
        )
        if kind == "tokenized" and (seconds := own(home, to, arguments.peers)) is not None:
            found["own"].append(Cost(cpu=seconds, wall=0.0))
    num_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    num_tokens = json.loads((out / "manifest.json").read_bytes())["counts"]["tokens"]
    best = {
        name: Cost(cpu=min(c.cpu for c in costs), wall=min(c.wall for c in costs))
        for name, costs in found.items()
    }
    show(f"{to:<15} {kind:<9} {num_bytes / 1e6:>6,.0f}", num_tokens / 1e6, best)


def show(name: str, millions: float, best: dict[str, Cost]) -> None:
    export, copy, durable = best["large"] - best["tiny"], best["cp"], best["cp"] + best["sync"]
    line = (
        f"{name} | {best['tiny'].cpu:>13.2f} {export.cpu:>7.2f} {export.wall:>7.2f} "
        f"{millions / export.cpu:>10.0f} | {copy.cpu:>7.2f} {copy.wall:>6.2f} "
        f"{durable.cpu:>11.2f} {durable.wall:>6.2f} | {copy.cpu / export.cpu:>10.0%} | "
        f"{durable.cpu / export.cpu:>14.0%} {durable.wall / export.wall:>5.0%} | "
        f"{best['least'].cpu:>10.2f} {best['least'].cpu / export.cpu:>6.0%} |"
    )
    if "own" in best:
        line += f" {best['own'].cpu:>10.2f} {best['own'].cpu / export.cpu:>8.0%}"
    print(line, flush=True)


def least(dataset: Path, num_bytes: int, out: Path) -> float:
    """Return the CPU seconds of the loop that an export cannot be faster than."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    before = used.ru_utime + used.ru_stime
    for path in sorted((dataset / "shards").iterdir()):
        hash_file(path)
    data, state = memoryview(bytes(CHUNK_BYTES)), xxhash.xxh3_128()
    with open(out, "wb", buffering=0) as file:
        for left in range(num_bytes, 0, -CHUNK_BYTES):
            state.update(data[:left])
            file.write(data[:left])
        os.fsync(file.fileno())
    assert hash_file(out) == state.hexdigest()
    used = resource.getrusage(resource.RUSAGE_SELF)
    out.unlink()
    return used.ru_utime + used.ru_stime - before


def own(home: Path, to: str, python: str) -> float | None:
    """Return the CPU seconds of the format's own writer, None if it is not there."""
    out = home / "own"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    script = Path(__file__).with_name("own_writers.py")
    words = [str(script), to, str(home / "large.bin"), str(home / "large.idx"), str(out)]
    python = sys.executable if to in ("hf", "xlstm", "maxtext") else python
    done = subprocess.run([python, *words], stdout=subprocess.PIPE, check=False)
    shutil.rmtree(out)
    if done.returncode == MISSING:
        return None
    done.check_returncode()
    return float(done.stdout)


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
