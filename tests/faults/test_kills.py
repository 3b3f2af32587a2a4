"""Rows 1, 9 and 42: the same command finishes a run that was killed, to the same bytes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.calls import kill_at_calls
from support.forks import ForkServer
from support.jobs import Job, wait_for_work
from support.kills import Kills, kill_loop
from support.losses import record_job
from support.power import state_after, write_world
from support.straced import CALLS, needs_strace

COMMANDS = ("tokenize", "pack", "encode", "export")
EXPORTS = ("export to mds", "export to hf", "export to maxtext")


def check(seen: Kills, mid_run: int) -> None:
    assert seen.mismatches == []
    assert seen.mid_run >= mid_run, f"only {seen.mid_run} of {seen.tried} kills fell into the work"
    assert seen.after_commit >= mid_run // 4


@pytest.mark.parametrize("name", COMMANDS)
def test_1_a_run_killed_at_random_moments_ends_in_the_same_bytes(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    check(kill_loop(server, jobs[name], tmp_path, mid_run=10), 10)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", COMMANDS)
def test_1_two_thousand_kills(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    check(kill_loop(server, jobs[name], tmp_path, mid_run=670, seed=1), 670)


@needs_strace
@pytest.mark.parametrize("name", COMMANDS)
def test_9_a_run_killed_after_each_of_its_commits_ends_in_the_same_bytes(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str
) -> None:
    job = small_jobs[name]
    calls = record_job(job, tmp_path / "recorded")
    commits = [i for i, call in enumerate(calls) if call.name == "rename"]
    markers = [i for i in commits if calls[i].paths[1].endswith(".done")]
    assert len(markers) >= 2
    for place in markers:
        out = write_world(state_after(calls[: place + 1], "killed"), tmp_path / f"after-{place}")
        ended = server.run(job.command(out, 1))
        assert (ended.code, job.verdict(out)) == (0, "equal"), f"{calls[place]}: {ended.stderr}"


@needs_strace
@pytest.mark.parametrize("call", ["fsync", "rename", "unlink", "mkdir"])
@pytest.mark.parametrize("name", COMMANDS)
def test_9_a_kill_at_a_system_call_ends_in_the_same_bytes(
    server: ForkServer, small_jobs: Mapping[str, Job], tmp_path: Path, name: str, call: str
) -> None:
    numbers = range(1, 8, 4)
    fired, wrong = kill_at_calls(server, small_jobs[name], call, tmp_path, numbers)
    assert wrong == []
    assert fired >= 1


@needs_strace
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", [*COMMANDS, *EXPORTS])
def test_9_a_kill_at_every_system_call_ends_in_the_same_bytes(
    server: ForkServer, every_small_job: Mapping[str, Job], tmp_path: Path, name: str, call: str
) -> None:
    fired, wrong = kill_at_calls(server, every_small_job[name], call, tmp_path, range(1, 200))
    assert wrong == []
    assert fired >= 3


def test_42_the_lock_of_a_killed_run_is_gone_with_it(
    server: ForkServer, jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    run = server.start(job.command(out, 2))
    wait_for_work(run, out)
    descriptor = os.open(out, os.O_RDONLY)
    with pytest.raises(BlockingIOError):  # the control: it is locked while the run lives
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert run.kill().was_killed
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    assert server.run(job.command(out, 1)).code == 0
    assert job.verdict(out) == "equal"
