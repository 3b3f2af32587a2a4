"""What must hold in every simulated run, however much dies in it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from support.modules import ROOT


def _loaded() -> Any:
    spec = spec_from_file_location("simulate_scale", ROOT / "scripts/simulate_scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


sim = _loaded()
SMALL = sim.Cluster(
    nodes=5, workers=3, node_hours=2.0, worker_hours=4.0, straggling=0.2, requeue_seconds=600.0
)
JOBS = [200.0 + 7 * (i % 11) for i in range(400)]


def phase(upload: float = 1e9) -> Any:
    same = [upload] * len(JOBS)
    return sim.Phase(name="jobs", seconds=JOBS, reads=[0.0] * len(JOBS), num_bytes=same)


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_job_is_done_once_and_no_more_is_redone_than_died(seed: int, is_static: bool) -> None:
    made = sim.simulate(phase(), replace(SMALL, is_static=is_static), seed)
    assert made.committed == [1] * len(JOBS)
    assert made.dead_nodes + made.dead_workers > 3, "nothing died, so that nothing is tested"
    assert made.lost_jobs > 0
    # A worker has one job at work and, as these uploads are faster than jobs, one that it uploads.
    most = made.dead_workers + made.dead_nodes * 2 * SMALL.workers
    assert made.lost_jobs <= most
    assert made.redone_hours <= made.lost_jobs * max(JOBS) * SMALL.slowdown / 3600


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    runs = [sim.simulate(phase(), SMALL, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_without_deaths_nothing_is_redone_and_no_core_idles() -> None:
    immortal = replace(SMALL, node_hours=1e9, worker_hours=1e9, straggling=0.0)
    made = sim.simulate(phase(), immortal, 0)
    assert (made.lost_jobs, made.redone, made.dead_nodes) == (0, 0.0, 0)
    shared = made.core_hours / (immortal.nodes * immortal.workers)
    assert shared <= made.hours - made.alone_hours <= shared * 1.1


def test_uploads_that_are_slower_than_the_work_decide_how_long_it_takes() -> None:
    immortal = replace(SMALL, node_hours=1e9, worker_hours=1e9, straggling=0.0)
    made = sim.simulate(phase(upload=1e12), immortal, 0)
    least = len(JOBS) * 1e12 / immortal.upload_bytes / immortal.nodes / 3600
    assert made.hours >= least
