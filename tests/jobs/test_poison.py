"""Records that kill their worker: found, listed, left out, and everything else is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dataprep.pipeline.errors import ResourceError
from dataprep.pipeline.jobs.deaths import KILLED, NO_MEMORY, STOPPED, Death, death_of
from dataprep.pipeline.jobs.poison import (
    MOST_IN_A_ROW,
    Deaths,
    Poison,
    PoisonRecord,
    poison_of,
    read_poison,
)
from dataprep.pipeline.jobs.trail import Doing, Place
from dataprep.pipeline.look.verify import verify
from support.inprocess import tokenize_here, write_lines
from support.parents import workers_of
from support.poison import MODES, POISON, deaths, poisoned
from support.trees import tree

SEGV = death_of(-signal.SIGSEGV, "")
REASONS = {
    "abort": "a worker died of SIGABRT on this record",
    "segv": "a worker died of SIGSEGV on this record",
    "exit": "a worker ended with exit code 7 on this record",
    "panic": "a worker failed (PanicException: stand-in for a panic of Rust) on this record",
    "mem": "a worker ran out of memory or was killed on this record",
    "oom": "a worker ran out of memory or was killed on this record",
    "hang": "a worker hung on this record",
}


def doing(job: int, start: int, stop: int, *, alone: bool = False) -> Doing:
    return Doing(steps=1, job=job, span=((0, start), (0, stop)), alone=alone)


NOWHERE = Doing(steps=0, job=None, span=None, alone=False)


def known(work: Path) -> list[PoisonRecord]:
    return [record for task in range(100) for record in read_poison(work, task).records]


# --- what is concluded from deaths ----------------------------------------------------------------


def convict(found: Deaths, line: int, death: Death = SEGV, task: int = 7) -> None:
    found.add(task, "task", doing(task, line, line + 5), death)
    for _ in range(2):
        found.add(task, "task", doing(task, line, line + 1, alone=True), death)


def test_a_record_that_kills_three_workers_twice_alone_is_poison(tmp_path: Path) -> None:
    found = Deaths(tmp_path)
    found.add(7, "task", doing(7, 10, 20), SEGV)
    assert poison_of(tmp_path, 7).suspects == ((0, 10), (0, 20))
    found.add(7, "task", doing(7, 13, 14, alone=True), SEGV)
    assert poison_of(tmp_path, 7).suspects == ((0, 13), (0, 14))
    assert not poison_of(tmp_path, 7).records
    found.add(7, "task", doing(7, 13, 14, alone=True), SEGV)
    assert poison_of(tmp_path, 7).records[0, 13].reason == REASONS["segv"]
    assert poison_of(tmp_path, 8).records == {}
    assert found.tries(7) == 0
    assert Deaths(tmp_path).tries(7) == 0
    assert known(tmp_path)[0].task == 7  # a restart knows it


@pytest.mark.parametrize(
    "places",
    [
        [doing(7, 10, 20)] * 3,  # not one record
        [doing(7, 10, 20), doing(7, 13, 14, alone=True), doing(7, 15, 16, alone=True)],
        [NOWHERE] * 3,  # while it started, read or committed
        [doing(8, 1, 2, alone=True)] * 3,  # of the worker's other job
    ],
)
def test_other_deaths_are_no_fault_of_a_record(tmp_path: Path, places: Sequence[Doing]) -> None:
    found = Deaths(tmp_path)
    found.add(7, "task 7", places[0], SEGV)
    found.add(7, "task 7", places[1], SEGV)
    with pytest.raises(ResourceError, match=r"died 3 times \(SIGSEGV\) on task 7; run again"):
        found.add(7, "task 7", places[2], SEGV)
    assert known(tmp_path) == []


def test_a_record_is_not_to_blame_for_a_worker_that_was_stopped(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="stopped by SIGSTOP"):
        convict(Deaths(tmp_path), 3, STOPPED)


@pytest.mark.parametrize("number", [signal.SIGRTMIN, signal.SIGRTMIN + 6, signal.SIGRTMAX - 1, 63])
def test_a_signal_without_a_name_is_a_death_like_others(number: int) -> None:
    assert death_of(-number, "").cause in (f"signal {int(number)}", "SIGRTMIN")


@pytest.mark.parametrize("death", [NO_MEMORY, KILLED])
def test_if_every_record_lacks_memory_the_memory_is_to_blame(tmp_path: Path, death: Death) -> None:
    found = Deaths(tmp_path)
    convict(found, 0, SEGV)
    for line in range(5, 5 + MOST_IN_A_ROW):
        convict(found, line, death)
    with pytest.raises(ResourceError, match="use fewer --workers"):
        convict(found, 5 + MOST_IN_A_ROW, death)
    assert [record.place for record in known(tmp_path)] == [(0, 0)]


def test_it_is_the_memory_wherever_the_records_stand_and_whoever_reads_them(tmp_path: Path) -> None:
    found = Deaths(tmp_path)
    for number in range(MOST_IN_A_ROW):
        convict(found, 7 * number, NO_MEMORY, task=number)  # as files of one document are
    with pytest.raises(ResourceError, match="use fewer --workers"):
        convict(found, 1, NO_MEMORY, task=99)
    assert known(tmp_path) == []


@pytest.mark.parametrize("where", ["in the task", "in another"])
def test_records_that_lack_memory_among_others_that_do_not_are_to_blame(
    tmp_path: Path, where: str
) -> None:
    found = Deaths(tmp_path)
    for line in range(8):
        if where == "in the task":
            found.add(7, "task", replace(doing(7, line, line + 5), passed=3), NO_MEMORY)
        else:
            found.add(line, "task", doing(line, line, line + 5), NO_MEMORY)
            found.went_through()
        task = 7 if where == "in the task" else line
        for _ in range(2):
            found.add(task, "task", doing(task, line, line + 1, alone=True), NO_MEMORY)
    assert len(known(tmp_path)) == 8


def test_a_task_whose_records_all_lack_memory_is_not_saved_by_others(tmp_path: Path) -> None:
    found = Deaths(tmp_path)
    for line in range(MOST_IN_A_ROW):
        convict(found, line, NO_MEMORY)
        found.went_through()
    with pytest.raises(ResourceError, match="use fewer --workers"):
        convict(found, MOST_IN_A_ROW, NO_MEMORY)


def test_records_that_crash_may_stand_in_a_row(tmp_path: Path) -> None:
    found = Deaths(tmp_path)
    for line in range(8):
        convict(found, line)
    assert len(known(tmp_path)) == 8


def test_the_file_of_poison_is_read_as_it_was_written(tmp_path: Path) -> None:
    convict(Deaths(tmp_path), 3)
    assert isinstance(read_poison(tmp_path, 7), Poison)
    assert read_poison(tmp_path, 7).suspects == ((0, 3), (0, 4))
    assert read_poison(tmp_path, 8) == Poison()


# --- from outside: tokenize -----------------------------------------------------------------------


def records_with(poison: Sequence[int], text: str, count: int = 400) -> list[Any]:
    return [{"text": text if i in poison else f"document {i} " + "w " * i} for i in range(count)]


def tokenized(path: Path, out: Path, *more: str) -> list[str]:
    return ["tokenize", str(path), "--tokenizer", "bytes", "--out", str(out), *more]


def places_in(out: Path) -> list[Place]:
    errors = [json.loads(line) for line in (out / "errors.jsonl").read_text().splitlines()]
    return [(error["line"], error["byte_offset"]) for error in errors]


POISONED = [37, 300, 301]
SOME_POISON = f"some {POISON}"


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset in which the poison records lack their key: bad, and as long as they are."""
    folder = tmp_path_factory.mktemp("bad")
    path = write_lines(folder / "in.jsonl", records_with(POISONED, SOME_POISON))
    path.write_text(
        path.read_text().replace(f'"text": "{SOME_POISON}"', f'"tixt": "{SOME_POISON}"')
    )
    tokenize_here(folder / "out", inputs=[str(path)], tokenizer="bytes", on_error="quarantine")
    return folder / "out"


