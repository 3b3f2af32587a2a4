"""How a command ends: signals at any moment, streams that are closed, full or not read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import RunCli
from dataprep.cli.app import COMMANDS
from dataprep.cli.stopping import RESUMED
from support.installed import COMMAND, prepared
from support.parents import members_of, wait_until_gone


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "abc"}\n' * 20)
    return [*COMMAND, "tokenize", str(path), "--tokenizer", "bytes", "--out", str(tmp_path / "out")]


def test_help_lists_every_command_and_each_has_its_own(run_installed: RunCli) -> None:
    listed = run_installed("--help").stdout
    for name, about in COMMANDS.items():
        assert f"{name} " in listed
        assert about in listed
        assert "Example: dataprep" in run_installed(name, "--help").stdout


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_full_stdout_is_an_error_but_the_dataset_is_whole(
    run_installed: RunCli, words: list[str], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*words, *flags], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 6
    assert "cannot print the result to stdout: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    run_installed("verify", tmp_path / "out")


def test_a_full_stderr_changes_nothing(
    run_installed: RunCli, words: list[str], tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=full, text=True, timeout=60)
    assert done.returncode == 0
    assert "20 documents" in done.stdout
    run_installed("verify", tmp_path / "out")


def test_closed_streams_change_nothing(
    run_installed: RunCli, words: list[str], tmp_path: Path
) -> None:
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    assert subprocess.run([*shell, *words], timeout=60).returncode == 0
    run_installed("verify", tmp_path / "out")
    # An error has nowhere to be said, but its exit code stands.
    assert subprocess.run([*shell, *COMMAND, "stats", "nowhere"], timeout=60).returncode == 2


def test_a_reader_that_leaves_is_no_error(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*COMMAND, "--help"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def catches_sigterm(pid: int) -> bool:
    """Return whether Python has reached our first line; before it, signals are Python's own."""
    status = Path(f"/proc/{pid}/status").read_text()
    (caught,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def stopped_by(words: list[str], number: int, after: float, again: float | None) -> tuple[int, str]:
    """Send a signal after a while, and perhaps again; return the exit code and stderr."""
    # Shells and nohup start programs with some signals ignored.
    heed = f"import signal; signal.signal({number:d}, signal.SIG_DFL)"
    process = subprocess.Popen(
        prepared(heed, words),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    while not catches_sigterm(process.pid):
        time.sleep(0.001)
    time.sleep(after)
    for pause in (0.0, again):
        if pause is not None:
            time.sleep(pause)
            if process.poll() is None:
                process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    wait_until_gone(process.pid)
    assert not members_of(process.pid)
    return process.returncode, stderr


@pytest.mark.parametrize(
    ("number", "again"),
    [
        *((signal.SIGINT, again) for again in (None, 0.0, 0.02)),
        *((signal.SIGTERM, again) for again in (None, 0.02)),
        (signal.SIGHUP, None),
        (signal.SIGALRM, None),  # it is also what ends a command that does not stop in time
    ],
)
def test_a_signal_at_any_moment_ends_the_run_with_its_code(
    words: list[str], number: int, again: float | None
) -> None:
    fired = 0
    for after in (0.0, 0.05, 0.2, 0.4):
        code, stderr = stopped_by([*words, "--overwrite"], number, after, again)
        assert code in (0, 128 + number), (after, stderr)  # 0: it had ended before
        assert "Traceback" not in stderr
        fired += code != 0
    assert fired


AT_IMPORT = """
import os, sys

class Watch:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Watch)
from dataprep_jax import main
main()
"""


@pytest.mark.parametrize("module", ["importlib.util", "dataprep", "dataprep.cli.streams", "typer"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_is_imported_ends_it_with_its_code(
    module: str, number: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT, module, str(int(number)), "--help"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert "Traceback" not in done.stderr


SWALLOWING = """
import os, signal, sys, time
import dataprep.cli.stopping as stopping
from dataprep.cli.main import main
import dataprep.cli.app as module

def swallow(words):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    except:
        print("swallowed", file=sys.stderr)
    while True:
        time.sleep(0.01)

stopping.GRACE = 0.3
module.app_for = swallow
main()
"""


def test_a_signal_that_a_package_swallows_ends_the_run_all_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWING], capture_output=True, text=True, timeout=30
    )
    assert done.stderr.startswith("swallowed\n")
    assert done.returncode == 143
    assert "stopped by SIGTERM" in done.stderr


IN_A_DESTRUCTOR = """
import os, signal, time
from dataprep.cli.main import main
import dataprep.cli.app as module

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

def forget(words):
    thing = Thing()
    del thing
    time.sleep(60)

module.app_for = forget
main()
"""


def test_a_signal_that_python_itself_swallows_ends_the_run_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_DESTRUCTOR], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 143
    assert done.stderr == "dataprep: stopped by SIGTERM\n"


UNREAD = """
import os, signal, sys, time
from dataprep.cli.main import main
import dataprep.cli.app as module

def wait(words):
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(2, True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

module.app_for = wait
main()
"""


def test_a_signal_ends_a_command_whose_messages_nobody_reads() -> None:
    process = subprocess.Popen([sys.executable, "-c", UNREAD], stderr=subprocess.PIPE)
    try:
        assert process.wait(timeout=30) == 143
    finally:
        process.kill()
        process.communicate()


WHEN_ALL_IS_DONE = """
import atexit, os, signal, time
from dataprep.cli.main import main
import dataprep.cli.app as module

def late():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)

atexit.register(late)
module.app_for = lambda words: lambda **options: 0
main()
"""


CONTINUE = "; run the same command again to continue"


@pytest.mark.parametrize(
    ("called", "more"),
    [
        ("tokenize a.jsonl", CONTINUE),
        ("run c.yaml", CONTINUE),
        ("run c.yaml --why", ""),
        ("pack d --dry-run", ""),
        ("verify d", ""),
        ("stats d", ""),
    ],
)
def test_a_signal_when_all_is_done_ends_the_process_and_is_said(called: str, more: str) -> None:
    """And that the command goes on where it was, only of those that do."""
    done = subprocess.run(
        [sys.executable, "-c", WHEN_ALL_IS_DONE, *called.split()],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (143, f"dataprep: stopped by SIGTERM{more}\n")


def test_commands_that_go_on_where_they_were_are_commands() -> None:
    assert set(COMMANDS) >= RESUMED


def test_names_that_no_file_can_have_are_mistakes(run_installed: RunCli, tmp_path: Path) -> None:
    for words in (
        ("tokenize", "x.jsonl", "--tokenizer", "y" * 300, "--out", "out"),
        ("tokenize", "x.jsonl", "--tokenizer", "bytes", "--out", "y" * 300),
        ("tokenize", "x.jsonl", "--config", "y" * 300),
        ("tokenize", "x.jsonl", "--tokenizer", "bytes", "--prepend-text", "\udcff", "--out", "o"),
    ):
        (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
        done = run_installed(*words, check=False)
        assert done.code == 2, done.stderr
        assert "Traceback" not in done.stderr


def test_a_working_folder_that_was_deleted_is_named_and_absolute_paths_still_work(
    words: list[str], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    shell = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone)]
    for relative in ([*words[:-1], "out"], [*words[:-5], "in.jsonl", *words[-4:]]):
        gone.mkdir()
        done = subprocess.run([*shell, *relative], capture_output=True, text=True, timeout=60)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert "the working folder was deleted; go to one that exists" in done.stderr
    gone.mkdir()
    assert subprocess.run([*shell, *words], capture_output=True, timeout=60).returncode == 0


STOPPED_AT_A_START = """
import os, signal, sys
from multiprocess import util
spawn = util.spawnv_passfds
def spawn_and_stop(*words):
    pid = spawn(*words)
    print("spawned", flush=True)
    os.kill(os.getpid(), {number:d})
    return pid
util.spawnv_passfds = spawn_and_stop
signal.signal({number:d}, signal.SIG_DFL)
from dataprep.cli.main import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM])
def test_a_signal_waits_until_a_worker_has_all_that_it_is_sent(
    words: list[str], number: signal.Signals
) -> None:
    """A worker that was sent half of it ended in a traceback."""
    program = STOPPED_AT_A_START.format(number=number)
    started = [sys.executable, "-c", program, *words[len(COMMAND) :]]
    done = subprocess.run(started, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("spawned")
    assert done.returncode == 128 + number, done.stderr
    assert "Traceback" not in done.stderr
