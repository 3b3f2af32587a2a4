"""The installed command in a process of its own, as cron starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.parents import members_of

COMMAND = [sys.executable, "-m", "dataprep.cli.main"]


def python_path(*folders: Path) -> str:
    """Return a PYTHONPATH with these folders before those that are there."""
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*map(str, folders), *([before] if before else [])])


@contextmanager
def started(
    words: Sequence[str | Path], env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a session of its own; nothing of it is left at the end."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for member in members_of(process.pid):
            os.kill(member, signal.SIGKILL)
        process.communicate()


def prepared(code: str, words: Sequence[str]) -> list[str]:
    """Return the words that run `code` and then become the command, with its process id.

    >>> prepared("os.nice(5)", ["true"])[2]
    'import os, sys; os.nice(5); os.execvp(sys.argv[1], sys.argv[1:])'

    What `preexec_fn` of subprocess does, without the fork that jax forbids once it is imported.
    """
    code = f"import os, sys; {code}; os.execvp(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", code, *words]


def wait_for(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.002)
