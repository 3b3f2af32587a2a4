"""Signals, and how a worker ends with its parent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.processes import WorkerProcess
from support.parents import members_of, python, script, started, wait_for_jobs, wait_until_gone
from support.toy_worker import importable, log_of, told, write_acts


def test_a_worker_whose_parent_is_gone_exits_without_a_word(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_acts(tmp_path, {})
    process = WorkerProcess("support.toy_worker", tmp_path, importable(), Handed(b""))
    process.start()
    # This ends the connection and nothing else, as a death does where no signal tells of it.
    death, _ = process.reap()
    assert death.cause == "exit code 1"
    assert capfd.readouterr() == ("", "")


INTERRUPTING = """
import os, signal, time
from dataprep.pipeline.jobs.processes import WorkerProcess
start = WorkerProcess.start
def start_and_interrupt(self):
    print("started")
    start(self)
    for _ in range(3):
        os.kill(self._process.pid, signal.SIGINT)
        time.sleep(0.02)
WorkerProcess.start = start_and_interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def test_sigint_is_ignored_by_workers_from_their_first_moment(tmp_path: Path) -> None:
    # A parent of its own, in which nothing of multiprocess has been started yet.
    work = tmp_path / "work"
    source = script(work, {job: [] for job in range(4)}, setup=INTERRUPTING, num_workers=4)
    result = python("-c", source, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "started\n" * 4 + "done\n"  # none had to be replaced


def test_sigint_is_held_back_no_longer_than_a_start_takes(tmp_path: Path) -> None:
    is_ignored, is_blocked = told(tmp_path, "signals")
    assert is_ignored
    assert not is_blocked
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with started(tmp_path / "work") as process:
        wait_for_jobs(tmp_path / "work")
        # The parent and two workers.
        assert len(members_of(process.pid)) == 3
        process.kill()
        process.communicate(timeout=30)
        wait_until_gone(process.pid)


DYING = """
import os, time
from dataprep.pipeline.jobs.processes import WorkerProcess
start = WorkerProcess.start
def start_and_die(self):
    start(self)
    self.give(0)
    time.sleep({delay})
    os.kill(os.getpid(), 9)
WorkerProcess.start = start_and_die
"""


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.06, 0.1])
def test_nothing_outlives_a_parent_that_is_killed_while_a_worker_starts(
    tmp_path: Path, delay: float
) -> None:
    with started(tmp_path / "work", DYING.format(delay=delay)) as process:
        process.communicate(timeout=30)
        assert process.returncode == -signal.SIGKILL
        wait_until_gone(process.pid)


def test_ctrl_c_in_a_terminal_ends_the_parent_and_nothing_is_left(tmp_path: Path) -> None:
    # A shell starts what runs in the background with SIGINT ignored.
    setup = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    with started(tmp_path / "work", setup) as process:
        wait_for_jobs(tmp_path / "work")
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode in (-signal.SIGINT, 130)
        assert stderr.count("Traceback") == 1  # the parent's: no worker says anything
        assert stderr.rstrip().endswith("KeyboardInterrupt")
        wait_until_gone(process.pid)


def test_it_works_where_sigchld_is_ignored(tmp_path: Path) -> None:
    work = tmp_path / "work"
    setup = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    source = script(work, {0: ["die once"], 1: [], 2: []}, setup=setup)
    result = python("-c", source, cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    result = python("-c", script(work, {0: ["die"]}, setup=setup), cwd=tmp_path)
    assert "workers died 3 times (exit code unknown) on job 0" in result.stderr


def test_an_interpreter_that_exits_does_not_wait_for_a_run_in_a_daemon_thread(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    source = script(work, {0: ["touch begun", "hang"]}).replace("act_out(Path", "start(Path")
    setup = "import threading, time\ndef start(*args, **kwargs):\n"
    setup += "    threading.Thread(target=act_out, args=args, kwargs=kwargs, daemon=True).start()\n"
    setup += f"    while not Path({str(work / 'begun')!r}).exists(): time.sleep(0.01)\n"
    result = python("-c", source.replace("import sys\n", f"import sys\n{setup}", 1), cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
    assert not [pid for _, _, pid in log_of(work) if psutil.pid_exists(pid)]
