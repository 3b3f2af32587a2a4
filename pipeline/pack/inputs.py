"""Check the files that pack reads, each once in a run, however many processes read it.

    shard 7   first needed by worker 1: hashed, then marked in out/.work/checked
              needed by worker 0 meanwhile: waits for that, then reads

So no row is made of a damaged file, the cost is one more pass over bytes that are read anyway, and
it is shared by the workers. Before rows are committed, the files that they come from must still be
as they were when they were checked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import xxhash

from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.storage.checked import check_file, state_of
from dataprep.pipeline.storage.manifest import AnyFile

CHECKED = "checked"  # folder of marks, in the work folder


def changed_input(path: Path) -> InputError:
    return InputError(
        f"{path} changed while it was read; run the same command again when nothing writes to it"
    )


class FileChecks:
    """Check each file when it is first needed, by whichever process needs it first.

    That process leaves a mark in a folder which all of them know: the hash, and when the file was
    last changed. Others wait for it instead of reading the file once more. A file that changed
    since then is checked again.
    """

    def __init__(self, marks: Path | None = None) -> None:
        self._marks = marks  # None: for this process alone
        self._known: dict[Path, str] = {}  # the states of files when they were checked
        if marks is not None:
            marks.mkdir(exist_ok=True)

    def check(self, folder: Path, entry: AnyFile) -> None:
        """Raise CorruptError unless the file is as the manifest lists it."""
        path = folder / entry.path
        if path in self._known:
            return
        if self._marks is None:
            state = _state_of(folder, entry)
            check_file(folder, entry)
        else:
            name = xxhash.xxh3_64_hexdigest(os.fsencode(path.absolute()))
            with _own_turn(self._marks / name) as mark:
                state = _check_unmarked(folder, entry, mark)
        self._known[path] = state

    def has_changed(self, folder: Path, entry: AnyFile) -> bool:
        """Return whether something has written to a file or replaced it since it was checked."""
        known = self._known.get(folder / entry.path)
        try:
            return known is not None and known != _state_of(folder, entry)
        except CorruptError:  # it is gone, or of another size
            return True


def _check_unmarked(folder: Path, entry: AnyFile, mark: IO[str]) -> str:
    """Check a file, unless its mark says that it was whole and it has not changed since.

    Return its state before that.
    """
    state = _state_of(folder, entry)
    if mark.read() != state:
        check_file(folder, entry)
        mark.seek(0)
        mark.truncate()
        mark.write(state)
    return state


def _state_of(folder: Path, entry: AnyFile) -> str:
    """Return what is different after the file was written to or replaced, as a mark says it."""
    return f"{entry.xxh3_128} {' '.join(map(str, state_of(folder, entry)))}\n"


@contextmanager
def _own_turn(path: Path) -> Iterator[IO[str]]:
    """Open a file for this process alone; the kernel ends its turn, however the process ends."""
    with open(path, "a+", encoding="utf-8", errors="replace") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file
        file.flush()
