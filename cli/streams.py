"""stdout and stderr as cron and pipes leave them: closed, full, or with nobody who reads them.

stderr cannot be written     progress and messages are lost, the work goes on
stdout cannot be written     the result is lost: an error, exit code 6
the reader of stdout left    `dataprep stats D | head -1`: it has what it wanted, exit code 0
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from dataprep.pipeline.errors import ResourceError
from dataprep.pipeline.guards.secrets import redacted, without_secrets

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
NEWLINES = "\n\t"  # what the text of a document or of a message may hold


class ReaderGone(Exception):
    """Nobody reads stdout any more."""


class _Stream:
    """A text stream whose `write` and `flush` call `failed` instead of raising an OSError."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def failed(self, error: OSError) -> None:
        """Send what is buffered, and all that follows, nowhere: it would fail again at the exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def shown(self, text: str) -> str:
        return redacted(text)

    def write(self, text: str) -> int:
        try:
            self._stream.write(self.shown(text))
        except OSError as error:
            self.failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self.failed(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Results(_Stream):
    """stdout: what cannot be written is an error, again and again: typer swallows the first."""

    _lost: Exception | None = None

    def shown(self, text: str) -> str:
        return without_secrets(text)  # a URL in a document is shown as it is

    def failed(self, error: OSError) -> None:
        super().failed(error)
        self._lost = (
            ReaderGone()
            if isinstance(error, BrokenPipeError)
            else ResourceError(
                f"cannot print the result to stdout: {error.strerror}; what was made is on disk"
            )
        )
        raise self._lost

    def write(self, text: str) -> int:
        self._raise_lost()
        return super().write(text)

    def flush(self) -> None:
        self._raise_lost()
        super().flush()

    def _raise_lost(self) -> None:
        if self._lost is not None:
            raise self._lost


@contextmanager
def keep_streams() -> Iterator[None]:
    """Make streams that cannot be used harmless while a command runs."""
    _open_closed_ones()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be text
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Results(sys.stdout), _Stream(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def visible(text: str, keep: str = "") -> str:
    r"""Return a text without characters that would act on the terminal, except those to keep.

    >>> visible("a\x1b[2J\n"), visible("a\x07\n", keep="\n")
    ('a\\x1b[2J\\x0a', 'a\\x07\n')
    """
    return _CONTROL.sub(lambda m: m[0] if m[0] in keep else f"\\x{ord(m[0]):02x}", text)


def say(message: str, **values: Any) -> None:
    """Print a message about how the command ended; `values` are for readers of JSON alone."""
    if wants_json():
        message = json_line("error", message, **values)
    else:
        message = f"dataprep: {visible(message, keep=NEWLINES)}"
    print(message, file=_Stream(sys.stderr))


def json_line(level: str, message: str, **values: Any) -> str:
    """Return a message as --log-format json has it."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, "message": message, **values})


def wants_json() -> bool:
    """Return whether the command line asks for messages as JSON, also one that cannot be parsed."""
    return "--log-format=json" in sys.argv or ("--log-format", "json") in pairwise(sys.argv)


def _open_closed_ones() -> None:
    """Open descriptors 0, 1 and 2 if they are closed: the next file would get their number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
