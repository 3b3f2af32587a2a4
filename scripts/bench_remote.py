#!/usr/bin/env python3
"""How fast batches of a dataset in an object store come, beside those of a local copy.

    python scripts/bench_remote.py [--shards 48] [--rows 1000] [--seq-len 2048] [--delay 0.02]
                                   [--open 10000] [--json FILE]

The store is moto on this machine, behind a line that makes each answer wait. Both loaders take
turns in one process, so that what else runs slows both; what counts is the ratio of CPU times.

    cached       all shards are in the cache: the same batches, CPU time by that of the local loader
    cold         an empty cache and a slow line: seconds to the first batch, the share of steps that
                 waited more than a hundredth of a second, seconds that were waited
    open         a dataset of so many shards: seconds until it is open, by one request
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from dataprep.loaders import DataLoader, open_dataset
from dataprep.pipeline.hashes import hash_bytes
from dataprep.pipeline.storage.manifest import MANIFEST, PackedManifest, manifest_text
from dataprep.pipeline.storage.manifest import read_manifest as read
from dataprep.pipeline.storage.objects import open_objects

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.packed import write_packed
from support.stores import s3_server

STEP_SECONDS = 0.02  # that a trainer takes
BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=48)
    parser.add_argument("--rows", type=int, default=1000, help="of a shard")
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--delay", type=float, default=0.02, help="seconds of each answer")
    parser.add_argument("--open", type=int, default=10_000)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, s3_server() as s3, s3.line() as line:
        work = Path(folder)
        os.environ.update(s3.env())
        s3.make_bucket("bench")
        num_rows = options.shards * options.rows
        write_packed(
            work / "d", num_rows=num_rows, seq_len=options.seq_len, rows_per_shard=options.rows
        )
        objects = open_objects("s3://bench/d")
        for path in (work / "d").rglob("*"):
            if path.is_file():
                objects.put(str(path.relative_to(work / "d")), path)
        found = _cached(work)
        os.environ.update(s3.env(line.port))
        line.delay = options.delay
        found |= _cold(work)
        found |= _open(work, options.open, line)
    for name, value in found.items():
        print(f"{name:<44} {value:>10.3f}")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


def _cached(work: Path) -> dict[str, float]:
    options: Any = {"batch_size": BATCH, "shuffle": "blocks", "window_shards": 8, "prefetch": 0}
    spent = {"local": 0.0, "remote": 0.0}
    with (
        DataLoader(work / "d", **options) as local,
        DataLoader("s3://bench/d", cache=work / "warm", **options) as remote,
    ):
        loaders = {"local": local, "remote": remote}
        steps = sum(1 for _ in DataLoader(work / "d", epochs=1, **options))
        for _ in range(steps):  # all shards come
            next(remote)
            next(local)
        for _ in range(10):
            for name, loader in loaders.items():
                start = time.process_time()
                for _ in range(steps // 4):
                    next(loader)
                spent[name] += time.process_time() - start
    return {"cached: CPU time of local / remote": spent["local"] / spent["remote"]}


def _cold(work: Path) -> dict[str, float]:
    start = time.monotonic()
    waits = []
    with DataLoader(
        "s3://bench/d",
        batch_size=BATCH,
        shuffle="blocks",
        window_shards=8,
        epochs=1,
        cache=work / "cold",
    ) as loader:
        while True:
            asked = time.monotonic()
            try:
                next(loader)
            except StopIteration:
                break
            waits.append(time.monotonic() - asked)
            time.sleep(STEP_SECONDS)
    return {
        "cold: seconds to the first batch": waits[0],
        "cold: share of later steps that waited": sum(w > 0.01 for w in waits[1:]) / len(waits[1:]),
        "cold: seconds waited later": sum(waits[1:]),
        "cold: seconds of the epoch": time.monotonic() - start,
    }


def _open(work: Path, num_shards: int, line: Any) -> dict[str, float]:
    """The manifest of a dataset of so many shards; nothing but it is asked for."""
    about = read(work / "d")
    assert isinstance(about, PackedManifest)
    first = about.shards[0]
    names = [f"rows-{i:05d}-of-{num_shards:05d}" for i in range(num_shards)]
    shards = tuple(
        replace(
            first,
            path=f"shards/{name}.arrayrecord",
            xxh3_128=hash_bytes(name.encode()),
            index=replace(first.index, path=f"shards/{name}.npy"),
            provenance=replace(first.provenance, path=f"provenance/{name}.npy"),
        )
        for name in names
    )
    rows, tokens = first.num_records * num_shards, first.num_tokens * num_shards
    counts = {**about.counts, "rows": rows, "tokens": tokens}
    text = manifest_text(replace(about, shards=shards, counts=counts))
    objects = open_objects("s3://bench/many")
    objects.put(MANIFEST, text.encode())
    sent = line.sent
    start, cpu = time.monotonic(), time.process_time()
    dataset = open_dataset("s3://bench/many")
    opened, cpu = time.monotonic() - start, time.process_time() - cpu
    start = time.monotonic()
    with DataLoader("s3://bench/many", batch_size=BATCH, cache=work / "many", shuffle="blocks"):
        loader = time.monotonic() - start
    shutil.rmtree(work / "many")
    assert len(dataset) == rows
    return {
        f"open: seconds of open_dataset, {num_shards} shards": opened,
        "open: CPU seconds of it": cpu,
        "open: seconds of DataLoader": loader,
        "open: bytes of both requests": line.sent - sent,
        "open: MB of the manifest": len(text) / 1e6,
    }


if __name__ == "__main__":
    main()
