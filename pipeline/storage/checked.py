"""Read the files of a dataset only if they are what its manifest lists.

    check_file      a plain file of the right size and hash
    whole_while     the same, and nothing writes to it while something else reads it
    watching        the same of files that become known one by one
    read_whole      the bytes of a small file, by their hash
    read_array      the array in an .npy file, whose type and length the caller knows, and its hash
    read_items      some items of such an array, if the file was checked before
    map_array       all of it, mapped: for files that are large, and checked before

A read of a map whose file was cut short ends the process: what is read once is not mapped.

A dataset holds its files itself: a link is refused even where it leads to the right bytes, since
these may be changed or removed without anyone thinking of the dataset.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.hashes import hash_bytes, hash_file
from dataprep.pipeline.storage.kinds import AnyFile
from dataprep.pipeline.types import Offsets

AGAIN = (
    "make the dataset again: with --overwrite, or, if dataprep run made it, move its folder away "
    "and run again"
)
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_FIRST = len(_NPY_MAGIC) + 2  # the magic, then the length of the header in two bytes


def check_file(folder: Path, entry: AnyFile, between: Callable[[], None] | None = None) -> None:
    """Raise CorruptError unless a file of the dataset in `folder` is as its manifest lists it.

    `between` is called now and then while it is read, and may raise to end it.
    """
    path = folder / entry.path
    check_size(folder, entry)
    try:
        digest = hash_file(path, between)
    except OSError as error:
        raise CorruptError(f"{path} cannot be read: {error.strerror}") from None
    check_hash(path, entry, digest)


class CheckedFiles:
    """Files that were checked, and that nothing may write to while they are read."""

    def __init__(self) -> None:
        self._states: list[tuple[Path, AnyFile, tuple[int, int, int]]] = []

    def check(self, folder: Path, entry: AnyFile) -> None:
        """Check a file that is read from now on."""
        self._states.append((folder, entry, state_of(folder, entry)))
        check_file(folder, entry)

    def check_unchanged(self) -> None:
        for folder, entry, state in self._states:
            if state_of(folder, entry) != state:
                raise CorruptError(
                    f"{folder / entry.path} changed while it was read; run the same command again "
                    "when nothing writes to it"
                )


@contextmanager
def watching() -> Iterator[CheckedFiles]:
    """CheckedFiles the files that the body checks; CorruptError if one has changed when it ends.

    What is made of other bytes may fail in any way: then too the change is what went wrong.
    """
    watch = CheckedFiles()
    try:
        yield watch
    except Exception:
        watch.check_unchanged()
        raise
    watch.check_unchanged()


@contextmanager
def whole_while(folder: Path, *entries: AnyFile) -> Iterator[None]:
    """Check files before the body reads them, and that nothing has written to them when it ends."""
    with watching() as watch:
        for entry in entries:
            watch.check(folder, entry)
        yield


def state_of(folder: Path, entry: AnyFile) -> tuple[int, int, int]:
    """Return what is different after the file was written to or replaced; raise CorruptError if it
    is no plain file of the right size."""
    found = check_size(folder, entry)
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def check_hash(path: Path, entry: AnyFile, digest: str) -> None:
    """Raise CorruptError unless the hash that was found is the one of the manifest."""
    if digest != entry.xxh3_128:
        raise CorruptError(
            f"{path} is damaged: its xxh3-128 is {digest}, its manifest says {entry.xxh3_128}; "
            f"copy it again from where it is whole, or {AGAIN}"
        )


def check_size(folder: Path, entry: AnyFile) -> os.stat_result:
    """Raise CorruptError unless it is a plain file of the right size; return its state."""
    path = folder / entry.path
    try:
        above = [part for part in path.parents if part != folder and part.is_relative_to(folder)]
        is_link = any(part.is_symlink() for part in (path, *above))
        found = path.lstat()
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        cause = "is missing" if is_gone else f"cannot be read: {error.strerror}"
        raise CorruptError(f"{path} {cause}; {AGAIN}") from None
    if is_link or not stat.S_ISREG(found.st_mode):
        what = "is or lies behind a link" if is_link else "is not a file"
        raise CorruptError(f"{path} {what}; a dataset must hold its files itself")
    if found.st_size != entry.num_bytes:
        raise CorruptError(
            f"{path} has {found.st_size} bytes, the manifest says {entry.num_bytes}; " + AGAIN
        )
    return found


# --- arrays ---


def read_whole(folder: Path, entry: AnyFile) -> bytes:
    """Return the bytes of a file, which have the hash of the manifest."""
    path = folder / entry.path
    data = _read(folder, entry)
    check_hash(path, entry, hash_bytes(data))
    return data


def _read(folder: Path, entry: AnyFile) -> bytes:
    path = folder / entry.path
    check_size(folder, entry)
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorruptError(f"{path} cannot be read: {error.strerror}") from None


def read_array(
    folder: Path,
    entry: AnyFile,
    dtype: np.dtype[Any],
    length: int | None = None,
    *,
    is_hashed: bool = True,
) -> NDArray[Any]:
    """Return the array of an .npy file, whose bytes have the hash of the manifest if it is asked
    for; None: of any length."""
    data = read_whole(folder, entry) if is_hashed else _read(folder, entry)
    return array_in(folder / entry.path, data, dtype, length)


def array_in(
    path: Path, data: bytes, dtype: np.dtype[Any], length: int | None = None
) -> NDArray[Any]:
    """Return the array in the bytes of an .npy file; None: of any length."""
    start = _start_in(data[:_NPY_FIRST])
    found = _checked_length(path, data[:start], len(data), dtype, length)
    return np.frombuffer(data, dtype, found, start)


def length_in(data: bytes, dtype: np.dtype[Any]) -> int | None:
    """Return the length that the first bytes of an .npy file tell; None: of another type."""
    head = data[: _start_in(data[:_NPY_FIRST])]
    found = _length_in(head[_NPY_FIRST:], dtype) if head.startswith(_NPY_MAGIC) else -1
    return None if found < 0 else found


def map_array(
    folder: Path, entry: AnyFile, dtype: np.dtype[Any], length: int | None = None
) -> NDArray[Any]:
    """Return the array of an .npy file, mapped; None: of any length."""
    path = folder / entry.path
    with _opened_array(path, dtype, length) as (file, found):
        if not found:
            return np.zeros(0, dtype)
        # A plain array over the map: indexing np.memmap itself is far slower.
        return np.asarray(np.memmap(path, dtype, "r", file.tell(), (found,)))


def read_items(
    folder: Path, entry: AnyFile, dtype: np.dtype[Any], length: int, numbers: Offsets
) -> NDArray[Any]:
    """Return the items with these numbers; all from the first to the last of them are read."""
    if not len(numbers):
        return np.zeros(0, dtype)
    path = folder / entry.path
    first, stop = int(numbers.min()), int(numbers.max()) + 1
    with _opened_array(path, dtype, length) as (file, _):
        file.seek(first * dtype.itemsize, os.SEEK_CUR)
        data = file.read((stop - first) * dtype.itemsize)
    if len(data) != (stop - first) * dtype.itemsize:
        raise CorruptError(f"{path} was cut short while it was read; make the dataset again")
    return np.frombuffer(data, dtype)[numbers - first]


@contextmanager
def _opened_array(
    path: Path, dtype: np.dtype[Any], length: int | None
) -> Iterator[tuple[IO[bytes], int]]:
    """Open an .npy file; yield it where its items start, and how many it has."""
    try:
        with open(path, "rb") as file:
            first = file.read(_NPY_FIRST)
            head = first + file.read(_start_in(first) - _NPY_FIRST)
            num_bytes = os.fstat(file.fileno()).st_size
            yield file, _checked_length(path, head, num_bytes, dtype, length)
    except OSError as error:
        raise CorruptError(f"{path} cannot be read: {error.strerror}") from None


def _start_in(first: bytes) -> int:
    """Return the byte at which the array of an .npy file starts, by its first bytes."""
    return _NPY_FIRST + int.from_bytes(first[len(_NPY_MAGIC) :], "little")


def _checked_length(
    path: Path, head: bytes, num_bytes: int, dtype: np.dtype[Any], length: int | None
) -> int:
    """Return the length of the array that follows `head`; raise CorruptError unless it fits.

    Nothing in the file decides what is read but the length, which the size of the file must fit.
    """
    found = _length_in(head[_NPY_FIRST:], dtype) if head.startswith(_NPY_MAGIC) else -1
    if found < 0 or num_bytes != len(head) + found * dtype.itemsize:
        raise CorruptError(f"{path} is damaged: it does not hold an array of {dtype}")
    if length is not None and found != length:
        raise CorruptError(f"{path} has a length of {found:,}, by its manifest it is {length:,}")
    return found


def _length_in(header: bytes, dtype: np.dtype[Any]) -> int:
    """Return the length of an array of this type, by the header of its file; -1: another type."""
    descr = re.escape(repr(np.lib.format.dtype_to_descr(dtype)).encode())
    text = rb"\{'descr': " + descr + rb", 'fortran_order': False, 'shape': \(([0-9]{1,15}),\), \}"
    match = re.fullmatch(text + rb" *\n", header)
    return int(match[1]) if match else -1
