"""Fixtures that every test may use: the embedded sample, one cache for all tests, the command."""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest

from dataprep.pipeline.sample import sample_path
from support.forks import ForkServer
from support.installed import COMMAND
from support.stores import S3, s3_server

# A timing never decides a test: machines are noisy.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.load_profile("here")


# Help is laid out for the width it finds, and tests look for whole phrases.
PLAIN = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
ROOT = Path(__file__).resolve().parent.parent
# Files that take long, or come late in the order of names; the longest first.
LONG = ("test_month.py", "test_kills.py", "test_encoded.py", "test_docs.py", "test_tokenize.py")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the modules once: where no bytecode is written, every command would do it again."""
    for folder in ("cli", "configs", "loaders", "pipeline"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that take long, so that none is left to one process at the end."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    text: Path  # {"text"}
    chat: Path  # {"prompt", "answer"}
    vision: Path  # {"fields", "vision", "caption"}
    tokenizer: Path  # tokenizer.json, its config beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    code: int
    stdout: str
    stderr: str


class RunCli(Protocol):
    def __call__(
        self,
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> Finished: ...


@pytest.fixture(scope="session")
def sample() -> Sample:
    return Sample(
        text=sample_path("text.jsonl"),
        chat=sample_path("chat.jsonl"),
        vision=sample_path("vision.jsonl"),
        tokenizer=sample_path("tokenizer.json"),
    )


@pytest.fixture(scope="session", autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for the whole session, never the user's: engine proofs are made once."""
    base = tmp_path_factory.getbasetemp()
    # Workers of xdist have folders of their own in the one of the session.
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "dataprep-cache"
    path.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATAPREP_CACHE", str(path))
        # A command whose files may not grow would leave cut bytecode, for all that follow it.
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield path


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3 server on this machine; it starts when the first test wants it."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[ForkServer]:
    """Forks run commands in a fifth of the time; without threads of packages, they are safe."""
    with ForkServer(tmp_path_factory.mktemp("commands"), eager=False) as server:
        yield server
        # Since then all commands were started anew, which takes ten times as long.
        assert server.is_current, f"a package sets {server.changed()}; see NOT_OF_TESTS"


@pytest.fixture
def run_cli(tmp_path: Path, commands: ForkServer) -> RunCli:
    """Run `dataprep ARGS` in a process of its own, by default in `tmp_path`.

    run_cli("stats", dataset, "--json").stdout          what it printed
    run_cli("stats", "nowhere", check=False).code       2

    A fork of a process that has imported the commands, unless the environment is another one.
    """

    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> Finished:
        words, place = list(map(str, args)), cwd or tmp_path
        if env is None and commands.is_current:
            ended = commands.start(words, env=PLAIN, cwd=place).wait(timeout)
            finished = Finished(code=ended.code, stdout=ended.stdout, stderr=ended.stderr)
        else:
            finished = run_for_real(words, env or {}, place, timeout)
        return checked(finished, words) if check else finished

    return run


@pytest.fixture
def run_installed(tmp_path: Path) -> RunCli:
    """The same with the installed command, in an interpreter of its own."""

    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> Finished:
        words = list(map(str, args))
        finished = run_for_real(words, env or {}, cwd or tmp_path, timeout)
        return checked(finished, words) if check else finished

    return run


def run_for_real(
    words: list[str], env: Mapping[str, str], cwd: Path, timeout: float = 120
) -> Finished:
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=cwd,
        env={**os.environ, **PLAIN, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except BaseException:
        # Its workers hold the pipes too: end the whole group, or this would wait for them.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return Finished(code=process.returncode, stdout=stdout, stderr=stderr)


def checked(finished: Finished, words: list[str]) -> Finished:
    assert finished.code == 0, (
        f"dataprep {' '.join(words)} ended with {finished.code}\n{finished.stdout}{finished.stderr}"
    )
    return finished
