"""Measure how fast engines are on one thread, which is how workers use them.

An engine makes its thread pool once per process, for all cores, so speed is measured in a separate
process: `python -m dataprep.pipeline.engine.proof.speed` reads a request as JSON from stdin and
prints {name: MB/s of UTF-8}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from dataprep.pipeline.engine.fast import load_fast
from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import Engine
from dataprep.pipeline.engine.proof.fuzz import plain_text
from dataprep.pipeline.engine.reference import load_reference

REFERENCE = "reference"
ROUNDS = 5


def single_threaded_environment() -> dict[str, str]:
    """Return the variables of worker processes; set them before they import an engine."""
    return {
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "FASTOKENS_BPE_THREADS": "1",  # its own pool, which uses the CPU while it waits
    }


def speeds_on_one_thread(
    names: Sequence[str], files: TokenizerFiles, num_characters: int, seed: int
) -> dict[str, float]:
    """Return MB/s of the named engines and of the reference; one that crashes is left out."""
    request = {
        "names": list(names),
        "files": asdict(files),
        "num_characters": num_characters,
        "seed": seed,
    }
    result = subprocess.run(
        [sys.executable, "-P", "-m", "dataprep.pipeline.engine.proof.speed"],
        input=json.dumps(request),
        env={**os.environ, **single_threaded_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, float] = {}
    for line in result.stdout.splitlines():
        found.update(json.loads(line))
    return found


def measure(
    engines: Mapping[str, Callable[[], Engine]], num_characters: int, seed: int
) -> dict[str, float]:
    """Return MB/s of each: the best of several rounds, but one round of the reference, on less."""
    speeds: dict[str, float] = {}
    for name, load in engines.items():
        engine = load()
        is_reference = name == REFERENCE
        for number in range(1 if is_reference else ROUNDS):
            # New text in every round: engines cache words, and text seen before would be too fast.
            size = num_characters // 4 if is_reference else num_characters
            texts = plain_text(size, seed + number)
            num_bytes = sum(len(text.encode("utf-8")) for text in texts)
            started = time.perf_counter()
            engine.encode(texts)
            speed = num_bytes / 1e6 / (time.perf_counter() - started)
            speeds[name] = max(speeds.get(name, 0.0), round(speed, 2))
    return speeds


def main() -> None:
    request = json.loads(sys.stdin.read())
    files = TokenizerFiles(**request["files"])
    for name in (*request["names"], REFERENCE):

        def load(name: str = name) -> Engine:
            return load_reference(files) if name == REFERENCE else load_fast(name, files)

        print(
            json.dumps(measure({name: load}, request["num_characters"], request["seed"])),
            flush=True,
        )


if __name__ == "__main__":
    main()
