#!/usr/bin/env python3
"""How well `shuffle="blocks"` mixes, beside the global shuffle, and what both take to compute.

    python scripts/bench_order.py [--shards 1000] [--rows 1000] [--batch 256] [--json FILE]

What a shuffle is for is that the mean of a batch says as much about the data as independent rows
would. It is hurt most by what all rows of a shard share, such as their source or their date. So
each shard gets a random number, which all of its rows have, and the figures are of the means of
batches over an epoch:

    noise        the variance of those means, by that of the global shuffle. 1: as good; n: a batch
                 says as much about such a property as one of 1/n of the rows. This is the worst
                 case; of a property whose variance is a share s between shards, it is
                 1 + s · (noise - 1)
    drift        the same of the means of 100 batches in a row: how far a stretch of training is
                 from the whole
    shards       how many different shards a batch has rows of
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dataprep.loaders.blocks import ShardBlocks
from dataprep.loaders.order import OrderKey, shuffle
from dataprep.pipeline.types import Offsets

WINDOWS = (1, 4, 8, 16, 32, 64, 128, 256, 1000)
STRETCH = 100  # batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="of a shard")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--json")
    options = parser.parse_args()
    shards, rows = options.shards, options.rows
    key = OrderKey(seed=0, name="", generation=None)
    orders: dict[str, Callable[[Offsets], Offsets]] = {
        "global": lambda places: shuffle(places, shards * rows, seed=0)
    }
    for window in (w for w in WINDOWS if w <= shards):
        orders[str(window)] = _blocks(ShardBlocks([rows] * shards, window), key)
    found = {name: _measure(order, shards, rows, options.batch) for name, order in orders.items()}
    plain = found["global"]
    for one in found.values():
        one["noise"] /= plain["noise"] if one is not plain else 1
        one["drift"] /= plain["drift"] if one is not plain else 1
    plain["noise"] = plain["drift"] = 1.0
    print(f"{shards} shards of {rows} rows, batches of {options.batch}")
    print(f"{'window':>8} {'noise':>8} {'drift':>8} {'shards':>8} {'µs a row':>9}")
    for name, one in found.items():
        print(
            f"{name:>8} {one['noise']:8.2f} {one['drift']:8.1f} {one['shards']:8.1f} "
            f"{one['microseconds']:9.2f}"
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


def _blocks(blocks: ShardBlocks, key: OrderKey) -> Callable[[Offsets], Offsets]:
    return lambda places: blocks.rows(places, key)


def _measure(
    order: Callable[[Offsets], Offsets], shards: int, rows: int, batch: int
) -> dict[str, Any]:
    start = time.process_time()
    parts = [order(np.arange(i, i + 4096)) for i in range(0, shards * rows - 4095, 4096)]
    seconds = time.process_time() - start
    found = np.concatenate(parts) // rows
    found = found[: len(found) // (batch * STRETCH) * batch * STRETCH].reshape(-1, batch)
    values = np.random.default_rng(0).normal(size=(20, shards))
    means = np.stack([own[found].mean(axis=1) for own in values])
    centre = values.mean(axis=1)[:, None]
    stretches = means.reshape(len(values), -1, STRETCH).mean(axis=2)
    return {
        "noise": float(((means - centre) ** 2).mean()),
        "drift": float(((stretches - centre) ** 2).mean()),
        "shards": float(np.mean([len(np.unique(own)) for own in found])),
        "microseconds": seconds / (len(parts) * 4096) * 1e6,
    }


if __name__ == "__main__":
    main()
