"""A loader on H hosts, stopped at a step and resumed on H′: the same rows in the same order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dataprep.loaders import DataLoader

BATCH = 24  # rows; 1, 2, 3, 4, 6 and 8 hosts have equal parts


def open_loader(folder: Path) -> DataLoader:
    return DataLoader(folder, batch_size=BATCH, epochs=2, seed=5, prefetch=0)


def batch_on(loader: DataLoader, step: int, hosts: int) -> list[bytes]:
    """Return the rows of a batch as `hosts` hosts read them, host after host."""
    parts = [loader.part(step, host, hosts) for host in range(hosts)]
    rows = np.concatenate([np.asarray(part["inputs"]) for part in parts])
    return [row.tobytes() for row in rows]


def resume(folder: Path, before: int, after: int, step: int) -> list[str]:
    """Read up to a step on some hosts, go on on others; return what is wrong with that."""
    loader = open_loader(folder)
    expected = [batch_on(loader, at, 1) for at in range(len(loader))]
    seen = [batch_on(loader, at, before) for at in range(step)]
    state = json.loads(json.dumps(loader.state_at(step)))
    resumed = open_loader(folder)
    resumed.set_state(state)
    at = resumed.get_state()["step"]
    seen += [batch_on(resumed, later, after) for later in range(at, len(resumed))]
    return [] if seen == expected else [f"{before} hosts, {after} from step {step} on"]


def resume_all(folder: Path, hosts: Iterable[int]) -> tuple[int, list[str]]:
    """Try every pair of numbers of hosts at every step."""
    steps = len(open_loader(folder))
    chosen = list(hosts)
    cases = [(a, b, step) for a in chosen for b in chosen for step in range(steps + 1)]
    return len(cases), [wrong for case in cases for wrong in resume(folder, *case)]
