"""Keep in a file, while a run lasts, what cannot be read twice: stdin, records from Python.

    $TMPDIR/dataprep-stdin-1000-x7f2.jsonl     locked by its run, removed when that ends

The source is known by its content, like a file: the same bytes again, from wherever, are the same
input. A run that is killed leaves its file, which nobody has locked then: the next run that keeps
something removes it.
"""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import xxhash

from dataprep.pipeline.errors import ResourceError
from dataprep.pipeline.guards.opening import open_regular
from dataprep.pipeline.sources.fingerprint import PREFIX

_START = "dataprep-{what}-{user}-"
_LEFT_SECONDS = 3600  # a file is made a moment before it is locked: only older ones are left over


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """The file that keeps the bytes of an input."""

    path: str
    num_bytes: int
    fingerprint: str


Spools = Mapping[str, Spool]  # by the name of the input: -, python:0


@contextmanager
def spooled_bytes(chunks: Iterable[bytes], what: str, name: str) -> Iterator[Spool]:
    """Keep the chunks in a file while the block runs."""
    start = _START.format(what=what, user=os.getuid())
    _remove_left(start)
    with ExitStack() as stack:
        with _naming_disk(name):
            handle, path = tempfile.mkstemp(prefix=start, suffix=".jsonl")
            stack.callback(_remove, path)
            file = stack.enter_context(open(handle, "wb"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        state, num_bytes = xxhash.xxh3_128(), 0
        for chunk in chunks:
            state.update(chunk)
            num_bytes += len(chunk)
            with _naming_disk(name):
                file.write(chunk)
        with _naming_disk(name):
            file.flush()
        yield Spool(path=path, num_bytes=num_bytes, fingerprint=f"{PREFIX}{state.hexdigest()}")


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


@contextmanager
def _naming_disk(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"cannot keep {name} in a temporary file: {error.strerror or error}; set TMPDIR to "
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
