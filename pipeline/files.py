"""Write files durably: temp name, fsync, rename. Knows nothing of their content.

A sealed file ends with the hash of what stands before it, so that damage is noticed:

    {"final": true, …}\n99aa06d3014798d86001c324468d497f
"""

from __future__ import annotations

import errno
import os
import re
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import xxhash

from dataprep.pipeline.errors import CorruptError, ResourceError
from dataprep.pipeline.guards.opening import NotRegularError, TooLargeError, read_bounded
from dataprep.pipeline.hashes import CHUNK_BYTES, hash_bytes, hash_file

FileId = tuple[int, int]  # device, inode

MAX_SEALED = 1 << 36  # bytes: a plan may list hundreds of millions of pictures
_LINES_AT_ONCE = 1000

# Errors that the user can mend, and then run the same command again.
_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room"),
    errno.EFBIG: "allow larger files (ulimit -f)",
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
        return unsealed(read_bounded(path, MAX_SEALED))
    except (FileNotFoundError, NotADirectoryError, NotRegularError, TooLargeError):
        return None


def unsealed(whole: bytes) -> bytes | None:
    """Return what was sealed; None if it is damaged."""
    data, _, seal = whole.rpartition(b"\n")
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


def written_at(path: Path, hash_of: Callable[[Path], str] = hash_file) -> Written:
    """Return the size and hash of a file as it is now."""
    size, state = path.stat().st_size, _state_of(path)
    return Written(num_bytes=size, xxh3_128=hash_of(path), state=state)


class NewFile:
    """A file that is written under its temporary name, and hashed as it is written.

    The hash is of the bytes that were given, and those on the disk must be the same: what another
    process or a bad page did to them before the commit is an error, not a hash that fits them.
    If its writer fails, it is closed when nobody holds it any more. pyarrow can write to it.
    """

    def __init__(self, path: Path, *, head_bytes: int = 0) -> None:
        """`head_bytes` at the start are left for `write_head`."""
        self._path, self._temp = path, temporary(path)
        self._head, self._hash, self._num_bytes = bytes(head_bytes), xxhash.xxh3_128(), head_bytes
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(self._temp, flags, 0o666)
        self._close = weakref.finalize(self, os.close, self._descriptor)

    def write(self, data: Any) -> int:
        """Write all bytes of an array or of bytes, after what was written before."""
        view = memoryview(data)
        if view.nbytes:
            view = view.cast("B")
            self._hash.update(view)
            self._write_at(view, self._num_bytes)
            self._num_bytes += view.nbytes
        return view.nbytes

    def write_lines(self, lines: Iterable[str]) -> None:
        rest = iter(lines)
        while some := list(islice(rest, _LINES_AT_ONCE)):
            self.write("".join(some).encode())

    def write_head(self, head: bytes) -> None:
        """Write the bytes at the start, which are known last."""
        assert len(head) == len(self._head), "the head has another size"
        self._write_at(memoryview(head), 0)
        self._head = head

    def commit(self) -> Written:
        """Make the file durable under its name, if it is what was written."""
        self.close()
        found = written_at(self._temp, self._checked_hash)
        if found.num_bytes != self._num_bytes:
            raise lost(self._temp)
        commit(self._temp, self._path)
        return found

    def commit_if_new(self) -> None:
        """Commit, unless a file of these bytes is there: who has it open goes on reading it."""
        assert not self._head, "the hash is of what comes after the head"
        if self._path.is_file() and hash_file(self._path) == self._hash.hexdigest():
            self.close()
            self._temp.unlink()
        else:
            self.commit()

    def _checked_hash(self, path: Path) -> str:
        """Return the hash of the file, which is read once; raise if it is not what was written."""
        whole, rest = xxhash.xxh3_128(), xxhash.xxh3_128()
        states = (whole, rest) if self._head else (whole,)
        buffer = memoryview(bytearray(CHUNK_BYTES))
        with open(path, "rb") as file:
            head = file.read(len(self._head))
            whole.update(head)
            while count := file.readinto(buffer):
                for state in states:
                    state.update(buffer[:count])
        if head != self._head or states[-1].digest() != self._hash.digest():
            raise lost(path)
        return whole.hexdigest()

    def close(self) -> None:
        self._close()

    @property
    def closed(self) -> bool:
        return not self._close.alive

    def flush(self) -> None:
        """Do nothing: it has no buffer."""

    def _write_at(self, data: memoryview, place: int) -> None:
        while data:  # the system may write a part and say so, as when a disk is nearly full
            count = os.pwrite(self._descriptor, data, place)
            data, place = data[count:], place + count


class Uncommitted(Protocol):
    def commit(self) -> Written: ...


def commit_files(files: Mapping[str, Uncommitted]) -> dict[str, Written]:
    """Make files durable under their names; return the size and hash of each."""
    return {role: file.commit() for role, file in files.items()}


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
    if "::" not in address and "://" not in address:  # nearly all, and there may be a million
        return [os.path.expanduser(address)] if address else []
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
