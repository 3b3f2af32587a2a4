"""Write files durably: temp name, fsync, rename. Knows nothing of their content.

A sealed file ends with the hash of what stands before it, so that damage is noticed:

    {"final": true, …}\n99aa06d3014798d86001c324468d497f
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from dataprep.pipeline.errors import CorruptError, ResourceError
from dataprep.pipeline.guards.opening import NotRegularError, TooLargeError, read_bounded
from dataprep.pipeline.hashes import hash_bytes, hash_file

FileId = tuple[int, int]  # device, inode

MAX_SEALED = 1 << 36  # bytes: a plan may list hundreds of millions of pictures

# Errors that the user can mend, and then run the same command again.
_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "allow more open files (ulimit -n)"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable"),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT, errno.EREMOTEIO),
        "see what is wrong with the disk",
    ),
}

# How fsspec spells local files, a file of the folder behind a link, and one of the store behind it.
_LOCAL = re.compile(r"(?:file|local):(?://)?")
FOLDER = "dir"
PASSAGES = (FOLDER, "simplecache", "filecache", "blockcache", "cached", "async_wrapper")

# What is raised if a file or folder that was there is gone, or something else stands in its place.
_LOST = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)


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


def write_sealed(path: Path, data: bytes) -> None:
    """Write `data` durably with its hash behind it."""
    write_atomic(path, sealed(data))


def sealed(data: bytes) -> bytes:
    """Return `data` with its hash behind it."""
    return b"%s\n%s" % (data, hash_bytes(data).encode())


def read_sealed(path: Path) -> bytes | None:
    """Return what was sealed; None if the file is missing or damaged."""
    try:
        data, _, seal = read_bounded(path, MAX_SEALED).rpartition(b"\n")
    except (FileNotFoundError, NotADirectoryError, NotRegularError, TooLargeError):
        return None
    return data if hash_bytes(data).encode() == seal else None


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


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
    """Turn a full disk, a lost device or too many open files into a ResourceError, and a file
    below `place` that somebody removed or replaced into a CorruptError."""
    try:
        yield
    except _LOST as error:
        if not _is_below(error.filename, place):
            raise
        raise lost(error.filename) from error
    except OSError as error:
        cure = _CURES.get(error.errno or 0)
        if cure is None:
            raise
        raise ResourceError(
            f"cannot write below {place}: {os.strerror(error.errno or 0)}; "
            f"{cure} and run the same command again"
        ) from error


def lost(path: str | Path) -> CorruptError:
    """Return the error for a file of a run that is not there any more, or not as it was written."""
    return CorruptError(
        f"{path} was lost or changed by something else while the run was on; "
        "run the same command again"
    )


def _is_below(path: object, place: Path) -> bool:
    if not isinstance(path, str | os.PathLike):
        return False
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that is durable under its name."""

    num_bytes: int
    xxh3_128: str
    # Inode and time of the last change when it was hashed; None: not known. A rename keeps both.
    state: tuple[int, int] | None = None

    @property
    def listed(self) -> dict[str, Any]:
        """Return what manifests say about the file."""
        return {"num_bytes": self.num_bytes, "xxh3_128": self.xxh3_128}

    def is_at(self, path: Path) -> bool:
        """Return whether the file is there, whole and unchanged."""
        try:
            return _size_of(path) == self.num_bytes and hash_file(path) == self.xxh3_128
        except OSError:  # gone meanwhile, or it cannot be read
            return False

    def is_untouched_at(self, path: Path) -> bool:
        """Return whether the file is there, and nothing has written to it or replaced it since it
        was hashed; if something may have, by its hash."""
        try:
            is_there = _size_of(path) == self.num_bytes
            return is_there and (self.state in (None, _state_of(path)) or self.is_at(path))
        except OSError:
            return False

    def check_untouched_at(self, path: Path) -> None:
        """Raise CorruptError if something wrote to the file or replaced it since it was hashed."""
        if not self.is_untouched_at(path):
            raise lost(path)

    def check_at(self, path: Path) -> None:
        """Raise CorruptError unless the file is there, whole and unchanged."""
        if not self.is_at(path):
            raise lost(path)


def _size_of(path: Path) -> int:
    """Return the size of a plain file; -1 if it is something else, such as a link to one."""
    found = path.lstat()
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def _state_of(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_ino, found.st_mtime_ns


class Content(NamedTuple):
    """Size and xxh3-128 of all bytes of a file."""

    num_bytes: int
    xxh3_128: str


def commit_files(
    paths: Mapping[str, Path], known: Mapping[str, Content | None] = MappingProxyType({})
) -> dict[str, Written]:
    """Make temporary files durable under their names; return the size and hash of each.

    What is `known` of one, by whoever wrote it, is not read again.
    """
    written = {}
    for role, path in paths.items():
        temp, content = temporary(path), known.get(role)
        size, state = temp.stat().st_size, _state_of(temp)
        if content is None:
            content = Content(size, hash_file(temp))
        elif content.num_bytes != size:
            raise lost(temp)
        written[role] = Written(num_bytes=size, xxh3_128=content.xxh3_128, state=state)
        commit(temp, path)
    return written


def links_of(address: str) -> list[str]:
    """Return the links of a chain of URLs, the archive last; a file that exists is no chain."""
    links = address.split("::")
    return [address] if len(links) > 1 and os.path.exists(address) else links


def local_paths(address: str) -> list[str]:
    """Return the local files that an input is read from, the one that the others lead to last; none
    for what is elsewhere.

    Only a `file://` of its own is percent-decoded: fsspec opens names as they are written.

    >>> local_paths("zip://a.jsonl::local:///data/in%20.zip"), local_paths("file:///data/a%20b")
    (['/data/in%20.zip'], ['/data/a b'])
    >>> local_paths("simplecache::s3://bucket/a.jsonl"), local_paths("dir://b/c.jsonl::/data")
    ([], ['/data', '/data/b/c.jsonl'])
    """
    links = links_of(address)
    found: list[str] = []
    is_local = "://" not in links[-1]  # else, and before others, it is a protocol's name
    for i, link in enumerate(reversed(links)):
        scheme, separator, path = link.partition("://")
        if _LOCAL.match(link):
            is_local = True
            path = _LOCAL.sub("", link)
            path = unquote(path) if scheme == "file" and len(links) == 1 else path
        elif scheme == FOLDER and is_local:
            path = os.path.join(found[-1] if found else "", path.lstrip("/"))
        elif scheme not in PASSAGES or not is_local or not separator:
            path = link if i == 0 and is_local else ""
        if path:
            found.append(os.path.expanduser(path))
    return found


def id_of(path: str) -> FileId | None:
    """Return what a file has in common with its links; None if there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return found.st_dev, found.st_ino
