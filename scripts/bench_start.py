"""How long the first result takes, in seconds, beside another checkout if one is named.

    python scripts/bench_start.py DATA [--against CHECKOUT] [--tokenizer qwen3] [--rounds 3]

DATA holds mix20.jsonl and tokenizers/NAME/tokenizer.json. "new" is the same tokenizer with a space
at its end, so that no proof of it is known anywhere; "empty" means an empty cache. The checkouts
take turns, and the median of the rounds is shown, wall time and in brackets CPU: one round for what
takes most of a minute. The misspelt name is looked for on the hub, or fails for want of a network.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent.parent
MISSPELT = "gpt3"
Taken = tuple[float, float]  # seconds of wall time and of CPU
Measure = Callable[[Path], Taken]  # of a checkout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--tokenizer", default="qwen3")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    arguments.data = arguments.data.resolve()  # commands run elsewhere
    checkouts = [arguments.against.resolve(), HERE] if arguments.against else [HERE]
    for checkout in checkouts:
        check_own(checkout, parser)
    print(f"{'':44}" + "".join(f"{name:>20}" for name in ("against", "here")[-len(checkouts) :]))
    with tempfile.TemporaryDirectory() as name:
        for what, rounds, measure in measures(arguments, Path(name)):
            times: dict[Path, list[Taken]] = {checkout: [] for checkout in checkouts}
            for _ in range(rounds):
                for checkout in checkouts:
                    times[checkout].append(measure(checkout))
            print(f"{what:44}" + "".join(f"{shown(t):>20}" for t in times.values()), flush=True)


def check_own(checkout: Path, parser: argparse.ArgumentParser) -> None:
    """Refuse a checkout whose package Python does not find: it would take the installed one."""
    words = ("-c", "import dataprep, os; print(os.path.realpath(dataprep.__file__ or ''))")
    done = subprocess.run([sys.executable, *words], env=environment(checkout), capture_output=True)
    found = os.fsdecode(done.stdout).strip()
    if Path(found).parent != checkout / "src" / "dataprep":
        parser.error(
            f"{checkout} has no package in src/dataprep, so that {found or 'none'} would be "
            "measured instead; name a later one"
        )


def shown(times: list[Taken]) -> str:
    wall, cpu = (median(column) for column in zip(*times, strict=True))
    return f"{wall:.2f} s ({cpu:.2f})"


def measures(arguments: argparse.Namespace, folder: Path) -> list[tuple[str, int, Measure]]:
    corpus, known = arguments.data / "mix20.jsonl", arguments.data / "tokenizers"
    known = known / arguments.tokenizer
    ten = folder / "ten.jsonl"
    with open(corpus, encoding="utf-8") as file:
        ten.write_text("".join(islice(file, 10)), encoding="utf-8")
    new = Path(shutil.copytree(known, folder / "new", copy_function=shutil.copyfile))
    (new / "tokenizer.json").write_bytes((known / "tokenizer.json").read_bytes() + b" ")

    def run(checkout: Path, path: Path, tokenizer: str, is_warm: bool = False) -> Taken:
        cache = folder / ("cache-here" if checkout == HERE else "cache-against")
        if not is_warm:
            shutil.rmtree(cache, ignore_errors=True)
        return seconds(checkout, path, tokenizer, folder / "out", cache)

    warmed: set[Path] = set()

    def warm(checkout: Path) -> Taken:
        if checkout not in warmed:
            warmed.add(checkout)
            run(checkout, ten, str(known), is_warm=True)
        return run(checkout, ten, str(known), is_warm=True)

    rounds = arguments.rounds
    imports = ("-c", "import dataprep.loaders")
    return [
        ("dataprep --help", rounds, lambda c: python(c, ("-m", "dataprep", "--help"), folder)),
        ("import dataprep.loaders", rounds, lambda c: python(c, imports, folder)),
        ("20 MB, new tokenizer, empty cache", 1, lambda c: run(c, corpus, str(new))),
        ("20 MB, well-known tokenizer, empty cache", 1, lambda c: run(c, corpus, str(known))),
        ("10 documents, new tokenizer, empty cache", 1, lambda c: run(c, ten, str(new))),
        ("10 documents, well-known, warm", rounds, warm),
        ("a misspelt name", 1, lambda c: run(c, ten, MISSPELT)),
    ]


def seconds(checkout: Path, path: Path, tokenizer: str, out: Path, cache: Path) -> Taken:
    shutil.rmtree(out, ignore_errors=True)
    words = ("-m", "dataprep", "tokenize", str(path), "--tokenizer", tokenizer, "--out", str(out))
    # A command that fails is fast, too.
    return python(checkout, words, cache, expected=2 if tokenizer == MISSPELT else 0)


def python(checkout: Path, words: tuple[str, ...], cache: Path, *, expected: int = 0) -> Taken:
    """Run Python with the package of a checkout."""
    own = {**environment(checkout), "DATAPREP_CACHE": str(cache)}
    began, spent = time.perf_counter(), _cpu_of_children()
    done = subprocess.run([sys.executable, *words], env=own, cwd=cache.parent, capture_output=True)
    taken = time.perf_counter() - began, _cpu_of_children() - spent
    assert done.returncode == expected, done.stderr.decode()
    return taken


def environment(checkout: Path) -> dict[str, str]:
    """Return the variables by which Python finds the package of a checkout."""
    own = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    own.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it
    return own


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
