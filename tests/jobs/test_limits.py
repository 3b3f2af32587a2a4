"""--max-errors: at which task there are too many bad records."""

from __future__ import annotations

import time

import pytest

from dataprep.pipeline.jobs.executors import JobError
from dataprep.pipeline.jobs.limits import ErrorLimit


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