OTHER_MODES = sorted({*MODES, "oom"} - {"segv", "hang"})


@pytest.mark.parametrize(
    "mode",
    ["segv", "hang", *(pytest.param(m, marks=pytest.mark.slow) for m in OTHER_MODES)],
)
def test_poison_is_quarantined_and_all_else_is_written(
    run_cli: RunCli, tmp_path: Path, mode: str, bad: Path
) -> None:
    # Three of them take a while; the second and the third are neighbours.
    poison = POISONED if mode == "abort" else POISONED[:1]
    records = records_with(POISONED, SOME_POISON)
    for i in set(POISONED) - set(poison):
        records[i] = {"tixt": "x" * len(SOME_POISON)}  # bad, but harmless
    path = write_lines(tmp_path / "in.jsonl", records)
    folder, out = tmp_path / "poison", tmp_path / "out"
    words = tokenized(path, out, "--on-error", "quarantine", "--task-timeout", "2")
    result = run_cli(*words, env=poisoned(folder, mode))
    assert "Traceback" not in result.stderr
    assert deaths(folder) == 3 * len(poison)
    verify(out)
    for name in ("shards", "index", "provenance"):
        assert tree(out / name) == tree(bad / name)
    assert places_in(out) == places_in(bad)
    errors = (out / "errors.jsonl").read_text().splitlines()
    reasons = [json.loads(error)["reason"] for error in errors]
    assert reasons[: len(poison)] == [REASONS[mode]] * len(poison)


