"""Run commands in forks of a process that has imported everything: 0.2 s each instead of 1.5 s.

    with ForkServer() as server:
        run = server.start(["pack", "tokens", "--seq-len", "64", "--out", "out"])
        os.kill(run.pid, signal.SIGKILL)       at any moment; its workers die with it
        run.wait().code                        -9

A fork calls the command's own `main`, and the executor starts real worker processes, forked too
instead of spawned: the one difference. What depends on how processes start (orphans, signals at
import) is tested with the installed command elsewhere.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from support.installed import python_path

TESTS = Path(__file__).resolve().parent.parent
TIMEOUT = 60.0  # seconds; a run that takes longer hangs
# Variables that no test sets: pytest does, and jax when it is imported, by whatever test is first.
NOT_OF_TESTS = {
    *("PYTEST_CURRENT_TEST", "TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY"),
    "TORCHINDUCTOR_CACHE_DIR",
}

# Run by `main` below in the server: what commands import, before the first fork.
PRELOAD = (
    *("cli.tokenize", "cli.pack", "cli.encode", "cli.verify", "cli.stats", "cli.inspect"),
    *("cli.run", "cli.forget", "cli.log", "cli.clean", "cli.init", "cli.previews"),
    *("cli.finalize", "cli.submit", "cli.estimate", "pipeline.jobs.finalize"),
    *("pipeline.tokenize.worker", "pipeline.pack.worker", "pipeline.encode.worker"),
    *("pipeline.jobs.processes", "pipeline.look.verify"),
)
# Packages that they import later, and that start no threads.
QUIET_PACKAGES = ("tokenizers", "fsspec.implementations.zip", "dataprep.loaders.bus_errors")
# What these import when they first need it; it is imported ahead if the server is to be `eager`.
PACKAGES = ("pyarrow.parquet", "pyarrow.compute", "pandas", "PIL.PngImagePlugin", "PIL.ImageOps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int  # as subprocess has it: -9 for SIGKILL
    stdout: str
    stderr: str

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def is_clean(self) -> bool:
        """Whether it ended as documented: no traceback, an exit code of the table."""
        return "Traceback" not in self.stderr and self.code in (0, 2, 3, 4, 5, 6, 75, 130, 143)


@dataclass(slots=True)
class Run:
    """A command that was started; one at a time for each server."""

    server: ForkServer
    pid: int
    outputs: Path
    ended: Ended | None = field(default=None)

    def wait(self, timeout: float = TIMEOUT) -> Ended:
        """Wait until it ends; kill it and fail if that takes too long."""
        if self.ended is None:
            if not self.server.has_answer(timeout):
                self.end()
                raise TimeoutError(f"process {self.pid} hung for {timeout} s: {self._text('err')}")
            status = self.server.answer()["code"]
            self.ended = Ended(code=status, stdout=self._text("out"), stderr=self._text("err"))
        return self.ended

    def end(self) -> None:
        """Kill it with all its workers, whatever it is doing."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it may have no group of its own yet
            os.kill(self.pid, signal.SIGKILL)
        self.ended = Ended(code=self.server.answer()["code"], stdout="", stderr="")

    def kill(self, after: float = 0.0) -> Ended:
        """Kill the parent process, and give how it ended: of the signal or before it."""
        if not self.server.has_answer(after):
            with suppress(ProcessLookupError):  # it may end at this very moment
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def _text(self, ending: str) -> str:
        return self.outputs.with_suffix(f".{ending}").read_text("utf-8", "replace")


class ForkServer:
    """The process that forks; close it or use it in a `with`."""

    def __init__(self, folder: Path, *, eager: bool = True) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.forks", *(["eager"] if eager else [])],
            env={**os.environ, "PYTHONPATH": python_path(TESTS), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._environ = _environ()  # what its forks have
        self._count = 0
        self._last: Run | None = None

    @property
    def is_current(self) -> bool:
        """Whether its forks have the environment of this process."""
        return not self.changed()

    def changed(self) -> set[str]:
        """Return the variables that this process has by now, and its forks have not."""
        return {name for name, _ in self._environ.items() ^ _environ().items()}

    def start(
        self,
        words: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        is_held: bool = False,
    ) -> Run:
        """Start `dataprep WORDS`; if held, it begins with SIGCONT (so that strace can attach)."""
        if self._last is not None and self._last.ended is None:  # a test that failed left it
            self._last.end()
        self._count += 1
        outputs = self._folder / f"run-{self._count:05d}"
        for ending in (".out", ".err"):  # there even if it is killed before it can open them
            outputs.with_suffix(ending).touch()
        words = list(map(str, words))
        place = str(cwd or os.getcwd())
        self._ask(words=words, outputs=str(outputs), env=dict(env or {}), cwd=place, held=is_held)
        self._last = Run(self, self.answer()["pid"], outputs)
        return self._last

    def run(self, words: Sequence[str | Path], **options: Any) -> Ended:
        return self.start(words, **options).wait()

    def check(self, words: Sequence[str | Path]) -> Ended:
        """Run a command that must succeed."""
        ended = self.run(words)
        assert ended.code == 0, f"{words[0]} ended with {ended.code}: {ended.stderr}"
        return ended

    def _ask(self, **request: Any) -> None:
        stdin = _pipe(self._process.stdin)
        stdin.write(json.dumps(request).encode() + b"\n")
        stdin.flush()

    def has_answer(self, timeout: float) -> bool:
        return bool(select.select([_pipe(self._process.stdout)], [], [], timeout)[0])

    def answer(self) -> dict[str, Any]:
        # One byte at a time is read ahead of nothing, so that `select` sees what is left.
        line = bytearray()
        while not line.endswith(b"\n"):
            assert self.has_answer(TIMEOUT), "the fork server does not answer"
            byte = os.read(_pipe(self._process.stdout).fileno(), 1)
            assert byte, "the fork server is gone"
            line += byte
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait(10)
        _pipe(self._process.stdout).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in NOT_OF_TESTS}


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


# --- the server's side ---


def main() -> None:
    from importlib import import_module

    import multiprocess

    for name in PRELOAD:
        import_module(f"dataprep.{name}")
    for name in (*QUIET_PACKAGES, *(PACKAGES if "eager" in sys.argv else ())):
        with suppress(ImportError):
            import_module(name)
    # Workers are forked.
    processes = import_module("dataprep.pipeline.jobs.processes")
    assert hasattr(processes, "get_context"), "workers are started in another way by now"
    processes.get_context = lambda kind: multiprocess.get_context("fork")  # type: ignore[attr-defined]
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans become children of this
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            _become(request)
        _say(pid=pid)
        _, status = os.waitpid(pid, 0)
        _reap(pid)
        _say(code=os.waitstatus_to_exitcode(status))


def _become(request: dict[str, Any]) -> None:
    from dataprep.cli.main import main as command

    os.setsid()
    outputs = request["outputs"]
    for number, path in enumerate((os.devnull, f"{outputs}.out", f"{outputs}.err")):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    faulthandler.enable()  # a crash says where
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["dataprep", *request["words"]]
    if request["held"]:
        os.kill(os.getpid(), signal.SIGSTOP)
    code: Any = 1
    try:
        command()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _reap(group: int) -> None:
    """Wait for the workers of a run that was killed: the next run must not meet them."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _say(**answer: Any) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
