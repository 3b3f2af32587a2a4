"""Where proofs, facts of tokenizers and input hashes are kept between runs.

What `write_cached` keeps is sealed with its hash: a file that is damaged or cut counts as missing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.files import make_folder, read_sealed, sealed

_LEFT_SECONDS = 3600.0
_SET_CACHE = "set HOME, or name a folder for caches in DATAPREP_CACHE"


def default_cache() -> Path:
    """Return the folder for what is kept between runs."""
    named = os.environ.get("DATAPREP_CACHE")
    if named:
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared:
        return Path(shared) / "dataprep"
    home = os.path.expanduser("~")
    return _without_home() if home == "~" else Path(home) / ".cache" / "dataprep"


def read_cached(path: Path) -> bytes | None:
    """Return what was kept there; None if it is missing, damaged or cannot be read."""
    try:
        return read_sealed(path)
    except OSError:
        return None


def write_cached(path: Path, data: bytes) -> None:
    """Keep `data` there if possible: an unwritable cache only costs time."""
    # Two runs may write at the same time: each has its own temp name, and the last rename wins.
    temp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temp.write_bytes(sealed(data))
        os.replace(temp, path)
    except OSError:
        with suppress(OSError):
            temp.unlink()


@contextmanager
def own_turn(folder: Path) -> Iterator[None]:
    """Wait until no other process has this folder; the kernel ends the turn of the dead."""
    make_folder(folder)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # If it were only closed, a process that was forked meanwhile would keep it locked.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def remove_left(home: Path, *, but: str) -> None:
    """Remove folders that those who were killed have left in this one long ago, which are locked
    while they are used."""
    with suppress(OSError):
        for folder in home.iterdir():
            # One that is just made is not locked yet.
            if folder.name != but and time.time() - folder.stat().st_mtime > _LEFT_SECONDS:
                remove_unused(folder)


def remove_unused(folder: Path) -> None:
    """Remove a folder that is locked as long as somebody uses it, unless somebody does."""
    with suppress(FileNotFoundError, NotADirectoryError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)


def _without_home() -> Path:
    """Return a folder for a user who has no home, as in many containers."""
    place = Path(tempfile.gettempdir()) / f"dataprep-{os.getuid()}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        status = place.lstat()
    except OSError as error:
        raise ConfigError(f"cannot make {place}: {error.strerror}; {_SET_CACHE}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ConfigError(f"{place} may be written by others; {_SET_CACHE}")
    return place
