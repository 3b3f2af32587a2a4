"""How fast precomputed codes become wrapped documents on disk, on one core.

    python scripts/bench_vision.py [--codes 20000000]

Each form of input is made, then read, wrapped and written as a worker does it, in this process:
codes a second, best of three. "of the parser" sets it against msgspec decoding the same JSON lines
to Python values and doing nothing with them; "read" is the share of the time that reading took.
The bytes tokenizer encodes the captions, so that engines have no part in it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.rule_set import Rules
from dataprep.pipeline.documents.rules import keys_wanted
from dataprep.pipeline.engine import load_reference
from dataprep.pipeline.jobs.commits import make_tasks_folder
from dataprep.pipeline.sources import read_piece
from dataprep.pipeline.tokenize import plan_of
from dataprep.pipeline.tokenize.plan import TokenizePlan, rules_of, special_in_text
from dataprep.pipeline.tokenize.sample import SampledEngine
from dataprep.pipeline.tokenize.told import task_plan
from dataprep.pipeline.tokenize.worker import run_task

SPEC = "[vision],caption"
TRIES = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--codes", type=int, default=20_000_000)
    total = parser.parse_args().codes
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{'input':34} {'M codes/s':>10} {'read':>6} {'of the parser':>14}")
    with tempfile.TemporaryDirectory() as name:
        for frames in (1, 4, 32):
            for what, path, config in inputs(Path(name), total, frames):
                bench(f"{what}, {frames} frames a record", path, config, total, Path(name) / "out")
                path.unlink()


def inputs(folder: Path, total: int, frames: int) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Name, file and settings of each form that codes come in."""
    count = total // (256 * frames)
    codes = np.random.default_rng(0).integers(0, 8192, (count, 256 * frames), np.uint16)
    captions = [f"picture number {i} of a bench" for i in range(count)]
    offsets = np.arange(count + 1) * codes.shape[1]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(codes.reshape(-1)))
    table = pa.table({"vision": lists, "caption": captions, "fields": [SPEC] * count})
    pq.write_table(table, folder / "in.parquet", compression="zstd", row_group_size=4096)
    yield "Parquet", folder / "in.parquet", {"fields": SPEC}
    pq.write_table(table, folder / "in.parquet", compression="zstd", row_group_size=4096)
    yield "Parquet with specs", folder / "in.parquet", {"fields_from": "fields"}
    np.save(folder / "in.npy", codes)
    yield ".npy", folder / "in.npy", {"fields": "vision"}
    settings: dict[str, Any]
    for what, key, settings, value in (
        ("JSONL", "vision", {"fields": SPEC}, lambda row: row.tolist()),
        ("JSONL with specs", "vision", {"fields_from": "fields"}, lambda row: row.tolist()),
        ("JSONL, strings", "vision", {"fields": SPEC}, lambda row: list(map(str, row.tolist()))),
        ("JSONL, segments", "segments", {"fields": "segments"}, segments),
    ):
        with open(folder / "in.jsonl", "w") as file:
            for row, caption in zip(codes, captions, strict=True):
                record = {"fields": SPEC, key: value(row), "caption": caption}
                file.write(json.dumps(record) + "\n")
        yield what, folder / "in.jsonl", settings


def segments(row: Any) -> list[dict[str, Any]]:
    text = {"type": "text", "text": "a picture of a bench"}
    return [{"type": "vision", "codes": row.tolist(), "loss": False}, text]


def bench(name: str, path: Path, config: dict[str, Any], total: int, out: Path) -> None:
    settings = TokenizeConfig.model_validate(
        {"inputs": [str(path)], "tokenizer": "bytes", "out": str(out), **config}
    )
    plan = plan_of(settings, out.parent / "cache")
    in_text = special_in_text(plan.config, plan.vocabulary)
    engine = SampledEngine(load_reference(plan.vocabulary.files), in_text)

    def whole() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        make_tasks_folder(out)
        for task in plan.tasks:
            run_task(task_plan(plan, task), plan, engine, out, lambda message: None)()

    seconds = best(whole)
    reading = best(lambda: read_all(plan, rules_of(plan, 0)))
    line = f"{name:34} {total / seconds / 1e6:10.1f} {reading / seconds:6.0%}"
    if path.suffix == ".jsonl":
        line += f" {best(lambda: parse(path)) / seconds:14.0%}"
    print(line, flush=True)


def read_all(plan: TokenizePlan, rules: Rules) -> None:
    for task in plan.tasks:
        for piece in task.pieces:
            source = plan.sources[piece.source]
            for _ in read_piece(
                source,
                piece,
                keys_wanted(rules),
                held_by=rules.grammar.holds,
            ):
                pass


def parse(path: Path) -> None:
    """What the parser takes by itself, in blocks as a reader would hand them over."""
    decoder = msgspec.json.Decoder()
    with open(path, "rb") as file:
        while lines := file.readlines(1 << 20):
            decoder.decode_lines(b"".join(lines))


def best(action: Callable[[], None]) -> float:
    seconds = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    main()
