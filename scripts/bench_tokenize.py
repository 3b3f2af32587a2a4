"""Measure how fast `dataprep tokenize` is, compared with its engines and with other tools.

    python scripts/bench_tokenize.py DATA [--tokenizers gpt2 qwen3] [--copies 20]

DATA holds mix20.jsonl and tokenizers/NAME/tokenizer.json. The corpus is mix20.jsonl repeated in
shuffled orders. Everything runs in two processes. "in memory" is an engine's own encode call on
texts already decoded. The start-up of dataprep (the same command on one document) is subtracted,
as it is for the others. Peak memory (PSS) is sampled over the whole process tree.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

NUM_PROCESSES = 2
BATCH = 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--tokenizers", nargs="+", default=["gpt2", "cl100k", "qwen3", "bert"])
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = arguments.data / "mix20.jsonl"
        corpus = make_corpus(small, folder / "corpus.jsonl", arguments.copies)
        print(f"corpus {corpus.stat().st_size / 1e6:.0f} MB, {NUM_PROCESSES} processes")
        for tokenizer in arguments.tokenizers:
            path = arguments.data / "tokenizers" / tokenizer / "tokenizer.json"
            print(f"\n{tokenizer}")
            against_engines(corpus, path, folder, arguments.rounds)
            against_reference(small, path, folder)
        path = arguments.data / "tokenizers" / arguments.tokenizers[-1] / "tokenizer.json"
        against_today(small, path, folder)


def make_corpus(source: Path, target: Path, copies: int) -> Path:
    lines = source.read_bytes().splitlines(keepends=True)
    rng = random.Random(0)
    with open(target, "wb") as file:
        for _ in range(copies):
            rng.shuffle(lines)
            file.writelines(lines)
    return target


def against_engines(corpus: Path, tokenizer: Path, folder: Path, rounds: int) -> None:
    """Print the medians of engines in memory and of dataprep, which take turns."""
    memory = peak_memory(corpus, tokenizer, folder)  # also proves engines, fills caches
    speeds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for engine in ("fastokens", "gigatoken", "splintr"):
            speed = in_memory(corpus, tokenizer, engine)
            if speed:
                speeds.setdefault(engine, []).append(speed)
        speed = dataprep_run(corpus, tokenizer, folder, [])
        speeds.setdefault("dataprep", []).append(speed)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    best = max((s for name, s in medians.items() if name != "dataprep"), default=0.0)
    for name, speed in medians.items():
        print(f"  {name:22} {speed:8.1f} MB/s")
    print(f"  dataprep / best engine {medians['dataprep'] / best:8.2f}")
    print(f"  dataprep peak memory   {memory / 2**20:8.0f} MiB")


def against_reference(corpus: Path, tokenizer: Path, folder: Path) -> None:
    """Measure a tokenizer that only `tokenizers` can run."""
    plain = in_memory(corpus, tokenizer, "tokenizers")
    speed = dataprep_run(corpus, tokenizer, folder, ["--engine", "tokenizers"])
    print(f"  tokenizers in memory   {plain:8.1f} MB/s")
    print(f"  dataprep on tokenizers {speed:8.1f} MB/s   ratio {speed / plain:.2f}")


def against_today(corpus: Path, tokenizer: Path, folder: Path) -> None:
    print(f"\nwhat people use today, {tokenizer.parent.name}, {corpus.name}")
    ways: dict[str, Callable[[Path, Path], float]] = {
        "datasets.map": datasets_map,
        "pool of encode": pool_of_encode,
        "datatrove": datatrove,
    }
    for name, way in ways.items():
        try:
            print(f"  {name:22} {way(corpus, tokenizer):8.1f} MB/s")
        except ImportError as error:
            print(f"  {name:22} not installed ({error.name})")
    speed = dataprep_run(corpus, tokenizer, folder, [])
    print(f"  dataprep, same file    {speed:8.1f} MB/s")


def dataprep_run(corpus: Path, tokenizer: Path, folder: Path, more: list[str]) -> float:
    """Return MB/s without start-up."""
    tiny = folder / "tiny.jsonl"
    tiny.write_text(json.dumps({"text": "hello"}) + "\n")
    seconds = {}
    for path in (tiny, corpus):
        begin = time.perf_counter()
        finish(start(path, tokenizer, folder, more))
        seconds[path] = time.perf_counter() - begin
    return corpus.stat().st_size / 1e6 / max(seconds[corpus] - seconds[tiny], 1e-9)


def peak_memory(corpus: Path, tokenizer: Path, folder: Path) -> float:
    """Return the peak memory of an extra run: reading the memory of processes slows them down."""
    process = start(corpus, tokenizer, folder, [])
    watch = Watch(process.pid)
    finish(process)
    return watch.stop()


def start(corpus: Path, tokenizer: Path, folder: Path, more: list[str]) -> subprocess.Popen[bytes]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "dataprep.cli.main", "tokenize", str(corpus), "-q"]
    command += ["--tokenizer", str(tokenizer), "--out", str(out)]
    command += ["--workers", str(NUM_PROCESSES), *more]
    return subprocess.Popen(command)


def finish(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        raise SystemExit(f"failed: {process.args!r}")


class Watch(threading.Thread):
    """Return the peak memory of a process tree."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._done = threading.Event()
        self._peak = 0.0
        self.start()

    def run(self) -> None:
        import psutil

        while not self._done.wait(0.1):
            total = 0.0
            try:
                root = psutil.Process(self._pid)
                for process in [root, *root.children(recursive=True)]:
                    total += process.memory_full_info().pss
            except psutil.Error:
                continue
            self._peak = max(self._peak, total)

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self._peak


