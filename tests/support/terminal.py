"""The command as a person runs it: its streams are a terminal, made by `pty`."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.installed import COMMAND, python_path

# Workers tell of every batch, so that a run of a second has all messages of one of an hour.
OFTEN = "import dataprep.pipeline.jobs.progress as progress\nprogress.PROGRESS_SECONDS = 0\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    code: int
    text: str  # all that was written, with the codes that move the cursor


def on_terminal(
    words: Sequence[str | Path],
    cwd: Path,
    *,
    columns: int = 100,
    env: Mapping[str, str] | None = None,
) -> Screen:
    """Run a command whose stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env={**inherited, "TERM": "xterm", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    parts: list[bytes] = []
    with suppress(OSError):  # EIO: nobody has it open any more
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    os.close(ours)
    return Screen(code=process.wait(60), text=b"".join(parts).decode(errors="replace"))


def telling_often(folder: Path) -> dict[str, str]:
    """Return the environment in which workers report after every batch."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(OFTEN)
    return {"PYTHONPATH": python_path(folder)}
