"""Read stdin as JSONL. It cannot be read twice, so its bytes are kept in a file while a run lasts.

    zcat a.jsonl.gz | dataprep tokenize - …
    $TMPDIR/dataprep-stdin-1000-x7f2.jsonl     locked by its run, removed when that ends

The source is known by its content, like a file: the same bytes again, from wherever, are the same
input. A run that is killed leaves its file, which nobody has locked then: the next run that reads
stdin removes it.
"""

from __future__ import annotations

import fcntl
import glob
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import xxhash

from dataprep.pipeline.errors import ConfigError, InputError, ResourceError
from dataprep.pipeline.guards.opening import open_regular
from dataprep.pipeline.sources.fingerprint import PREFIX

STDIN = "-"
_READ_BYTES = 1 << 20
_LEFT_SECONDS = 3600  # a file is made a moment before it is locked: only older ones are left over


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """The file that keeps the bytes of stdin."""

    path: str
    num_bytes: int
    fingerprint: str


@contextmanager
def spooled(inputs: Sequence[str]) -> Iterator[Spool | None]:
    """Keep the bytes of stdin while the block runs, if it is one of the inputs, else yield None."""
    if STDIN not in inputs:
        yield None
        return
    if list(inputs).count(STDIN) > 1:
        raise ConfigError("stdin (-) is given twice, but can be read only once; leave one out")
    if sys.stdin is None or not _is_open(0):
        raise ConfigError("stdin (-) is closed; pipe JSONL into the command")
    if os.isatty(0):
        raise ConfigError(
            "stdin (-) is a terminal; pipe JSONL into the command, as in cat a.jsonl | dataprep …"
        )
    start = f"dataprep-stdin-{os.getuid()}-"
    _remove_left(start)
    with ExitStack() as stack:
        with _naming_disk():
            handle, path = tempfile.mkstemp(prefix=start, suffix=".jsonl")
            stack.callback(_remove, path)
            file = stack.enter_context(open(handle, "wb"))
            fcntl.flock(handle, fcntl.LOCK_EX)
            num_bytes, digest = _copy(file)
        yield Spool(path=path, num_bytes=num_bytes, fingerprint=f"{PREFIX}{digest}")


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _copy(file: Any) -> tuple[int, str]:
    """Copy stdin; return how many bytes it has, and their hash."""
    state, num_bytes = xxhash.xxh3_128(), 0
    while True:
        try:
            data = os.read(0, _READ_BYTES)
        except OSError as error:
            raise InputError(f"cannot read stdin (-): {error.strerror}") from error
        if not data:
            break
        state.update(data)
        num_bytes += len(data)
        file.write(data)
    file.flush()
    return num_bytes, state.hexdigest()


@contextmanager
def _naming_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"cannot keep stdin (-) in a temporary file: {error.strerror or error}; set TMPDIR to "
            "a folder with room for it"
        ) from error


def _remove_left(start: str) -> None:
    """Remove files of runs that were killed."""
    pattern = os.path.join(glob.escape(tempfile.gettempdir()), f"{start}*.jsonl")
    for path in glob.glob(pattern):
        # OSError: another user's, in use, or no file at all. It was never a link.
        with suppress(OSError), open_regular(path) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(file.fileno())
            is_ours = found.st_uid == os.getuid() and not os.path.islink(path)
            if is_ours and found.st_mtime < time.time() - _LEFT_SECONDS:
                os.unlink(path)