@pytest.mark.parametrize("mode", ["segv", "mem"])
def test_under_fail_the_document_is_named_and_a_later_run_tries_it_again(
    run_cli: RunCli, tmp_path: Path, mode: str
) -> None:
    path = write_lines(tmp_path / "in.jsonl", records_with([37, 300], POISON))
    words = tokenized(path, tmp_path / "out")
    result = run_cli(*words, env=poisoned(tmp_path / "poison", mode), check=False)
    assert result.code == {"segv": 3, "mem": 6}[mode]
    assert f"line 38 of {path} (byte " in result.stderr
    assert REASONS[mode] in result.stderr
    assert "--on-error" in result.stderr
    assert deaths(tmp_path / "poison") == 3
    run_cli(*words)  # it kills nobody any more
    run_cli(*tokenized(path, tmp_path / "clean"))
    assert tree(tmp_path / "out") == tree(tmp_path / "clean")


def test_a_restart_knows_the_poison_and_is_not_killed_by_it_again(
    run_cli: RunCli, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "in.jsonl", records_with([37], POISON))
    words = tokenized(path, tmp_path / "out", "--on-error", "quarantine", "--max-errors", "0")
    folder = tmp_path / "poison"
    result = run_cli(*words, env=poisoned(folder, "abort"), check=False)
    assert result.code == 3
    assert f"the first: line 38 of {path}: {REASONS['abort']}" in result.stderr
    assert deaths(folder) == 3
    run_cli(*words[:-2], env=poisoned(folder, "abort"))
    assert deaths(folder) == 3


