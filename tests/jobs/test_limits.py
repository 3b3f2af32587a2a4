"""--max-errors: at which task there are too many bad records."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from dataprep.pipeline.jobs.executors import JobError
from dataprep.pipeline.jobs.limits import ErrorLimit, TooManyErrors
from dataprep.pipeline.tokenize import sink
from support.here import make_here
from support.inprocess import write_lines


def test_the_first_task_with_too_many_is_found_whatever_the_order() -> None:
    limit = ErrorLimit("100")
    limit.count(3, 60, [])
    limit.count(0, 40, [])
    with pytest.raises(JobError) as caught:
        limit.count(1, 61, [])
    assert caught.value.job == 1


def test_a_task_that_is_retried_counts_once() -> None:
    limit = ErrorLimit("100")
    for errors in (50, 100, 20, 100):
        limit.count(0, errors, [])
    with pytest.raises(JobError):
        limit.count(0, 101, [])


def test_counting_costs_the_same_for_the_last_task_as_for_the_first() -> None:
    limit = ErrorLimit("1000000")
    began = time.process_time()
    for task in range(20_000):
        limit.count(task, 1, [])
    assert time.process_time() - began < 1  # some 20 s if all tasks are added up each time


def test_bad_records_of_tasks_that_an_earlier_run_has_done_count() -> None:
    limit = ErrorLimit("2", {0: (2, [(0, 4, "a"), (0, 9, "b")]), 5: (7, [])})
    with pytest.raises(JobError) as caught:
        limit.count(3, 1, [(0, 0, "c")])
    assert caught.value.job == 3
    named = limit.named(TooManyErrors("2"), lambda task, piece, line: f"{task}:{line}")
    assert str(named).endswith("the first: 0:4: a; 0:9: b; 3:0: c")


@pytest.mark.parametrize("limit", ["1", "5", "0.1%"])
@pytest.mark.parametrize("done", ["2 tasks", "5 tasks", "3 shards of a task"])
def test_which_bad_records_are_named_does_not_depend_on_where_a_run_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, done: str
) -> None:
    monkeypatch.setattr(sink, "RECORD_TOKENS", 1 << 12)  # so that a task has several shards
    inputs = []
    for name, bad in (("a", [50, 51, 200]), ("b", []), ("c", [10, 250]), ("d", [0, 1, 2, 3])):
        lines = ["{bad" if i in bad else {"text": "x" * 300} for i in range(300)]
        path = write_lines(tmp_path / f"{name}.jsonl", lines)
        if done == "3 shards of a task":  # what is compressed is not cut, and these are small
            data, path = path.read_bytes(), tmp_path / f"{name}.jsonl.gz"
            path.write_bytes(gzip.compress(data))
        inputs.append(str(path))
    values = {"inputs": inputs, "tokenizer": "bytes", "shard_bytes": 1 << 16, "on_error": "skip"}

    def stop(work: Path) -> None:
        found = sorted((work / "tasks").glob("*.done"))
        if done == "3 shards of a task":
            found[3].unlink()  # as if it had been killed before that
        if len(found) >= int(done[0]):
            raise KeyboardInterrupt

    def told(out: Path) -> str:
        with pytest.raises(TooManyErrors) as caught:
            make_here("tokenize", out, {**values, "max_errors": limit})
        return str(caught.value)

    with pytest.raises(KeyboardInterrupt):
        make_here("tokenize", tmp_path / "out", values, after_job=stop)
    assert told(tmp_path / "out") == told(tmp_path / "clean")
