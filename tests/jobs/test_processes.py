"""What a worker process takes over from its parent: its environment, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dataprep.pipeline.jobs.handed import Handed
from dataprep.pipeline.jobs.processes import WorkerProcess
from support.parents import python, script
from support.toy_worker import act_out, jobs_of, told

# The user's program


@pytest.mark.parametrize(
    "words",
    [
        ["{script}"],
        ["-m", "program"],
        ["-m", "package"],
        ["{folder}/package"],
        ["-c", "{source}"],
        ["-"],
    ],
    ids=["script", "module", "package", "folder", "command", "stdin"],
)
def test_the_program_is_not_run_again_by_workers(tmp_path: Path, words: list[str]) -> None:
    work = tmp_path / "work"
    source = script(work, {0: ["tell main"], 1: []})
    (tmp_path / "package").mkdir()
    for path in (tmp_path / "program.py", tmp_path / "package" / "__main__.py"):
        path.write_text(source)
    (tmp_path / "package" / "__init__.py").touch()
    values = {"script": str(tmp_path / "program.py"), "folder": str(tmp_path), "source": source}
    result = python(*[word.format(**values) for word in words], cwd=tmp_path, input=source)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    assert sorted(jobs_of(work, "commit")) == [0, 1]
    assert (tmp_path / "imports").read_text() == "imported\n"


HOSTILE = ["tokenize", "random", "numpy", "multiprocess", "dill", "json", "signal", "xxhash"]


@pytest.mark.parametrize("words", [["program.py"], ["-c", "import program"]])
def test_modules_in_the_users_folder_are_not_imported_by_workers(
    tmp_path: Path, words: list[str]
) -> None:
    # The parent has what it needs by the time its path has them, as in a notebook after `cd`.
    folder, work = tmp_path / "folder", tmp_path / "work"
    folder.mkdir()
    setup = f"""
import dataprep.pipeline.jobs.processes, multiprocess.popen_spawn_posix, os, tempfile
os.chdir({str(folder)!r})
sys.path[:0] = ["", {str(folder)!r}]
"""
    (tmp_path / "program.py").write_text(script(work, {0: ["tell path"], 1: []}, setup=setup))
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'seen')!r}, 'a').write({name!r})")
    result = python(*words, cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
    assert not (folder / "seen").exists()


def test_the_environment_is_in_force_when_a_worker_starts(tmp_path: Path) -> None:
    before = dict(os.environ)
    for what in ("environment-at-start", "environment-at-import", "environment"):
        values = told(tmp_path, what, OMP_NUM_THREADS="3")
        assert values["OMP_NUM_THREADS"] == "3"
        assert values["PATH"] == os.environ["PATH"]
    assert dict(os.environ) == before


@pytest.mark.parametrize("value", [None, "yes"])
def test_programs_that_a_worker_runs_find_the_users_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if value:
        monkeypatch.setenv("PYTHONSAFEPATH", value)
    assert ("PYTHONSAFEPATH" in told(tmp_path, "environment")) == bool(value)
    assert os.environ.get("PYTHONSAFEPATH") == value


def test_a_worker_may_start_processes_of_its_own(tmp_path: Path) -> None:
    act_out(tmp_path, {0: ["nest"]})


# Threads


def test_runs_in_two_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    answers: dict[str, Any] = {}

    def ask(name: str) -> None:
        for _ in range(3):
            answers[name] = told(tmp_path / name, "environment-at-start", NAME=name)["NAME"]

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"a": "a", "b": "b", "c": "c"}


def test_only_one_worker_is_started_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look(self: Any) -> None:
        time.sleep(0.05)
        seen.append(os.environ["NAME"])

    monkeypatch.setattr("multiprocess.process.BaseProcess.start", look)
    workers = [WorkerProcess("x", tmp_path, {"NAME": name}, Handed(b"")) for name in "abc"]
    threads = [threading.Thread(target=worker.start) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == ["a", "b", "c"]


def test_processes_that_another_thread_starts_meanwhile_are_as_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from multiprocess import spawn

    seen: list[dict[str, Any]] = []

    def look(self: WorkerProcess) -> None:
        thread = threading.Thread(target=lambda: seen.append(spawn.get_preparation_data("x")))
        thread.start()
        thread.join()
        seen.append(spawn.get_preparation_data("x"))

    monkeypatch.setattr("multiprocess.process.BaseProcess.start", look)
    WorkerProcess("support.toy_worker", tmp_path, {}, Handed(b"")).start()
    assert seen[0]["sys_path"]
    assert seen[1] == {"name": "x"}
    assert spawn.get_preparation_data("x")["sys_path"]


# Standard streams


def test_what_a_worker_prints_goes_to_stderr(tmp_path: Path) -> None:
    source = script(tmp_path / "work", {0: ["print hello", "commit print bye"]})
    result = python("-c", source, cwd=tmp_path)
    assert result.stdout == "done\n"
    ways = ("by its file", "by its number", "by a program", "to stderr")
    lines = [f"{word} {way}" for word in ("hello", "bye") for way in ways]
    assert sorted(result.stderr.splitlines()) == sorted(lines)


ALL_CLOSED = (0, 1, 2)
SOME_CLOSED = ((0,), (2,), (0, 1), (1, 2))


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken"])
@pytest.mark.parametrize(
    "closed", [ALL_CLOSED, (1,), *(pytest.param(c, marks=pytest.mark.slow) for c in SOME_CLOSED)]
)
def test_it_works_without_standard_streams(
    tmp_path: Path, closed: tuple[int, ...], taken: bool
) -> None:
    """`taken`: a file that the parent opened has the number."""
    work = tmp_path / "work"
    setup = f"files = [open({os.devnull!r}) for _ in range(4)]" if taken else ""
    (tmp_path / "program.py").write_text(
        script(work, {0: ["print hello"], 1: ["die once"], 2: []}, setup=setup)
    )
    redirections = " ".join(["<&-", ">&-", "2>&-"][number] for number in closed)
    words = ["bash", "-c", f'exec "$@" {redirections}', "-", sys.executable, "program.py"]
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert set(jobs_of(work, "commit")) == {0, 1, 2}
    assert result.stdout == (b"" if 1 in closed else b"done\n")
