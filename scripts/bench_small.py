"""What many small files cost: N files against one file of the same bytes, in CPU seconds.

    python scripts/bench_small.py DATA [--files 20000] [--bytes 3000] [--tokenizer gpt2]

DATA holds mix20.jsonl and tokenizers/NAME/tokenizer.json. Text of mix20.jsonl is cut so that every
file is distinct and of about the same size. CPU seconds are of the whole process tree; "again" is
the same command on the finished dataset.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=3000)
    parser.add_argument("--tokenizer", default="gpt2")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    tokenizer = arguments.data / "tokenizers" / arguments.tokenizer
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "many").mkdir()
        with open(folder / "one.jsonl", "w") as one:
            for i, line in enumerate(lines(arguments.data, arguments.files, arguments.bytes)):
                (folder / "many" / f"{i:06d}.jsonl").write_text(line)
                one.write(line)
        print(f"{'':12} {'one file':>9} {'many':>9} {'ratio':>7} {'again':>7}")
        seconds(folder / "one.jsonl", tokenizer, folder / "proof")  # engines are proven once
        for number in range(arguments.rounds):
            one_file = seconds(folder / "one.jsonl", tokenizer, folder / f"a{number}")
            many = seconds(folder / "many", tokenizer, folder / f"b{number}")
            again = seconds(folder / "many", tokenizer, folder / f"b{number}")
            print(
                f"CPU seconds  {one_file:9.2f} {many:9.2f} {many / one_file:7.2f} {again:7.2f}",
                flush=True,
            )


def lines(data: Path, count: int, size: int) -> Iterator[str]:
    """`count` lines of about `size` bytes, all distinct."""
    with open(data / "mix20.jsonl", encoding="utf-8") as file:
        text = "\n".join(json.loads(line)["text"] for line in file)
    for i in range(count):
        start = i * 977 * 7 % max(1, len(text) - size)
        yield json.dumps({"text": f"{i} {text[start : start + size - 20]}"}) + "\n"


def seconds(path: Path, tokenizer: Path, out: Path) -> float:
    """CPU seconds of the command and its workers."""
    command = [sys.executable, "-m", "dataprep.cli.main", "tokenize", str(path), "-q"]
    command += ["--tokenizer", str(tokenizer), "--engine", "fastokens", "--out", str(out)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=environment(out.parent))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(cache: Path) -> dict[str, str]:
    """Return the command's environment: bytecode is kept, as an installed package's is."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "DATAPREP_CACHE": str(cache)}


if __name__ == "__main__":
    main()
