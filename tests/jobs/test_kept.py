"""Workers rest between runs where they are kept, and none is left afterwards."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards import secrets
from dataprep.pipeline.jobs import executors
from dataprep.pipeline.jobs.crew import Crew
from dataprep.pipeline.jobs.kept import workers_kept
from dataprep.pipeline.jobs.poison import Deaths
from support.toy_worker import act_out, jobs_of, log_of

SIX: dict[int, list[str]] = {job: [] for job in range(6)}


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() == before


def pids(work: Path) -> set[int]:
    return {pid for _, _, pid in log_of(work)}


def test_the_next_run_has_the_same_workers(tmp_path: Path) -> None:
    with workers_kept():
        act_out(tmp_path / "a", SIX, num_workers=2)
        act_out(tmp_path / "b", SIX, num_workers=2)
        act_out(tmp_path / "c", SIX, num_workers=1)
    assert sorted(jobs_of(tmp_path / "b", "commit")) == sorted(SIX)
    assert sorted(jobs_of(tmp_path / "c", "commit")) == sorted(SIX)
    assert pids(tmp_path / "b") <= pids(tmp_path / "a")
    assert pids(tmp_path / "c") < pids(tmp_path / "a")


@pytest.mark.timeout(60)
def test_a_run_ends_when_its_last_worker_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited until it was time to look after the workers, of which there were none."""
    monkeypatch.setattr(executors, "LOOK_SECONDS", 3600.0)
    with workers_kept():
        act_out(tmp_path / "a", SIX, num_workers=1)
    assert sorted(jobs_of(tmp_path / "a", "commit")) == sorted(SIX)


class Idle:
    """A process without a job, of which only that counts."""

    def __init__(self) -> None:
        self.jobs: deque[int] = deque()
        self.is_closed = self.was_killed = False
        self.is_up = True

    def kill(self) -> None:
        self.was_killed = True

    def close(self) -> None:
        self.is_closed = True


def test_a_worker_that_was_killed_since_a_job_failed_is_not_kept(tmp_path: Path) -> None:
    idle, busy, kept = Idle(), Idle(), list[object]()
    busy.jobs.append(0)
    crew = Crew(
        waiting=[],
        size=2,
        new_process=cast(Any, Idle),
        keep=lambda process: not kept.append(process),
        describe=str,
        deaths=Deaths(tmp_path),
        timeout=None,
        processes=cast(Any, [idle, busy]),
    )
    crew.fail(1, InputError("bad"))
    assert (idle.was_killed, busy.was_killed) == (True, False)
    crew.hand_out()
    assert not kept
    assert idle.is_closed


def test_outside_none_is_kept(tmp_path: Path) -> None:
    act_out(tmp_path / "a", SIX, num_workers=1)
    act_out(tmp_path / "b", SIX, num_workers=1)
    assert not pids(tmp_path / "a") & pids(tmp_path / "b")


def test_a_worker_that_died_while_it_rested_is_replaced(tmp_path: Path) -> None:
    with workers_kept():
        act_out(tmp_path / "a", SIX, num_workers=1)
        (pid,) = pids(tmp_path / "a")
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)], timeout=0.2)
        act_out(tmp_path / "b", SIX, num_workers=1)
    assert sorted(jobs_of(tmp_path / "b", "commit")) == sorted(SIX)


def test_a_run_that_needs_another_environment_has_workers_of_its_own(tmp_path: Path) -> None:
    with workers_kept():
        act_out(tmp_path / "a", SIX, num_workers=1)
        act_out(tmp_path / "b", SIX, num_workers=1, TOY="1")
        act_out(tmp_path / "c", SIX, num_workers=1)  # what b set does no harm
    assert not pids(tmp_path / "a") & pids(tmp_path / "b")
    assert len(pids(tmp_path / "a") | pids(tmp_path / "b") | pids(tmp_path / "c")) == 2


def test_a_worker_that_lacks_an_address_with_credentials_is_not_used(tmp_path: Path) -> None:
    with workers_kept():
        act_out(tmp_path / "a", SIX, num_workers=1)
        secrets.hidden(["s3://KEPT:WORKERS@bucket/a.jsonl"])
        act_out(tmp_path / "b", SIX, num_workers=1)
    assert not pids(tmp_path / "a") & pids(tmp_path / "b")


def test_after_an_error_and_a_death_the_next_run_goes_on(tmp_path: Path) -> None:
    with workers_kept():
        act_out(tmp_path / "a", {0: [], 1: ["die once"], 2: []}, num_workers=2)
        with pytest.raises(InputError, match="because of the test"):
            act_out(tmp_path / "b", {0: ["fail InputError"], 1: []}, num_workers=2)
        act_out(tmp_path / "c", SIX, num_workers=2)
    assert sorted(jobs_of(tmp_path / "a", "commit")) == [0, 1, 2]
    assert sorted(jobs_of(tmp_path / "c", "commit")) == sorted(SIX)
