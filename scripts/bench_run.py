"""What `dataprep run` costs: beside its steps by hand, for 1 % more, and for nothing new.

    python scripts/bench_run.py DATA [--megabytes 400] [--files 200] [--tokenizer gpt2]

DATA holds mix20.jsonl and tokenizers/NAME/tokenizer.json. The words of its texts are permuted, so
that all text is distinct. Seconds of CPU are of the whole process tree. Bytecode is kept, as an
installed package has it, and each command runs once before it is measured.

    chain       run of tokenize and pack          against the two commands by hand    at most 1.15
    increment   run after 1 % more files          against the whole                   at most 3 %
    nothing     run over --unchanged files again  CPU after the start of Python       at most 2 s
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SEQ_LEN = 2048
SMALL_BYTES = 3000  # of each of the unchanged files
SETTLED_SECONDS = 2.5  # hashes of files that were written just now are not cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    cpu: float
    wall: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(cpu=self.cpu + other.cpu, wall=self.wall + other.wall)

    def __str__(self) -> str:
        return f"{self.cpu:8.2f} s CPU {self.wall:8.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--unchanged", type=int, default=10_000)
    parser.add_argument("--tokenizer", default="gpt2")
    arguments = parser.parse_args()
    tokenizer = arguments.data.resolve() / "tokenizers" / arguments.tokenizer
    with open(arguments.data / "mix20.jsonl", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        words = [sys.executable, "-c", "import dataprep.cli.run"]
        cost(home, words)
        start = cost(home, words)
        print(f"start of Python with the command's modules: {start}", flush=True)
        compare(home, texts, tokenizer, arguments.megabytes << 20, arguments.files)
        again(home, texts, tokenizer, arguments.unchanged, start)


def compare(home: Path, texts: Sequence[str], tokenizer: Path, size: int, files: int) -> None:
    """Measure the chain, its steps by hand, and a night with 1 % more files."""
    (home / "raw").mkdir()
    write_files(home / "raw", texts, size // files, range(files))
    config(home / "c.json", tokenizer, "raw/*.jsonl", "out")
    by_hand(home, tokenizer, "warm", "raw/000000.jsonl")  # engines are proven once
    config(home / "warm.json", tokenizer, "raw/000000.jsonl", "warm/out")
    cost(home, run("warm.json"))
    hand = by_hand(home, tokenizer, "by-hand")
    whole = cost(home, run())
    hand_again = by_hand(home, tokenizer, "by-hand-again")
    shutil.rmtree(home / "by-hand-again")
    print(f"{size >> 20} MB of text in {files} files, gpt2, rows of {SEQ_LEN}")
    print(f"  tokenize and pack by hand   {hand}")
    print(f"  … once more                 {hand_again}")
    print(f"  run                         {whole}")
    ratios = (whole.cpu / hand.cpu, whole.cpu / hand_again.cpu)
    print(f"  run / by hand: CPU {ratios[0]:.3f} and {ratios[1]:.3f} (bar 1.15)")
    check_equal(home)
    shutil.rmtree(home / "by-hand")
    more = max(1, files // 100)
    write_files(home / "raw", texts, size // files, range(files, files + more))
    night = cost(home, run())
    nothing = cost(home, run())
    print(f"  run with {more} more of {files}       {night}")
    print(f"  run with nothing new        {nothing}: start and fixed costs")
    shares = (night.cpu / whole.cpu, max(night.cpu - nothing.cpu, 0) / whole.cpu)
    print(
        f"  increment / whole: wall {night.wall / whole.wall:.2%}, CPU {shares[0]:.2%}, "
        f"{shares[1]:.2%} of it for what is new (bar 3 %)",
        flush=True,
    )
    for folder in ("raw", "out", "warm"):
        shutil.rmtree(home / folder)


def check_equal(home: Path) -> None:
    """Check that the chain made the shards that the commands make."""
    for verb, folder in (("tokens", "tokenized"), ("rows", f"packed-{SEQ_LEN}")):
        mine, theirs = home / f"by-hand/{verb}", home / f"out/data/{folder}/parts/00000"
        names = sorted(path.relative_to(mine) for path in mine.glob("shards/*"))
        assert names, mine
        for name in names:
            assert (mine / name).read_bytes() == (theirs / name).read_bytes(), name


def again(home: Path, texts: Sequence[str], tokenizer: Path, count: int, start: Cost) -> None:
    """Measure a run that finds nothing new among many files, and count which it opens."""
    (home / "many").mkdir()
    write_files(home / "many", texts, SMALL_BYTES, range(count))
    config(home / "c.json", tokenizer, "many/*.jsonl", "out")
    cost(home, run())
    time.sleep(SETTLED_SECONDS)
    cost(home, run())  # it takes notice of the hashes
    nothing = [cost(home, run()) for _ in range(3)]
    best = min(nothing, key=lambda each: each.cpu)
    print(f"nothing new among {count} files     {best}")
    print(f"  after the start of Python: {best.cpu - start.cpu:.2f} s CPU (bar 2 s)")
    print(f"  input files opened: {opened(home)}")


def opened(home: Path) -> str:
    """Return how many input files a run with nothing new opens, by strace or a hook of Python."""
    log = home / "log"
    if shutil.which("strace"):
        words = ["strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(log), *run()]
        how = "strace"
    else:
        hook = (
            "import sys; log = open('log', 'w'); "
            "sys.addaudithook(lambda what, values: what == 'open' and print(values[0], file=log)); "
            "sys.argv = ['dataprep', 'run', 'c.json', '-q']; "
            "from dataprep.cli.main import main; main()"
        )
        words, how = [sys.executable, "-c", hook], "a hook of Python's own calls"
    subprocess.run(words, cwd=home, check=True, env=environment(home))
    found = set(re.findall(r"many/\d+\.jsonl", log.read_text("utf-8", "replace")))
    return f"{len(found)} (counted by {how})"


def by_hand(home: Path, tokenizer: Path, out: str, inputs: str = "raw/*.jsonl") -> Cost:
    common = ["-q", "--out"]
    tokens = ["tokenize", inputs, "--tokenizer", str(tokenizer), *common, f"{out}/tokens"]
    rows = ["pack", f"{out}/tokens", "--seq-len", str(SEQ_LEN), *common, f"{out}/rows"]
    return cost(home, [*command(), *tokens]) + cost(home, [*command(), *rows])


def run(config: str = "c.json") -> list[str]:
    return [*command(), "run", config, "-q"]


def command() -> list[str]:
    return [sys.executable, "-m", "dataprep.cli.main"]


def cost(home: Path, words: Sequence[str]) -> Cost:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, cwd=home, check=True, env=environment(home), stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu=cpu, wall=wall)


def environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "DATAPREP_CACHE": str(home / "cache")}


def config(path: Path, tokenizer: Path, inputs: str, out: str) -> None:
    values = {"inputs": [inputs], "tokenizer": str(tokenizer), "seq_lens": [SEQ_LEN], "out": out}
    path.write_text(json.dumps(values))


def write_files(folder: Path, texts: Sequence[str], size: int, numbers: range) -> None:
    """Write files of about so many bytes, each of its own text."""
    for number in numbers:
        with open(folder / f"{number:06d}.jsonl", "w", encoding="utf-8") as file:
            left = size
            for line in lines(texts, random.Random(number)):
                file.write(line)
                left -= len(line)
                if left <= 0:
                    break


def lines(texts: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Yield records of permuted words, without end; blanks stay with the words behind them."""
    while True:
        words = re.findall(r"\s*\S+", rng.choice(texts)[:SMALL_BYTES])
        rng.shuffle(words)
        yield json.dumps({"text": "".join(words)}, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