def test_poison_in_small_files_that_are_processed_together(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(6):
        write_lines(tmp_path / "in" / f"{i}.jsonl", records_with([2] if i == 4 else [], POISON, 5))
    words = tokenized(tmp_path / "in", tmp_path / "out", "--on-error", "quarantine")
    run_cli(*words, env=poisoned(tmp_path / "poison", "segv"))
    (error,) = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert json.loads(error)["file"] == str(tmp_path / "in" / "4.jsonl")
    assert json.loads(error)["line"] == 3


@pytest.mark.parametrize("how", ["files", "lines"])
def test_records_that_all_lack_memory_end_the_run_and_are_not_quarantined(
    run_cli: RunCli, tmp_path: Path, how: str
) -> None:
    """One document a file, or blank lines between them: their places say nothing of the others."""
    (tmp_path / "in").mkdir()
    if how == "files":
        for i in range(6):
            (tmp_path / "in" / f"{i}.txt").write_text(f"{POISON} {i}")
    else:
        line = json.dumps({"text": POISON})
        (tmp_path / "in" / "a.jsonl").write_text(f"{line}\n\n" * 6)
    words = tokenized(tmp_path / "in", tmp_path / "out", "--on-error", "quarantine")
    result = run_cli(*words, env=poisoned(tmp_path / "poison", "mem"), check=False)
    assert result.code == 6, result.stderr
    assert "use fewer --workers" in result.stderr
    assert deaths(tmp_path / "poison") == 3 * (MOST_IN_A_ROW + 1)


def test_the_panic_of_a_real_tokenizer_is_quarantined(run_cli: RunCli, tmp_path: Path) -> None:
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {**pattern, "invert": False},
        "model": {"type": "BPE", "vocab": {"a": 0, "!": 1, "b": 2}, "merges": []},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    path = write_lines(tmp_path / "in.jsonl", [{"text": "ab"}, {"text": "a" * 40 + "!"}])
    words = ["tokenize", path, "--tokenizer", tmp_path / "tokenizer.json", "--engine", "tokenizers"]
    run_cli(*words, "--on-error", "quarantine", "--out", tmp_path / "out")
    (error,) = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    assert "PanicException" in json.loads(error)["reason"]


# --- from outside: a stopped worker, the first of several bad records, too many of them -----------


@pytest.mark.slow  # faults/test_workers.py has another
def test_a_stopped_worker_of_a_command_is_replaced(run_cli: RunCli, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", records_with([], "", 6000))
    out, clean = tmp_path / "out", tmp_path / "clean"
    command = [sys.executable, "-m", "dataprep.cli.main", *tokenized(path, out, "--workers", "1")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    stopped: list[int] = []
    deadline = time.monotonic() + 60
    while not stopped and process.poll() is None and time.monotonic() < deadline:
        for worker in workers_of(process.pid):
            os.kill(worker.pid, signal.SIGSTOP)
            stopped.append(worker.pid)
        time.sleep(0.001)
    _, stderr = process.communicate(timeout=60)
    assert stopped
    assert process.returncode == 0, stderr
    run_cli(*tokenized(path, clean))
    assert tree(out) == tree(clean)


@pytest.fixture
def bad_everywhere(tmp_path: Path) -> Path:
    """Files that are tasks of their own; the first ends with a bad record, the others begin so."""
    (tmp_path / "in").mkdir()
    good = [{"text": "x" * 5000}] * 900
    write_lines(tmp_path / "in" / "0.jsonl", [*good, {"text": {}}])
    for i in range(1, 5):
        write_lines(tmp_path / "in" / f"{i}.jsonl", [{"text": {}}, *good])
    return tmp_path / "in"


@pytest.mark.parametrize("workers", ["1", "3"])
def test_the_first_bad_record_is_named_however_late_it_is_found(
    run_cli: RunCli, tmp_path: Path, bad_everywhere: Path, workers: str
) -> None:
    words = tokenized(bad_everywhere, tmp_path / "out", "--workers", workers)
    result = run_cli(*words, check=False)
    assert result.code == 3
    assert f"line 901 of {bad_everywhere}/0.jsonl" in result.stderr


@pytest.mark.parametrize(("workers", "limit"), [("1", "0.01%"), ("3", "1")])
def test_too_many_bad_records_are_named_from_the_first(
    run_cli: RunCli, tmp_path: Path, bad_everywhere: Path, workers: str, limit: str
) -> None:
    more = ("--workers", workers, "--on-error", "skip", "--max-errors", limit)
    result = run_cli(*tokenized(bad_everywhere, tmp_path / "out", *more), check=False)
    assert result.code == 3
    first = f"line 901 of {bad_everywhere}/0.jsonl: field 'text' must be text, got dict {{}}"
    second = f"line 1 of {bad_everywhere}/1.jsonl: field 'text' must be text, got dict {{}}"
    assert f"more than --max-errors {limit} allows; the first: {first}; {second}" in result.stderr


# --- memory and disks -----------------------------------------------------------------------------


@pytest.mark.parametrize("megabytes", [150, 400, 1200])
def test_a_limit_on_memory_ends_in_exit_6_with_a_hint(tmp_path: Path, megabytes: int) -> None:
    path = write_lines(tmp_path / "in.jsonl", records_with([], "", 2000))
    command = [sys.executable, "-m", "dataprep.cli.main", *tokenized(path, tmp_path / "out")]
    limited = f'ulimit -v {megabytes * 1024}; exec "$@"'
    result = subprocess.run(
        ["bash", "-c", limited, "-", *command],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert result.returncode == 6, result.stderr
    assert "use fewer --workers" in result.stderr
    assert "Traceback" not in result.stderr
