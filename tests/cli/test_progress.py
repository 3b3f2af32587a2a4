"""What a run says of its time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dataprep.cli import show
from dataprep.cli.show import Progress

STARTED: dict[str, Any] = {
    "engine": "fastokens 1",
    "sources": 1,
    "num_bytes": 8_000_000,
    "tasks": 1,
    "tasks_done": 0,
    "workers": 1,
}


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(show, "time", clock)
    return clock


def test_the_time_of_a_proof_is_shown_but_the_speed_is_that_of_the_work(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(quiet=False, log_format="text") as progress:
        clock.now = 2
        for done, total in ((0, 0), (1, 4), (2, 4), (4, 4)):
            progress("proof", {"proving": "fastokens", "done": done, "total": total})
            clock.now += 16
        progress("start", STARTED)
        assert progress.proof_seconds == 64
        clock.now += 4
        assert (progress.seconds, progress.work_seconds) == (70, 4)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("proving that fastokens gives the ids of the reference")
    assert said[1:3] == [
        "proving fastokens: 50 %, 32 s left",  # a line every half minute
        "the proof of fastokens took 64.0 s",
    ]


def test_every_engine_that_is_proven_is_named(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(quiet=False, log_format="json") as progress:
        for name in ("one", "two"):
            progress("proof", {"proving": name, "done": 1, "total": 2})
            clock.now += 5
        progress("start", STARTED)
    said = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert [line.split(",")[0] for line in said[:4]] == [
        "proving that one gives the ids of the reference",
        "the proof of one took 5.0 s",
        "proving that two gives the ids of the reference",
        "the proof of two took 5.0 s",
    ]
    assert progress.proof_seconds == 10


def test_a_quiet_run_says_nothing_of_a_proof(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(quiet=True, log_format="text") as progress:
        progress("proof", {"proving": "one", "done": 1, "total": 2})
        progress("start", STARTED)
    assert capsys.readouterr().err == ""
