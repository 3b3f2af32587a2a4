"""Signals, and how a worker ends with its parent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.processes import WorkerProcess
from support.parents import (
    in_session,
    members_of,
    python,
    script,
    started,
    wait_for_file,
    wait_for_jobs,
    wait_until_gone,
)
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


# --- a run in another thread ---

BESIDE = """
import threading, time
def start(*args, **kwargs):
    threading.Thread(target=act_out, args=args, kwargs=kwargs, daemon={daemon}).start()
    while not Path({begun!r}).exists(): time.sleep(0.01)
    {then}
"""
# multiprocess ends the workers that are left, then waits for all that there are: time enough in
# between for a run to start others in their place. The run imports it, not the program.
SLOW = """
from dataprep.pipeline.jobs.crew import Crew
hand_out = Crew.hand_out
def hand_out_after(self):
    from multiprocess.popen_fork import Popen
    terminate = Popen.terminate
    def terminate_slowly(self):
        terminate(self)
        {meanwhile}
    Popen.terminate, Crew.hand_out = terminate_slowly, hand_out
    hand_out(self)
Crew.hand_out = hand_out_after
assert "multiprocess" not in sys.modules
"""
# Full for all threads but the main one: what they hold when the interpreter ends stays held.
FULL_STDOUT = """
import io, os
is_held = threading.Event()
class Full(io.RawIOBase):
    def writable(self):
        return True
    def write(self, data):
        if threading.current_thread() is not threading.main_thread():
            is_held.set()
            threading.Event().wait()
        return os.write(1, data)
sys.stdout = io.TextIOWrapper(io.BufferedWriter(Full()))
"""
FORCED = {
    "as it comes": "",
    "a worker is started meanwhile": SLOW.format(meanwhile="time.sleep(1)"),
    "stdout is held meanwhile": FULL_STDOUT + SLOW.format(meanwhile="is_held.wait(2)"),
}


def run_beside(work: Path, *, setup: str = "", then: str = "", daemon: bool = True) -> str:
    """Return a program whose run is in another thread, and hangs."""
    source = script(work, {0: ["touch begun", "hang"]}, setup=setup)
    beside = BESIDE.format(daemon=daemon, begun=str(work / "begun"), then=then or "pass")
    source = source.replace("act_out(Path", "start(Path")
    return source.replace("import sys\n", f"import sys\n{beside}", 1)


@pytest.mark.parametrize("setup", FORCED.values(), ids=list(FORCED))
def test_an_interpreter_that_exits_does_not_wait_for_a_run_in_a_daemon_thread(
    tmp_path: Path, setup: str
) -> None:
    work = tmp_path / "work"
    result = python("-c", run_beside(work, setup=setup), cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    assert not [pid for _, _, pid in log_of(work) if psutil.pid_exists(pid)]
    assert len(log_of(work)) == 1  # no other worker was started


def test_a_run_in_a_daemon_thread_ends_a_worker_that_is_stopped_at_exit(tmp_path: Path) -> None:
    work = tmp_path / "work"
    stop = f"os.kill(int(Path({str(work / 'log')!r}).read_text().split()[2]), signal.SIGSTOP)"
    source = run_beside(work, setup="import os, signal", then=stop)
    result = python("-c", source, cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    assert not [pid for _, _, pid in log_of(work) if psutil.pid_exists(pid)]


# Tells when the main thread is done and Python waits for the others.
JOINING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
shutdown = threading._shutdown
def join_others():
    Path({joins!r}).touch()
    shutdown()
threading._shutdown = join_others
"""


@pytest.mark.parametrize("daemon", [True, False], ids=["daemon", "plain"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_the_main_thread_end_a_run_in_another_and_nothing_is_left(
    tmp_path: Path, number: signal.Signals, daemon: bool
) -> None:
    work, waits, joins = (tmp_path / name for name in ("work", "waits", "joins"))
    setup = JOINING.format(joins=str(joins))
    then = f"Path({str(waits)!r}).touch(); time.sleep(100)"
    source = run_beside(work, setup=setup, then=then, daemon=daemon)
    with in_session(source) as process:
        wait_for_file(waits)
        os.killpg(process.pid, number)
        if number == signal.SIGINT and not daemon:  # a second Ctrl-C ends the wait for the run
            wait_for_file(joins)
            assert len(members_of(process.pid)) == 2
            os.killpg(process.pid, number)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode in (-number, 128 + number)
        assert "worker" not in stderr
        wait_until_gone(process.pid)
