"""Write files durably: temp name, fsync, rename. Knows nothing of their content."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep.pipeline.errors import ResourceError
from dataprep.pipeline.hashes import hash_file

# Errors that the user can fix and then run the same command again.
_RESUMABLE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
    errno.EIO,
    errno.ENOMEM,
}


def temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` so that the file is complete or unchanged; it is durable when this returns."""
    temp = temporary(path)
    with open(temp, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path)
    sync_folder(path.parent)


def commit(temp: Path, path: Path) -> None:
    """Make a written temp file durable under its name; the caller syncs the folder."""
    descriptor = os.open(temp, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temp, path)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors_named(place: Path) -> Iterator[None]:
    """Turn a full disk, a lost device or too many open files into a ResourceError."""
    try:
        yield
    except OSError as error:
        if error.errno in _RESUMABLE:
            raise ResourceError(
                f"cannot write below {place}: {os.strerror(error.errno or 0)}; "
                "make room and run the same command again"
            ) from error
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that is durable under its name."""

    num_bytes: int
    xxh3_128: str


def commit_files(paths: Mapping[str, Path]) -> dict[str, Written]:
    """Make temporary files durable under their names; return the size and hash of each."""
    written = {}
    for role, path in paths.items():
        temp = temporary(path)
        written[role] = Written(num_bytes=temp.stat().st_size, xxh3_128=hash_file(temp))
        commit(temp, path)
    return written
