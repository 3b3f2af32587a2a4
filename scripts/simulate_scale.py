#!/usr/bin/env python3
"""Simulate tokenize and pack of a large corpus on many nodes that fail: hours, and what is redone.

    python scripts/simulate_scale.py [--terabytes 10] [--nodes 64] [--rates rates.json] [--json]

Discrete events, drawn from a seed: the same arguments print the same figures. What is modelled, and
what is not, stands in docs/scale.md. Rates are tokens that one core works off in a second, as
`dataprep estimate CONFIG --json` measures them (its `rates` can be given as a file).
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

# As `dataprep estimate` measured on two cores that others used, too (gpt2, fastokens, mixed text).
MEASURED = {"tokenize": 8.5e6, "pack": 3.4e7, "plan_rows": 1.1e8}
HOUR = 3600.0
PUT_SECONDS = 0.05  # of a request to an object store that copies a shard or looks at it
REQUESTS = 32  # at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the work runs on, and how it fails."""

    nodes: int = 64
    workers: int = 32  # of each node
    node_hours: float = 200.0  # mean time to the death of a node
    worker_hours: float = 1000.0  # mean time to the death of a worker that is at work
    requeue_seconds: float = 300.0  # until a node is there again
    restart_seconds: float = 3.0  # until a worker is
    straggling: float = 0.02  # part of the nodes that are slow
    slowdown: float = 3.0  # how many times as long these take
    upload_bytes: float = 1.25e9  # a second, of each node
    download_bytes: float = 1.25e9  # a second, of each node: shared by its workers
    is_static: bool = False  # jobs are dealt out beforehand, as --task I/N does; else by a queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Jobs that may be done in any order; each is uploaded when it is computed."""

    name: str
    seconds: Sequence[float]  # of one core, of each job
    reads: Sequence[float]  # bytes of input of each
    num_bytes: Sequence[float]  # that each uploads
    alone_seconds: float = 0.0  # of one process, before the first job


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of a phase."""

    name: str
    jobs: int
    hours: float = 0.0
    alone_hours: float = 0.0  # of these, what one process does before and after the jobs
    core_hours: float = 0.0  # of work that counts
    redone_hours: float = 0.0  # of work that was lost
    dead_nodes: int = 0
    dead_workers: int = 0
    lost_jobs: int = 0  # tries that came to nothing
    committed: list[int] = field(default_factory=list)  # how often each job was

    @property
    def redone(self) -> float:
        return self.redone_hours / self.core_hours if self.core_hours else 0.0


@dataclass(slots=True, kw_only=True)
class _Slot:
    """A worker: the job that it computes."""

    node: int
    life: int = 0  # goes up when it dies: what was to happen to it before does not
    job: int | None = None
    began: float = 0.0


def simulate(phase: Phase, cluster: Cluster, seed: int) -> Result:
    """Run the jobs of a phase to their end.

    Largest jobs first. A job counts when its upload has ended: whoever dies before that loses it.
    """
    return _Run(phase, cluster, random.Random(f"{seed} {phase.name}")).result()


class _Run:
    def __init__(self, phase: Phase, cluster: Cluster, draws: random.Random) -> None:
        self._phase, self._cluster, self._draws = phase, cluster, draws
        self._slots = [
            _Slot(node=i // cluster.workers) for i in range(cluster.workers * cluster.nodes)
        ]
        self._is_up = [True] * cluster.nodes
        slow = round(cluster.straggling * cluster.nodes)
        self._is_slow = [i < slow for i in range(cluster.nodes)]
        draws.shuffle(self._is_slow)
        self._free_at = [0.0] * cluster.nodes  # when the uploads of a node are through
        self._uploads: list[dict[int, tuple[int, float]]] = [{} for _ in range(cluster.nodes)]
        self._events: list[tuple[float, int, str, int, int]] = []
        self._count = self._left = 0
        order = sorted(range(len(phase.seconds)), key=lambda job: -phase.seconds[job])
        shares = cluster.nodes if cluster.is_static else 1
        self._waiting = [deque(order[share::shares]) for share in range(shares)]
        self._made = Result(name=phase.name, jobs=len(order), committed=[0] * len(order))
        self._left = len(order)
        self._number = 0

    def result(self) -> Result:
        for node in range(self._cluster.nodes):
            self._plan_death(node, 0.0)
        for slot in range(len(self._slots)):
            self._begin(slot, 0.0)
        now = 0.0
        while self._left:
            now, _, what, who, mark = heapq.heappop(self._events)
            getattr(self, f"_on_{what}")(who, mark, now)
        alone = self._phase.alone_seconds + len(self._phase.seconds) * 2 * PUT_SECONDS / REQUESTS
        self._made.hours, self._made.alone_hours = (now + alone) / HOUR, alone / HOUR
        self._made.core_hours = sum(self._phase.seconds) / HOUR
        return self._made

    def _at(self, when: float, what: str, who: int, mark: int) -> None:
        self._number += 1  # events of the same time: in the order in which they were planned
        heapq.heappush(self._events, (when, self._number, what, who, mark))

    def _queue(self, node: int) -> deque[int]:
        return self._waiting[node if self._cluster.is_static else 0]

    def _begin(self, number: int, now: float) -> None:
        """Give a worker the next job, if there is one and its node is up."""
        slot = self._slots[number]
        queue = self._queue(slot.node)
        if slot.job is not None or not self._is_up[slot.node] or not queue:
            return
        slot.job, slot.began = queue.popleft(), now
        reading = self._phase.reads[slot.job] / self._cluster.download_bytes
        takes = max(self._phase.seconds[slot.job], reading * self._cluster.workers)
        takes *= self._cluster.slowdown if self._is_slow[slot.node] else 1.0
        dies = self._draws.expovariate(1 / (self._cluster.worker_hours * HOUR))
        self._at(now + min(takes, dies), "done" if takes <= dies else "death", number, slot.life)

    def _on_done(self, number: int, life: int, now: float) -> None:
        slot = self._slots[number]
        if life != slot.life or slot.job is None:
            return
        job, slot.job = slot.job, None
        start = max(now, self._free_at[slot.node])
        self._free_at[slot.node] = start + self._phase.num_bytes[job] / self._cluster.upload_bytes
        self._count += 1
        self._uploads[slot.node][self._count] = (job, now - slot.began)
        self._at(self._free_at[slot.node], "upload", slot.node, self._count)
        self._begin(number, now)

    def _on_upload(self, node: int, mark: int, now: float) -> None:
        found = self._uploads[node].pop(mark, None)
        if found is not None:  # else its node has died meanwhile
            self._made.committed[found[0]] += 1
            self._left -= 1

    def _on_death(self, number: int, life: int, now: float) -> None:
        slot = self._slots[number]
        if life == slot.life:
            self._made.dead_workers += 1
            self._lose(slot, now)
            self._at(now + self._cluster.restart_seconds, "back", number, slot.life)

    def _on_back(self, number: int, life: int, now: float) -> None:
        if life == self._slots[number].life:
            self._begin(number, now)

    def _lose(self, slot: _Slot, now: float) -> None:
        """Take a job from a worker that dies; it goes back to the front."""
        slot.life += 1
        if slot.job is not None:
            self._lost(slot.node, slot.job, now - slot.began, now)
            slot.job = None

    def _lost(self, node: int, job: int, seconds: float, now: float) -> None:
        self._made.lost_jobs += 1
        self._made.redone_hours += seconds / HOUR
        self._queue(node).appendleft(job)
        if not self._cluster.is_static:  # who has nothing to do takes it
            idle = (i for i, s in enumerate(self._slots) if s.job is None and self._is_up[s.node])
            first = next(idle, None)
            if first is not None:
                self._at(now, "back", first, self._slots[first].life)

    def _plan_death(self, node: int, now: float) -> None:
        dies = self._draws.expovariate(1 / (self._cluster.node_hours * HOUR))
        self._at(now + dies, "node_death", node, 0)

    def _on_node_death(self, node: int, mark: int, now: float) -> None:
        self._made.dead_nodes += 1
        self._is_up[node] = False
        first = node * self._cluster.workers
        for slot in self._slots[first : first + self._cluster.workers]:
            self._lose(slot, now)
        for job, seconds in self._uploads[node].values():
            self._lost(node, job, seconds, now)
        self._uploads[node].clear()
        self._at(now + self._cluster.requeue_seconds, "node_back", node, 0)

    def _on_node_back(self, node: int, mark: int, now: float) -> None:
        self._is_up[node] = True
        self._free_at[node] = now
        first = node * self._cluster.workers
        for number in range(first, first + self._cluster.workers):
            self._begin(number, now)
        self._plan_death(node, now)


def phases(
    num_bytes: float, bytes_per_token: float, task_bytes: float, rates: Mapping[str, float]
) -> list[Phase]:
    """Return tokenize and pack of so many bytes of text; ids have two bytes."""
    tokens = num_bytes / bytes_per_token
    jobs = max(1, round(num_bytes / task_bytes))
    each = tokens / jobs
    return [
        Phase(
            name="tokenize",
            seconds=[each / rates["tokenize"]] * jobs,
            reads=[num_bytes / jobs] * jobs,
            num_bytes=[2 * each] * jobs,
        ),
        Phase(
            name="pack",
            seconds=[each / rates["pack"]] * jobs,
            reads=[2 * each] * jobs,
            num_bytes=[2 * each] * jobs,
            alone_seconds=tokens / rates["plan_rows"],
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = Cluster()
    parser.add_argument("--terabytes", type=float, default=10.0)
    parser.add_argument("--bytes-per-token", type=float, default=4.0)
    parser.add_argument("--task-bytes", type=float, default=128e6)
    parser.add_argument("--rates", type=Path, help="JSON: tokens a second of one core")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    for name, value in asdict(known).items():
        flag = f"--{name.removeprefix('is_').replace('_', '-')}"
        if isinstance(value, bool):
            parser.add_argument(flag, dest=name, action="store_true")
        else:
            parser.add_argument(flag, dest=name, type=type(value), default=value)
    given = parser.parse_args()
    rates = MEASURED | (json.loads(given.rates.read_text()) if given.rates else {})
    cluster = Cluster(**{name: getattr(given, name) for name in asdict(known)})
    work = phases(given.terabytes * 1e12, given.bytes_per_token, given.task_bytes, rates)
    results = [simulate(phase, cluster, given.seed) for phase in work]
    if given.json:
        print(json.dumps([_told(result) for result in results], indent=1))
        return
    print(f"{'':10}{'jobs':>8}{'hours':>8}{'alone':>8}{'core h':>9}{'redone':>9}{'deaths':>18}")
    for r in results:
        deaths = f"{r.dead_nodes} nodes, {r.dead_workers} w."
        print(
            f"{r.name:10}{r.jobs:8,}{r.hours:8.2f}{r.alone_hours:8.2f}{r.core_hours:9,.0f}"
            f"{r.redone:9.2%}{deaths:>18}"
        )
    print(f"{'in all':10}{'':8}{sum(r.hours for r in results):8.2f}")


def _told(result: Result) -> dict[str, object]:
    values = asdict(result)
    del values["committed"]
    return {**values, "redone": result.redone}


if __name__ == "__main__":
    main()
