"""Jobs come to their end whatever happens to the workers; errors and deaths are told."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataprep.pipeline.errors import BY_NAME, DataprepError, InputError, ResourceError
from dataprep.pipeline.jobs.executors import EXECUTORS, run_local
from support.toy_worker import LARGE, MODULE, act_out, importable, jobs_of, log_of

others: set[int] = set()  # started before the test: the fork server of other tests


def workers_alive() -> list[int]:
    """Return the processes that this test has started, zombies too."""
    return [c.pid for c in psutil.Process().children(recursive=True) if c.pid not in others]


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    others.clear()
    others.update(workers_alive())
    yield
    assert not workers_alive()


def test_the_local_executor_is_in_the_table() -> None:
    assert EXECUTORS["local"] is run_local


def test_every_job_is_run_and_committed_once_and_its_messages_are_handed_on(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = []
    act_out(tmp_path, {job: [] for job in range(7)}, num_workers=3, on_message=messages.append)
    assert sorted(jobs_of(tmp_path, "run")) == list(range(7))
    assert sorted(jobs_of(tmp_path, "commit")) == list(range(7))
    assert sorted(message["job"] for message in messages) == list(range(7))
    assert {message["pid"] for message in messages} == {pid for _, _, pid in log_of(tmp_path)}


def test_no_jobs_need_no_worker(tmp_path: Path) -> None:
    act_out(tmp_path, {}, num_workers=3)
    assert log_of(tmp_path) == []


def test_no_more_workers_are_started_than_there_are_jobs(tmp_path: Path) -> None:
    seen: list[int] = []
    acts = {0: ["wait both"], 1: ["touch both"]}
    act_out(tmp_path, acts, num_workers=9, on_message=lambda _: seen.append(len(workers_alive())))
    assert max(seen) <= 2


# Who gets what, and when it commits


def test_each_worker_has_a_job_before_anyone_has_two(tmp_path: Path) -> None:
    # The two jobs wait for one another, so that one worker alone would never end.
    acts = {0: ["touch 0", "wait 1"], 1: ["touch 1", "wait 0"]}
    act_out(tmp_path, acts, num_workers=2)
    assert len({pid for _, _, pid in log_of(tmp_path)}) == 2


def test_a_job_is_committed_while_the_next_one_is_run(tmp_path: Path) -> None:
    act_out(tmp_path, {0: ["commit wait begun"], 1: ["touch begun"]})
    assert jobs_of(tmp_path, "run") == [0, 1]


def test_a_worker_has_no_more_than_two_jobs_in_hand(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"on job 0;"):
        act_out(tmp_path, {0: ["exit 7"], 1: [], 2: []})
    assert 2 not in jobs_of(tmp_path, "run")


def test_commits_stay_in_order_and_one_follows_the_other(tmp_path: Path) -> None:
    acts = {0: ["commit wait go"], 1: ["touch go"], 2: [], 3: []}
    act_out(tmp_path, acts)
    assert jobs_of(tmp_path, "commit") == [0, 1, 2, 3]


def test_an_error_in_a_commit_is_told_while_the_worker_waits_for_a_job(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="because of the test"):
        act_out(tmp_path, {0: ["commit fail InputError"]})


# Deaths


@pytest.mark.parametrize("times", ["once", "twice"])
def test_the_jobs_of_a_worker_that_died_are_tried_again(tmp_path: Path, times: str) -> None:
    act_out(tmp_path, {0: [], 1: [f"die {times}"], 2: []}, num_workers=2)
    assert sorted(set(jobs_of(tmp_path, "commit"))) == [0, 1, 2]
    assert jobs_of(tmp_path, "run").count(1) == {"once": 2, "twice": 3}[times]


def test_a_death_is_noticed_while_the_others_are_busy(tmp_path: Path) -> None:
    # Job 1 ends only after job 0 was tried again.
    acts = {0: ["die once", "touch again"], 1: ["wait again"]}
    act_out(tmp_path, acts, num_workers=2)
    assert jobs_of(tmp_path, "run").count(0) == 2


def test_a_death_is_noticed_though_a_program_that_the_worker_ran_lives_on(tmp_path: Path) -> None:
    act_out(tmp_path, {0: ["leave", "die once"]})
    program = psutil.Process(int((tmp_path / "program").read_text()))
    assert program.name() == "sleep"
    program.kill()


def wait_for_its_death(message: dict[str, Any]) -> None:
    process = psutil.Process(message["pid"])
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def test_a_worker_that_dies_in_the_middle_of_a_message_is_dead(tmp_path: Path) -> None:
    def wait_the_first_time(message: dict[str, Any]) -> None:
        if len(jobs_of(tmp_path, "run")) == 1:
            wait_for_its_death(message)

    act_out(tmp_path, {0: ["talk", "pause", "die once"]}, on_message=wait_the_first_time)
    assert jobs_of(tmp_path, "commit") == [0]


def test_a_job_that_is_given_to_a_dead_worker_is_not_lost(tmp_path: Path) -> None:
    def wait_the_first_time(message: dict[str, Any]) -> None:
        if message["job"] == 0:
            wait_for_its_death(message)

    # When the parent reads that job 0 is done, the worker that told so has died on job 1.
    acts = {0: [], 1: ["pause", "die once"], 2: []}
    act_out(tmp_path, acts, on_message=wait_the_first_time)
    assert jobs_of(tmp_path, "commit") == [0, 1, 2]


def test_after_three_deaths_the_error_names_the_jobs_the_signal_and_what_to_do(
    tmp_path: Path,
) -> None:
    with pytest.raises(ResourceError) as caught:
        act_out(tmp_path, {0: ["die"], 1: ["pause"], 2: [], 3: []}, num_workers=2)
    assert str(caught.value) == (
        "workers died 3 times (SIGKILL) on job 0; the system may be out of memory: "
        "use fewer --workers, or give the run more memory; run again to continue"
    )
    assert jobs_of(tmp_path, "run").count(0) == 3


def test_an_exit_is_a_death_without_a_hint_about_memory(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        act_out(tmp_path, {5: ["exit 7"]})
    assert str(caught.value) == "workers died 3 times (exit code 7) on job 5; run again to continue"


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    num_jobs=st.integers(1, 8),
    num_workers=st.integers(1, 4),
    dying=st.lists(st.integers(0, 7), max_size=2, unique=True),
)
def test_two_deaths_anywhere_leave_no_job_undone(
    num_jobs: int, num_workers: int, dying: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        acts = {job: ["die once"] if job in dying else [] for job in range(num_jobs)}
        act_out(Path(folder), acts, num_workers=num_workers)
        assert set(jobs_of(Path(folder), "commit")) == set(range(num_jobs))


# Errors


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_an_error_arrives_as_the_class_that_was_raised(tmp_path: Path, name: str) -> None:
    with pytest.raises(BY_NAME[name]) as caught:
        act_out(tmp_path, {0: [f"fail {name}"]})
    assert type(caught.value) is BY_NAME[name]
    assert str(caught.value) == "because of the test"


@pytest.mark.parametrize("name", ["ValueError", "BrokenPipeError"])
def test_a_fault_of_a_worker_arrives_with_its_traceback(tmp_path: Path, name: str) -> None:
    told = rf"(?s)^a worker failed.*{name}: because.*please report it.*_fail.*{name}: because"
    with pytest.raises(DataprepError, match=told):
        act_out(tmp_path, {0: [f"fail {name}"]})
    assert jobs_of(tmp_path, "run") == [0]


@pytest.mark.parametrize("place", ["", "commit "])
def test_lack_of_memory_or_disk_is_an_error_of_resources(tmp_path: Path, place: str) -> None:
    message = r"workers died 3 times \(out of memory\) on job 0; use fewer --workers"
    with pytest.raises(ResourceError, match=message):
        act_out(tmp_path, {0: [f"{place}fail MemoryError"]})
    with pytest.raises(ResourceError, match=f"cannot write below {tmp_path}: No space left"):
        act_out(tmp_path, {0: [f"{place}fail ENOSPC"]})


def test_a_worker_that_cannot_begin_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "acts.json").write_text("{")
    with pytest.raises(DataprepError, match=r"(?s)a worker failed.*JSONDecodeError"):
        run_local(
            [0],
            worker=MODULE,
            work=tmp_path,
            environment=importable(),
            num_workers=1,
            describe=str,
            on_message=print,
        )


def test_the_first_error_ends_workers_that_are_busy(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        act_out(tmp_path, {0: ["fail InputError"], 1: ["hang"], 2: ["hang"]}, num_workers=3)
    assert not workers_alive()


def test_an_error_of_on_message_ends_the_workers(tmp_path: Path) -> None:
    def stop(message: dict[str, Any]) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        act_out(tmp_path, {0: ["hang"], 1: ["hang"]}, num_workers=2, on_message=stop)
    assert not workers_alive()


def test_a_signal_that_stops_the_parent_while_it_waits_ends_the_workers(tmp_path: Path) -> None:
    class Halted(BaseException):
        """As the one of the command."""

    def halt(*_: object) -> None:
        raise Halted

    before = signal.signal(signal.SIGUSR1, halt)
    try:
        with pytest.raises(Halted):
            act_out(tmp_path, {0: ["signal SIGUSR1", "hang"], 1: ["hang"]}, num_workers=2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not workers_alive()


@pytest.mark.parametrize("acts", [{0: [], 1: []}, {0: ["fail InputError"], 1: ["hang"]}])
def test_no_descriptor_is_left_open(tmp_path: Path, acts: dict[int, list[str]]) -> None:
    def run() -> int:
        try:
            act_out(tmp_path, acts, num_workers=2)
        except InputError:
            assert acts[0]
        return len(os.listdir("/proc/self/fd"))

    assert run() == run() == run()


def test_a_large_message_arrives_whole(tmp_path: Path) -> None:
    values: list[Any] = []
    act_out(tmp_path, {0: ["tell large"]}, on_message=lambda m: values.append(m.get("value")))
    assert values[1] == LARGE
