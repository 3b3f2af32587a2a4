"""Many items by several threads: in order, the first error, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from dataprep.pipeline.threads.several import in_threads


def test_results_come_in_the_order_of_the_items() -> None:
    def slow(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return -number

    assert in_threads(slow, range(40), 8) == [-number for number in range(40)]
    assert in_threads(slow, [], 8) == []


def test_so_many_threads_are_at_work_at_once_and_no_more() -> None:
    together = threading.Barrier(4)
    names = in_threads(
        lambda _: (together.wait(20), threading.current_thread().name)[1], range(8), 4
    )
    assert len(set(names)) == 4


def test_the_first_error_is_raised_and_no_more_items_are_taken() -> None:
    taken: list[int] = []
    second_has_failed = threading.Event()

    def fail(number: int) -> None:
        taken.append(number)
        if number == 1:
            second_has_failed.set()
            raise ValueError("the second")
        assert second_has_failed.wait(20)
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        in_threads(fail, range(100), 2)
    assert len(taken) <= 3


def test_an_interrupt_ends_the_threads_before_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, began, done = threading.active_count(), threading.Event(), []
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        monkeypatch.setattr(threading.Thread, "join", join)
        assert began.wait(20)
        raise KeyboardInterrupt

    def work(number: int) -> None:
        began.set()
        time.sleep(0.05)
        done.append(number)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(1000), 2)
    assert threading.active_count() == before
    assert len(done) <= 4


AFTER_THE_MAIN_THREAD = """
import threading, time
from dataprep.pipeline.threads.several import in_threads
def run():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    print(in_threads(str, range(3), 2))
threading.Thread(target=run).start()
"""


def test_it_works_when_the_main_thread_has_ended() -> None:
    command = [sys.executable, "-c", AFTER_THE_MAIN_THREAD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("['0', '1', '2']\n", "")
