"""Rows 2, 3, 5, 6: workers that die, run out of memory, stop, or meet poison."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import RunCli
from support.inprocess import write_lines
from support.installed import COMMAND, started, wait_for
from support.jobs import Job
from support.parents import members_of, wait_until_gone, workers_of
from support.poisoned import WORD, times_fired, with_poison
from support.trees import tree


def test_2_a_killed_worker_is_replaced_and_the_bytes_are_the_same(
    jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["pack"], tmp_path / "out"
    with started(job.command(out, 2)) as process:
        wait_for(lambda: workers_of(process.pid), "no worker came")
        victim = workers_of(process.pid)[0]
        victim.kill()
        _, stderr = process.communicate(timeout=60)
    assert not victim.is_running()
    assert process.returncode == 0, stderr
    assert job.verdict(out) == "equal"


@pytest.mark.parametrize("megabytes", [250, 400, 800])
def test_3_a_memory_limit_ends_the_run_and_never_restarts_for_ever(
    jobs: Mapping[str, Job], run_cli: RunCli, tmp_path: Path, megabytes: int
) -> None:
    job, out = jobs["tokenize"], tmp_path / "out"
    limited = subprocess.run(
        [
            "bash",
            "-c",
            f'ulimit -v {megabytes * 1024}; exec "$@"',
            "-",
            *COMMAND,
            *job.command(out, 2),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert limited.returncode == 6 or (megabytes > 500 and not limited.returncode), limited.stderr
    assert "Traceback" not in limited.stderr
    if limited.returncode == 6:
        assert "memory" in limited.stderr
        assert "--workers" in limited.stderr
    run_cli(*job.command(out, 2))
    assert job.verdict(out) == "equal"


def test_5_a_stopped_worker_is_noticed_killed_and_replaced(
    jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    job, out = jobs["tokenize"], tmp_path / "out"
    with started(job.command(out, 1, "--task-timeout", "2")) as process:
        wait_for(lambda: process.poll() is not None or workers_of(process.pid), "no worker came")
        assert process.poll() is None, process.communicate()
        stopped = workers_of(process.pid)[0]
        os.kill(stopped.pid, signal.SIGSTOP)
        _, stderr = process.communicate(timeout=60)
    assert not stopped.is_running()
    assert process.returncode == 0, stderr  # another took over
    assert job.verdict(out) == "equal"


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    records = [{"text": f"document {i} " + "word " * 20} for i in range(60)]
    records[37] = {"text": f"this is {WORD}"}
    return write_lines(tmp_path / "in.jsonl", records)


def words_for(path: Path, out: Path, policy: str) -> list[str]:
    words = ["tokenize", str(path), "--tokenizer", "bytes", "--out", str(out), "--workers", "1"]
    return [*words, "--on-error", policy, "--task-timeout", "2"]


@pytest.mark.parametrize(
    "kind",
    [
        *("abort", "memory"),  # tests/jobs/test_poison.py has others
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("segv", "exit", "panic", "loop")),
    ],
)
def test_6_a_poison_document_is_quarantined_and_the_rest_is_kept(
    run_cli: RunCli, poisoned: Path, tmp_path: Path, kind: str
) -> None:
    out, hook = tmp_path / "out", tmp_path / "hook"
    words = words_for(poisoned, out, "quarantine")
    run_cli(*words, env=with_poison(hook, kind), timeout=100)
    assert times_fired(hook) >= 1
    listed = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    assert [(entry["file"], entry["line"]) for entry in listed] == [(str(poisoned), 38)]
    counts = json.loads((out / "manifest.json").read_text())["counts"]
    assert counts["documents_written"] == 59
    assert counts["documents_quarantined"] == 1
    # The others are what they are without it.
    without = poisoned.read_text().splitlines(keepends=True)
    (tmp_path / "rest.jsonl").write_text("".join(without[:37] + without[38:]))
    run_cli(*words_for(tmp_path / "rest.jsonl", tmp_path / "rest", "fail"))
    tokens = {name: data for name, data in tree(out).items() if name.startswith("shards/")}
    rest = {n: data for n, data in tree(tmp_path / "rest").items() if n.startswith("shards/")}
    assert tokens == rest


@pytest.mark.parametrize(
    "kind", ["abort", *(pytest.param(k, marks=pytest.mark.slow) for k in ("panic", "loop"))]
)
def test_6_a_poison_document_is_named_under_fail(
    run_cli: RunCli, poisoned: Path, tmp_path: Path, kind: str
) -> None:
    hook = tmp_path / "hook"
    words = words_for(poisoned, tmp_path / "out", "fail")
    result = run_cli(*words, env=with_poison(hook, kind), check=False, timeout=100)
    assert times_fired(hook) >= 1
    assert result.code in (3, 6)
    assert "Traceback" not in result.stderr
    assert str(poisoned) in result.stderr
    assert f"line 38 of {poisoned}" in result.stderr


def test_6_without_poison_the_hook_changes_nothing(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a"}])
    words = ["tokenize", path, "--tokenizer", "bytes", "--out", tmp_path / "out"]
    run_cli(*words, env=with_poison(tmp_path / "hook", "abort"))
    assert times_fired(tmp_path / "hook") == 0


def test_1_nothing_outlives_a_command_that_is_killed(
    jobs: Mapping[str, Job], tmp_path: Path
) -> None:
    for name, job in jobs.items():
        with started(job.command(tmp_path / name, 2)) as process:
            wait_for(lambda p=process: workers_of(p.pid), "no worker came")  # type: ignore[misc]
            assert len(members_of(process.pid)) >= 2  # the control
            process.kill()
            process.wait()
            wait_until_gone(process.pid)