def in_memory(corpus: Path, tokenizer: Path, engine: str) -> float:
    """Return MB/s of the engine's own call; both processes start when texts are decoded."""
    context = get_context("spawn")
    barrier, queue = context.Barrier(NUM_PROCESSES), context.Queue()
    processes = [
        context.Process(target=encode_share, args=(corpus, tokenizer, engine, i, barrier, queue))
        for i in range(NUM_PROCESSES)
    ]
    for process in processes:
        process.start()
    seconds = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    if None in seconds:
        return 0.0
    return float(corpus.stat().st_size / 1e6 / max(seconds))


def encode_share(
    corpus: Path, tokenizer: Path, engine: str, share: int, barrier: Any, queue: Any
) -> None:
    from dataprep.pipeline.engine import (
        load_fast,
        load_reference,
        resolve_tokenizer,
        single_threaded_environment,
    )

    os.environ.update(single_threaded_environment())
    files = resolve_tokenizer(str(tokenizer))
    try:
        loaded = load_reference(files) if engine == "tokenizers" else load_fast(engine, files)
    except Exception:
        barrier.abort()
        queue.put(None)
        return
    size = corpus.stat().st_size
    with open(corpus, "rb") as file:
        data = file.read()
    cuts = [data.rfind(b"\n", 0, size * i // NUM_PROCESSES) + 1 for i in range(NUM_PROCESSES)]
    part = data[cuts[share] : [*cuts[1:], size][share]]
    texts = [json.loads(line)["text"] for line in part.splitlines()]
    del data, part
    loaded.encode(texts[:10])
    barrier.wait()
    begin = time.perf_counter()
    for i in range(0, len(texts), BATCH):
        loaded.encode(texts[i : i + BATCH])
    queue.put(time.perf_counter() - begin)


def datasets_map(corpus: Path, tokenizer: Path) -> float:
    import datasets
    from tokenizers import Tokenizer

    datasets.disable_progress_bars()
    loaded = Tokenizer.from_file(str(tokenizer))
    loaded.no_truncation()
    loaded.no_padding()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as cache:
        rows = datasets.load_dataset("json", data_files=str(corpus), split="train", cache_dir=cache)
        begin = time.perf_counter()
        rows.map(
            lambda batch: {"ids": [e.ids for e in loaded.encode_batch_fast(batch["text"])]},
            batched=True,
            num_proc=NUM_PROCESSES,
            remove_columns=rows.column_names,
        )
        return corpus.stat().st_size / 1e6 / (time.perf_counter() - begin)


_pooled: Any = None


def start_pooled(tokenizer: Path) -> None:
    global _pooled
    from tokenizers import Tokenizer

    _pooled = Tokenizer.from_file(str(tokenizer))
    _pooled.no_truncation()
    _pooled.no_padding()


def encode_pooled(line: bytes) -> list[int]:
    ids: list[int] = _pooled.encode(json.loads(line)["text"]).ids
    return ids


def pool_of_encode(corpus: Path, tokenizer: Path) -> float:
    context = get_context("spawn")
    with context.Pool(NUM_PROCESSES, start_pooled, (tokenizer,)) as pool:
        pool.map(encode_pooled, [b'{"text": "x"}'] * NUM_PROCESSES)
        lines = corpus.read_bytes().splitlines()
        begin = time.perf_counter()
        for _ in pool.imap(encode_pooled, lines, chunksize=32):
            pass
        return corpus.stat().st_size / 1e6 / (time.perf_counter() - begin)


def datatrove(corpus: Path, tokenizer: Path) -> float:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    with tempfile.TemporaryDirectory() as name:
        parts = Path(name) / "in"
        parts.mkdir()
        lines = corpus.read_bytes().splitlines(keepends=True)
        for i in range(NUM_PROCESSES):
            (parts / f"{i}.jsonl").write_bytes(b"".join(lines[i::NUM_PROCESSES]))
        begin = time.perf_counter()
        LocalPipelineExecutor(
            pipeline=[
                JsonlReader(str(parts)),
                DocumentTokenizer(f"{name}/out", tokenizer_name_or_path=str(tokenizer)),
            ],
            tasks=NUM_PROCESSES,
            workers=NUM_PROCESSES,
            logging_dir=f"{name}/logs",
        ).run()
        return corpus.stat().st_size / 1e6 / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
