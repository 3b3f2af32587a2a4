"""Fixtures that every test may use: the embedded sample, one cache for all tests, the command."""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest

from dataprep.pipeline.sample import sample_path

# A timing never decides a test: machines are noisy.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.load_profile("here")


ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Compile the modules once: where no bytecode is written, every command would do it again."""
    for folder in ("cli", "configs", "loaders", "pipeline"):
        compileall.compile_dir(ROOT / folder, quiet=2)


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


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Run `dataprep ARGS` in a process of its own, by default in `tmp_path`.

    run_cli("stats", dataset, "--json").stdout          what it printed
    run_cli("stats", "nowhere", check=False).code       5
    """

    def run(
        *args: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> Finished:
        process = subprocess.Popen(
            [sys.executable, "-m", "dataprep.cli.main", *map(str, args)],
            cwd=cwd or tmp_path,
            # Help is laid out for the width it finds, and tests look for whole phrases.
            env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", **(env or {})},
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
        assert not check or process.returncode == 0, (
            f"dataprep {' '.join(map(str, args))} ended with {process.returncode}\n{stdout}{stderr}"
        )
        return Finished(code=process.returncode, stdout=stdout, stderr=stderr)

    return run
