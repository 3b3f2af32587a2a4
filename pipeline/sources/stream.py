"""Read the uncompressed bytes of a source in chunks.

    local file   builtin open, unbuffered, big reads
    URL          fsspec; s3://, gs:// and az:// by ranges (bucket_files.py)
    .gz, .zst …  decompressed (decompress.py)

Memory is bounded by the chunk size, and what a file may grow to by `max_ratio`. Knows nothing of
lines or records.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Protocol

from dataprep.pipeline.errors import DataprepError, InputError
from dataprep.pipeline.files import local_paths
from dataprep.pipeline.guards.opening import (
    NotRegularError,
    check_regular,
    open_regular,
    why_unusable,
)
from dataprep.pipeline.guards.secrets import address_of, is_lost
from dataprep.pipeline.sources.decompress import decompress
from dataprep.pipeline.sources.growth import Growth
from dataprep.pipeline.types import DEFAULT_MAX_RATIO, Source

UTF8_BOM = b"\xef\xbb\xbf"
# Longest first: the mark of little-endian UTF-32 starts with that of UTF-16.
_FOREIGN_BOMS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
# How compressed files begin: their name, their ending, and the program that decompresses them.
_COMPRESSED = (
    (re.compile(rb"\x1f\x8b"), "gzip", ".gz", "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd", ".zst", "zstd"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", ".xz", "xz"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bzip2", ".bz2", "bzip2"),
)

# What fsspec needs for a protocol, where that is not installed.
PACKAGES = {
    **dict.fromkeys(("http", "https"), "aiohttp requests"),
    **dict.fromkeys(("abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    "smb": "smbprotocol",
}


class File(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def seek(self, position: int, /) -> int: ...
    def close(self) -> None: ...


def is_url(path: str) -> bool:
    """Return whether it is a URL or a chain of them; a path from the root is neither.

    >>> is_url("s3://b/a.jsonl"), is_url("zip://a::b.zip"), is_url("/data/a::b.jsonl")
    (True, True, False)
    """
    return not path.startswith("/") and ("://" in path or "::" in path)


def renamed(path: str, change: Callable[[str], str]) -> str:
    """Return the path of a file beside another, whose name in the same place is changed.

    >>> renamed("a/b.ds", "{}.index".format), renamed("zip://b.ds::a.zip", "{}.index".format)
    ('a/b.ds.index', 'zip://b.ds.index::a.zip')
    """
    links = path.split("::") if is_url(path) else [path]
    named = (i for i, link in enumerate(links) if link.partition("://")[2])
    place = next(named, len(links) - 1)  # behind caches, and before archives
    links[place] = change(links[place])
    return "::".join(links)


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return the filesystem behind a URL by its public name, and the path in it."""
    if is_lost(url):
        raise InputError(f"the credentials of {url} are not recorded; name it with them")
    import fsspec

    from dataprep.pipeline.sources.guarded import guard_filesystems

    guard_filesystems()
    address = address_of(url)
    for place in local_paths(address):  # at once: some filesystems open a file when it is read
        if os.path.lexists(place) and not os.path.isdir(place):
            check_regular(place)
    filesystem, path = fsspec.url_to_fs(address)
    return filesystem, str(path)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Turn errors of opening or reading a file into InputErrors that name the file.

    Use only around calls into the file itself: a URL may raise any exception (each protocol has
    its own), and our own faults must not be taken for one of these.
    """
    try:
        yield
    except DataprepError:
        raise
    except NotRegularError as error:
        place = "" if error.filename == path else f"{error.filename} "
        raise InputError(f"cannot read {path}: {place}{why_unusable(error.filename)}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {_cause(error, path)}") from error
    except Exception as error:
        if not is_url(path):
            raise
        protocol = path.rpartition("::")[2].partition("://")[0]
        if isinstance(error, ImportError) and protocol in PACKAGES:
            needs = PACKAGES[protocol]
            raise InputError(
                f"cannot read {path}: {protocol} needs {needs.replace(' ', ' and ')}; "
                f"pip install {needs}"
            ) from error
        raise InputError(f"cannot read {path}: {type(error).__name__}: {error}") from error


def _cause(error: OSError, path: str) -> str:
    """Return what an error says; some stores say no more than the name of what they lack."""
    said = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and (not said or said.lstrip("/") in path):
        return "there is no such file"
    return said


def open_file(path: str) -> Any:
    """Open a seekable binary file; the caller closes it."""
    with naming(path):
        return _UrlFile(path) if is_url(path) else open_regular(path)


def is_there(path: str) -> bool:
    """Return whether something has this name, be it readable or not."""
    if not is_url(path):
        return os.path.lexists(path)
    with naming(path):
        filesystem, place = filesystem_of(path)
        return bool(filesystem.exists(place))


class _UrlFile(io.RawIOBase):
    """A file behind a URL; holds its filesystem, because an archive is closed without it."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._filesystem, path = filesystem_of(url)
        self._file = self._filesystem.open(path, "rb")

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(position, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            with suppress(Exception):  # blockcache:: over a local file; what was read is right
                self._file.close()
        super().close()


def check_encoding(head: bytes, path: str) -> None:
    """Refuse a file that starts with the mark of UTF-16 or UTF-32, or is compressed under the name
    of one that is not: no line of it is readable."""
    for mark, name in _FOREIGN_BOMS:
        if head.startswith(mark):
            raise InputError(
                f"{path} is {name}, but only UTF-8 can be read;"
                f" convert it: iconv -f {name} -t UTF-8 IN > OUT"
            )
    for start, name, ending, program in _COMPRESSED:
        if start.match(head):
            raise InputError(_compressed(path, name, ending, program))


def _compressed(path: str, name: str, ending: str, program: str) -> str:
    """Return what to say of a file that is compressed, which its name does not tell."""
    if path == "-":
        return (
            f"stdin (-) is compressed by {name}, but must be JSONL; decompress it on the way: "
            f"{program} -dc < IN | dataprep tokenize - …"
        )
    if path.endswith(ending):
        return f"{path} is compressed by {name} twice; decompress it once: {program} -dc IN > OUT"
    return (
        f"{path} is compressed by {name}, which its name does not say; "
        f"rename it to end in {os.path.splitext(path)[1]}{ending}"
    )


class ByteStream:
    """A context manager that iterates over the uncompressed bytes from `start` on.

    `stored_bytes` counts the bytes read from storage so far, compressed if the file is. `place`:
    the file to open, if `path` is only its name for messages.
    """

    def __init__(
        self,
        path: str,
        compression: str,
        *,
        start: int = 0,
        chunk_bytes: int,
        max_ratio: int = DEFAULT_MAX_RATIO,
        place: str = "",
    ) -> None:
        assert start == 0 or not compression
        self._max_ratio = max_ratio
        self.stored_bytes = 0
        self._path = path
        self._compression = compression
        self._chunk_bytes = chunk_bytes
        self._file: File = open_file(place or path)
        if start:
            with naming(path):
                self._file.seek(start)

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        if not self._compression:
            return self._stored()
        content = decompress(self._stored(), self._compression, self._path, self._chunk_bytes)
        return self._bounded(content)

    def _bounded(self, content: Iterator[bytes]) -> Iterator[bytes]:
        total = 0
        for chunk in content:
            total += len(chunk)
            Growth(place=self._path, stored=self.stored_bytes, max_ratio=self._max_ratio).check(
                total
            )
            yield chunk

    def _stored(self) -> Iterator[bytes]:
        while True:
            with naming(self._path):
                chunk = self._file.read(self._chunk_bytes)
            if not chunk:
                return
            self.stored_bytes += len(chunk)
            yield chunk


def open_stream(source: Source, *, chunk_bytes: int, start: int = 0) -> ByteStream:
    return ByteStream(
        source.path,
        source.compression,
        start=start,
        chunk_bytes=chunk_bytes,
        max_ratio=source.max_ratio,
        place=source.file,
    )
