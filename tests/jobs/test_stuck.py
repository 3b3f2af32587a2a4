"""Workers that are stopped, loop or cannot start are noticed, and their jobs tried again."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from dataprep.pipeline.errors import InputError, ResourceError
from dataprep.pipeline.jobs import crew, executors, processes
from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.pipes import Inbox
from dataprep.pipeline.jobs.processes import WorkerProcess
from dataprep.pipeline.jobs.trail import Trail
from support.toy_worker import act_out, importable, jobs_of, write_acts


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(executors, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(crew, "STOPPED_SECONDS", 0.5)


def test_a_worker_that_is_stopped_is_replaced(tmp_path: Path) -> None:
    stopped: list[int] = []

    def stop_once(message: dict[str, Any]) -> None:
        if not stopped:
            stopped.append(message["pid"])
            os.kill(message["pid"], signal.SIGSTOP)

    act_out(tmp_path, {0: ["pause"], 1: []}, on_message=stop_once)
    assert len(stopped) == 1
    assert jobs_of(tmp_path, "run").count(0) == 2
    assert jobs_of(tmp_path, "commit") == [0, 1]


def test_a_worker_that_is_stopped_again_and_again_ends_the_run(tmp_path: Path) -> None:
    def stop(message: dict[str, Any]) -> None:
        os.kill(message["pid"], signal.SIGSTOP)

    with pytest.raises(ResourceError, match=r"3 times \(stopped by SIGSTOP\) on job 0"):
        act_out(tmp_path, {0: ["pause"]}, on_message=stop)


@pytest.mark.timeout(120)  # the steps hang for longer
@pytest.mark.parametrize("step", ["loop", "commit hang"])
def test_a_job_without_a_sign_of_life_is_tried_three_times(tmp_path: Path, step: str) -> None:
    with pytest.raises(ResourceError) as caught:
        act_out(tmp_path, {0: [step], 1: []}, num_workers=2, task_timeout=0.5)
    assert "workers died 3 times (no sign of life) on job 0" in str(caught.value)
    assert "--task-timeout" in str(caught.value)
    assert jobs_of(tmp_path, "run").count(0) == 3


def test_signs_of_life_keep_a_slow_job_alive(tmp_path: Path) -> None:
    act_out(tmp_path, {0: ["live 2"]}, task_timeout=0.5)
    assert jobs_of(tmp_path, "run") == [0]


def test_a_slow_start_is_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    act_out(tmp_path, {0: []}, task_timeout=1.0, SLOW_START="2")
    assert jobs_of(tmp_path, "run") == [0]
    monkeypatch.setattr(crew, "START_TIMEOUT", 0.5)
    with pytest.raises(ResourceError, match="no sign of life"):
        act_out(tmp_path, {0: []}, task_timeout=0.5, SLOW_START="60")


def test_time_in_which_the_run_itself_was_stopped_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def sleep_once(message: dict[str, Any]) -> None:  # as if the parent were stopped
        if not slept:
            slept.append(3.0)
            time.sleep(3.0)

    act_out(tmp_path, {0: ["pause"] * 5, 1: []}, on_message=sleep_once, task_timeout=2.0)
    assert slept
    assert jobs_of(tmp_path, "run") == [0, 1]


def test_workers_that_cannot_start_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"workers died 3 times \(exit code 9\) on job 0"):
        act_out(tmp_path, {0: [], 1: []}, num_workers=2, EXIT_AT_START="9")


def test_an_exception_that_is_none_is_a_death_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"\(PanicException: because of the test\) on job 0"):
        act_out(tmp_path, {0: ["panic"]})
    assert jobs_of(tmp_path, "run") == [0, 0, 0]


def test_a_start_that_the_system_refuses_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: WorkerProcess) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(WorkerProcess, "start", refuse)
    with pytest.raises(ResourceError, match=r"cannot start a worker: .*unavailable; use fewer"):
        act_out(tmp_path, {0: []})


def test_the_last_try_has_the_machine_to_itself(tmp_path: Path) -> None:
    # Job 1 ends only when job 0 has been tried twice; the third try waits for its end.
    acts = {0: ["die twice"], 1: ["wait deaths-0", "pause"], 2: []}
    act_out(tmp_path, acts, num_workers=2)
    log = (tmp_path / "log").read_text().split()
    words = list(zip(log[::3], log[1::3], strict=True))
    last = max(i for i, word in enumerate(words) if word == ("run", "0"))
    assert ("commit", "1") in words[:last]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("then", ["stop", "hang"])
def test_a_worker_that_is_stopped_in_the_middle_of_a_message_is_replaced(
    tmp_path: Path, then: str
) -> None:
    act_out(tmp_path, {0: [f"halve {then}"], 1: []}, task_timeout=1.0)
    assert jobs_of(tmp_path, "run").count(0) == 2
    assert sorted(jobs_of(tmp_path, "commit")) == [0, 1]


@pytest.mark.timeout(60)
def test_a_worker_that_closes_its_connection_but_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "END_SECONDS", 0.3)
    with pytest.raises(ResourceError, match="no sign of life"):
        act_out(tmp_path, {0: ["close"]})


def test_messages_come_whole_however_they_are_cut() -> None:
    ours, theirs = socket.socketpair()
    inbox = Inbox(ours.fileno())
    messages = [b"", b"a", b"b" * 100_000, b"c"]
    data = b"".join(len(m).to_bytes(8, "little") + m for m in messages)
    found = []
    for start in range(0, len(data), 777):
        theirs.sendall(data[start : start + 777])
        found += inbox.take()
    assert found == messages
    assert not inbox.is_closed
    theirs.sendall((9).to_bytes(8, "little") + b"cut")
    theirs.close()
    assert inbox.take() == []
    assert inbox.is_closed
    ours.close()


# The order of errors


def test_of_several_errors_that_of_the_first_job_is_told(tmp_path: Path) -> None:
    acts = {
        0: [],
        1: ["wait failed", "pause", "fail InputError"],
        2: ["touch failed", "fail ValueError"],
    }
    with pytest.raises(InputError):
        act_out(tmp_path, {**acts, 3: ["hang"]}, num_workers=3)


def test_an_earlier_job_that_dies_is_tried_before_a_later_error_is_told(tmp_path: Path) -> None:
    acts = {
        0: ["wait failed", "die twice", "fail InputError"],
        1: ["touch failed", "fail ConfigError"],
    }
    with pytest.raises(InputError):
        act_out(tmp_path, acts, num_workers=2)
    assert jobs_of(tmp_path, "run").count(0) == 3


# The trail


def test_a_trail_tells_what_was_last_written() -> None:
    trail = Trail()
    assert (trail.read().steps, trail.read().job, trail.read().span) == (0, None, None)
    trail.begin(7)
    trail.at(((0, 3), (1, 4)), alone=True)
    doing = trail.read()
    assert (doing.steps, doing.job, doing.span, doing.alone) == (2, 7, ((0, 3), (1, 4)), True)
    trail.begin(None)
    assert (trail.read().job, trail.read().span) == (None, None)
    trail.close()


def test_a_trail_counts_what_went_through_since_the_last_poison_record() -> None:
    trail = Trail()
    trail.begin(7)
    one, two = ((0, 0), (0, 5)), ((0, 5), (0, 6))
    for span, alone, skips, passed in (
        (one, False, False, 0),
        (None, False, False, 1),
        (None, False, False, 1),
        (two, True, False, 1),
        (two, True, False, 1),  # a sign of life
        (one, False, False, 2),  # another is taken: the one that was alone went through
        (two, False, False, 2),  # those that are taken together may still be on their way
        (two, False, True, 0),
        (None, False, False, 1),
    ):
        trail.at(span, alone=alone, skips=skips)
        assert trail.read().passed == passed
    trail.begin(8)
    assert trail.read().passed == 0
    trail.close()


def test_a_trail_outlives_its_worker(tmp_path: Path) -> None:
    write_acts(tmp_path, {0: ["at 3 5", "exit 4"]})
    process = WorkerProcess("support.toy_worker", tmp_path, importable(), Handed(b""))
    process.start()
    process.give(0)
    while not process.receive()[1]:
        time.sleep(0.01)
    death, doing = process.reap()
    assert death.cause == "exit code 4"
    assert (doing.job, doing.span) == (0, ((0, 3), (0, 5)))
