"""Open files that users, tables or configs name: only regular files, and never wait for one.

    /data/a.jsonl                          opened
    /dev/zero, a FIFO, a socket, /proc/…   NotRegularError at once: reading might never end

Links are followed: what counts is where they lead. Files that are read whole have a largest size
(`read_bounded`), far above that of real ones.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from functools import lru_cache
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NEAR = 0.65  # how alike two names are, so that one may be meant by the other
_KERNEL = ("/proc", "/sys")  # their files look regular, but may wait, or never end
# A manifest of 20,000 shards has 10 MB, one of a million sources 300 MB.
MAX_BYTES = 1 << 30


class NotRegularError(OSError):
    """It exists, but is not a file with bytes on a disk."""


class TooLargeError(OSError):
    """It has more bytes than any file of its kind."""


def open_regular(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a regular file for reading, unbuffered; an OSError says what is wrong."""
    check_regular(path)  # first, because opening a device may already do something
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor), path)
        return io.FileIO(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bounded(path: str | os.PathLike[str], most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file; TooLargeError, without reading it, if it is huge."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            cause = f"it has {size:,} bytes, more than any real one ({most:,})"
            raise TooLargeError(errno.EINVAL, cause, os.fspath(path))
        return file.readall()


def check_regular(path: str | os.PathLike[str]) -> os.stat_result:
    """Return the status of a regular file; for libraries that open a file by its name."""
    status = os.stat(path)
    _check(status, path)
    return status


def is_folder(path: str) -> bool:
    """Return whether it is a folder, or a link to one; an OSError if that cannot be known."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def why_unusable(path: str | os.PathLike[str], error: OSError | None = None) -> str:
    """Return what is wrong with a name that is neither a file nor a folder, and what to do.

    `error` is what somebody met who looked at it; it may be gone by now.
    """
    if error is None:
        try:
            what = _what(os.stat(path))
            return f"is {what}, not a file on a disk; write what it gives to a file, and name that"
        except OSError as found:
            error = found
    if error.errno == errno.ELOOP:
        return "is a link that leads back to itself; remove it"
    if os.path.islink(path) and isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"is a broken link (to {os.readlink(path)}); remove it or mend it"
    return f"cannot be read: {error.strerror}"


def near_path(path: str) -> str:
    """Return a question that ends a message about a path that does not exist, or nothing: the
    nearest name in the first folder of it that does exist.

    >>> near_path("/dev/nul"), near_path("/no/such")
    ('; did you mean /dev/null?', '')
    """
    from difflib import SequenceMatcher, get_close_matches  # only messages need it

    def is_like(name: str) -> bool:  # not if only the endings are the same
        stem, own = (text.lstrip(".").partition(".")[0] for text in (name, gone.name))
        return SequenceMatcher(None, stem, own).ratio() >= _NEAR

    whole = gone = Path(os.path.normpath(os.path.expanduser(path)))
    while not os.path.isdir(gone.parent) and gone.parent != gone:
        gone = gone.parent
    try:
        names = [name for name in os.listdir(gone.parent) if is_like(name)]
        near = get_close_matches(gone.name, names, n=1, cutoff=_NEAR)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return ""
    if not near:
        return ""
    found = gone.with_name(near[0])
    there = found / whole.relative_to(gone)
    return f"; did you mean {there if os.path.exists(there) else found}?"


def _what(status: os.stat_result) -> str:
    """Return what it is if it is not a regular file, else ''."""
    what = _KINDS.get(stat.S_IFMT(status.st_mode), "")
    return "made by the kernel" if not what and status.st_dev in _kernel_devices() else what


def _check(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    what = _what(status)
    if what:
        raise NotRegularError(errno.EINVAL, f"it is {what}, not a file on a disk", os.fspath(path))


@lru_cache(maxsize=1)
def _kernel_devices() -> frozenset[int]:
    return frozenset(os.stat(place).st_dev for place in _KERNEL if os.path.ismount(place))
