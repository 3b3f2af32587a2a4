"""Inputs in buckets, read by ranges: s3://, gs:// and az:// for fsspec, on `storage.objects`.

    lines, compressed     one range after another, the next ones ahead: more, the longer it lasts
    Parquet, archives     the ranges that are asked for, some bytes around small ones

A file is the one that was found: if it is replaced while it is read, that is an error. Other stores
are fsspec's.
"""

from __future__ import annotations

import io
import os
import re
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from fsspec.spec import AbstractFileSystem

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.storage.objects import (
    SCHEMES,
    ChangedMeanwhileError,
    NoSuchObjectError,
    ObjectEntry,
    Objects,
    open_objects,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

LEAST_BYTES = 64 << 10  # of a request: footers and headers are read in many small steps
PIECE_BYTES = 4 << 20
MOST_AHEAD = 16 << 20
_VERSION = re.compile(r"\?(versionId|generation|snapshot)=")
_NAMED_BY = ("AWS_", "GOOGLE_", "AZURE_", "DATAPREP_RETRY")


class BucketFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The buckets of one scheme; knows what listings have told until the cache is invalidated."""

    scheme: ClassVar[str] = ""
    sep = "/"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._known: dict[str, tuple[int, str]] = {}  # sizes and e_tags: there may be a million

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = os.fspath(path)
        for scheme in SCHEMES:
            text = text.removeprefix(f"{scheme}://")
        return text.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"{self.scheme}://{self._strip_protocol(name)}"

    def invalidate_cache(self, path: str | None = None) -> None:
        self._known.clear()

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        bucket, _, key = self._strip_protocol(path).partition("/")
        folders, files = self._objects(bucket).level(key)
        found = [self._file(bucket, entry) for entry in files]
        found += [{"name": f"{bucket}/{n}", "size": 0, "type": "directory"} for n in folders]
        if not found:
            found = [self.info(path)]  # a file; an error if there is nothing
        return found if detail else [each["name"] for each in found]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **options: Any,
    ) -> Any:
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth, withdirs, detail, **options)
        bucket, _, key = self._strip_protocol(path).partition("/")
        entries = self._objects(bucket).entries(f"{key}/" if key else "")
        files = {each["name"]: each for each in (self._file(bucket, e) for e in entries)}
        return files if detail else [*files]

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        if name in self._known:
            return _info(name, *self._known[name])
        bucket, _, key = name.partition("/")
        objects = self._objects(bucket)
        if _VERSION.search(key):
            raise InputError(
                f"{objects.at(key)} names a version of an object; copy that, and name it"
            )
        try:
            return self._file(bucket, objects.entry(key)) if key else _folder(name)
        except NoSuchObjectError:
            if any(objects.level(key)):
                return _folder(name)
            raise FileNotFoundError(name) from None

    def _open(self, path: str, mode: str = "rb", **options: Any) -> BucketFile:
        assert mode == "rb", "inputs are only read"
        info = self.info(path)
        bucket, _, key = self._strip_protocol(path).partition("/")
        entry = ObjectEntry(name=key, num_bytes=info["size"], e_tag=info["ETag"])
        return BucketFile(self._objects(bucket), entry)

    def _objects(self, bucket: str) -> Objects:
        named = ((k, v) for k, v in os.environ.items() if k.startswith(_NAMED_BY))
        return _objects(f"{self.scheme}://{bucket}", tuple(sorted(named)))

    def _file(self, bucket: str, entry: ObjectEntry) -> dict[str, Any]:
        name = f"{bucket}/{entry.name}"
        self._known[name] = entry.num_bytes, entry.e_tag
        return _info(name, entry.num_bytes, entry.e_tag)


@lru_cache(maxsize=16)
def _objects(url: str, environment: tuple[tuple[str, str], ...]) -> Objects:
    return open_objects(url)


def _info(name: str, size: int, e_tag: str) -> dict[str, Any]:
    """Return what a fingerprint is made of: not the time, since an equal copy is the same file."""
    return {"name": name, "size": size, "type": "file", "ETag": e_tag}


def _folder(name: str) -> dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


class BucketFile(io.RawIOBase):
    """An object, read by ranges, ahead of a reader who goes straight on."""

    def __init__(self, objects: Objects, entry: ObjectEntry) -> None:
        super().__init__()
        self._objects, self._entry = objects, entry
        self._place = 0
        self._held, self._held_at = b"", 0
        self._ahead = 0  # bytes to fetch ahead; 0: the reader has not gone straight on yet
        self._coming: deque[tuple[int, Future[bytes]]] = deque()  # with where each begins
        self._pool: Any = None

    def read(self, size: int = -1) -> bytes:
        left = max(self._entry.num_bytes - self._place, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        parts: list[bytes] = []
        while wanted:
            part = self._some(wanted)
            parts.append(part)
            self._place += len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._entry.num_bytes}
        self._place = max(base[whence] + position, 0)
        return self._place

    def tell(self) -> int:
        return self._place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._forget()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        super().close()

    def _some(self, wanted: int) -> bytes:
        """Return at least one byte from the place on, and at most so many."""
        start = self._place - self._held_at
        if not 0 <= start < len(self._held):
            self._hold(wanted)
            start = self._place - self._held_at
        if start == 0 and len(self._held) <= wanted:
            return self._held
        return self._held[start : start + wanted]

    def _hold(self, wanted: int) -> None:
        """Have the range with the place at hand."""
        goes_on = self._place == self._held_at + len(self._held) and self._held_at + self._place > 0
        if not goes_on:
            self._forget()
        if self._coming and self._coming[0][0] == self._place:
            self._held_at, future = self._coming.popleft()
            self._held = future.result()
        else:
            self._forget()
            self._held, self._held_at = (
                self._fetch(self._place, max(wanted, LEAST_BYTES)),
                self._place,
            )
        self._ahead = min(max(2 * self._ahead, len(self._held)), MOST_AHEAD) if goes_on else 0
        self._fetch_ahead()

    def _fetch_ahead(self) -> None:
        end = self._held_at + len(self._held)
        last = min(end + self._ahead, self._entry.num_bytes)
        for start in range(self._fetched_to(end), last, PIECE_BYTES):
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(MOST_AHEAD // PIECE_BYTES)
            self._coming.append((start, self._pool.submit(self._fetch, start, PIECE_BYTES)))

    def _fetched_to(self, end: int) -> int:
        return self._coming[-1][0] + PIECE_BYTES if self._coming else end

    def _fetch(self, start: int, size: int) -> bytes:
        size = min(size, self._entry.num_bytes - start)
        try:
            data = self._objects.get_range(self._entry.name, start, size, e_tag=self._entry.e_tag)
        except (ChangedMeanwhileError, NoSuchObjectError):
            data = b""
        if len(data) != size:
            raise InputError(
                f"{self._objects.at(self._entry.name)} was replaced or removed while it was read; "
                "run again when nothing writes to it"
            )
        return data

    def _forget(self) -> None:
        for _, future in self._coming:
            future.cancel()
        self._coming.clear()
        self._ahead = 0


# fsspec keeps filesystems by their class and options, so each scheme has a class.
BUCKETS = {
    scheme: type(f"{store.upper()}Files", (BucketFiles,), {"scheme": store, "protocol": scheme})
    for scheme, store in SCHEMES.items()
}
