"""`Objects`: a folder in a bucket.

    objects = open_objects("s3://bucket/packed")
    objects.put("shards/a", path)       e_tag; the object is there whole, or not at all
    objects.download("shards/a", path)  Written: size and hash of what has come
    objects.entries("shards/")          ObjectEntry(name="shards/a", num_bytes=…, e_tag=…)

Names are below the folder. Objects cannot be changed in part or renamed: `copy` is done by the
store, without the bytes coming here. An upload keeps the hash of its content as an attribute of the
object, which copies keep, too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.pipeline.errors import ConfigError, CorruptError, ResourceError
from dataprep.pipeline.files import NewFile, Written
from dataprep.pipeline.storage.objects.failures import (
    ChangedMeanwhileError,
    NoSuchObjectError,
    ThereAlreadyError,
    tried,
)
from dataprep.pipeline.storage.objects.stores import cleaned, new_store
from dataprep.pipeline.threads.several import in_threads

if TYPE_CHECKING:
    from concurrent.futures import Future

HASH = "xxh3128"  # an attribute's name: Azure takes letters and digits, nothing else everywhere
PIECE_BYTES = 8 << 20  # of what is read or written in parts
PIECES_AHEAD = 4  # while reading
PARTS_AT_ONCE = 10  # of an upload
_MOST_PARTS = 9000  # of one upload; stores take 10,000
_LARGEST_COPY = 5 << 30  # which S3 copies by itself
_DELETED_AT_ONCE = 1000
_DELETES = 16  # requests at once, where one is needed for each object
_LOOKS = 5  # at what is replaced while it is read
_SETTLING = (0.05, 0.2, 0.5, 1.0)  # seconds: what another writer is just putting may not be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEntry:
    name: str  # below the folder
    num_bytes: int
    e_tag: str  # changes with the object; "": the store has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """A folder in a bucket; threads may share it, processes may not."""

    url: str  # without credentials, without a slash at its end
    _store: Any = field(repr=False)

    def at(self, name: str) -> str:
        """Return the address of an object."""
        return f"{self.url}/{name}"

    def get(self, name: str) -> bytes:
        """Return the whole content."""
        import obstore

        read = tried(self.at(name), "read", lambda: obstore.get(self._store, name).bytes())
        return bytes(read)

    def get_range(self, name: str, first: int, size: int, *, e_tag: str = "") -> bytes:
        """Return that many bytes from `first` on, fewer at the end; with `e_tag`, of that object
        only."""
        import obstore

        if size <= 0:
            return b""
        options: Any = {"range": (first, first + size)}
        if e_tag:
            options["if_match"] = e_tag
        read = tried(
            self.at(name),
            "read",
            lambda: obstore.get(self._store, name, options=options).bytes(),
        )
        return bytes(read)

    def size_of(self, name: str) -> int:
        return self.entry(name).num_bytes

    def entry(self, name: str) -> ObjectEntry:
        import obstore

        found = tried(self.at(name), "look at", lambda: obstore.head(self._store, name))
        return _entry(name, found)

    def entry_and_hash(self, name: str) -> tuple[ObjectEntry, str]:
        """Return the hash that was kept with the object, too; "" if there is none."""
        import obstore

        found = tried(
            self.at(name),
            "look at",
            lambda: obstore.get(self._store, name, options={"head": True}),
        )
        return _entry(name, found.meta), str(found.attributes.get(HASH, ""))

    def pieces(self, entry: ObjectEntry, first: int = 0) -> Iterator[bytes]:
        """Yield the content from `first` on in pieces, some of which are fetched ahead."""
        starts = range(first, entry.num_bytes, PIECE_BYTES)

        def fetch(start: int) -> bytes:
            size = min(PIECE_BYTES, entry.num_bytes - start)
            return self.get_range(entry.name, start, size, e_tag=entry.e_tag)

        if len(starts) <= 1:
            yield from map(fetch, starts)
            return
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(PIECES_AHEAD)
        try:
            coming: deque[Future[bytes]] = deque()
            for start in starts:
                coming.append(pool.submit(fetch, start))
                if len(coming) >= PIECES_AHEAD:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def download(self, name: str, path: Path) -> Written:
        """Write the content durably to a local file; return its size and hash. What was damaged on
        its way, or replaced meanwhile, comes once more; CorruptError if it still has not the hash
        that was kept with it."""
        num_damaged = 0
        for _ in range(_LOOKS):
            entry, kept = self.entry_and_hash(name)
            file = NewFile(path)
            try:
                for piece in self.pieces(entry):
                    file.write(piece)
            except ChangedMeanwhileError:  # in many stores also if the same was put once more
                file.close()
                continue
            except BaseException:
                file.close()
                raise
            written = file.commit()
            if kept in ("", written.xxh3_128):
                return written
            path.unlink()
            num_damaged += 1
            if num_damaged == 2:
                raise CorruptError(
                    f"{self.at(name)} has another content than was put there; make it again"
                )
        raise ResourceError(
            f"{self.at(name)} changes whenever it is read; run the same command again when nothing "
            "writes to it"
        )

    def put(self, name: str, data: bytes | Path, *, xxh3_128: str = "") -> str:
        """Write an object whole, with the hash of its content beside it; return its e_tag."""
        import obstore

        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        result = self._written(
            name,
            lambda: obstore.put(
                self._store,
                name,
                data,
                attributes={HASH: xxh3_128} if xxh3_128 else None,
                # A multipart upload is three requests at least: small objects go in one.
                use_multipart=size > PIECE_BYTES,
                chunk_size=max(PIECE_BYTES, -(-size // _MOST_PARTS)),
                max_concurrency=PARTS_AT_ONCE,
            ),
            is_large=size > PIECE_BYTES,
        )
        return _quoted(result["e_tag"])

    def create(self, name: str, data: bytes) -> str:
        """Write an object if there is none of that name, else raise ThereAlreadyError; return its
        e_tag. That the very same is there already is no error: the answer to an earlier try may
        have been lost."""
        return self._put_if(name, data, "create")

    def replace(self, name: str, data: bytes, e_tag: str) -> str:
        """Write an object in the place of the one with that e_tag, else raise
        ChangedMeanwhileError; return the new e_tag."""
        mode = {"e_tag": e_tag}
        if self.url.startswith("gs:"):  # Google compares versions instead
            mode["version"] = self._version_of(name, e_tag)
        return self._put_if(name, data, mode)

    def _version_of(self, name: str, e_tag: str) -> str:
        import obstore

        found = tried(self.at(name), "look at", lambda: obstore.head(self._store, name))
        if _quoted(found["e_tag"]) != e_tag:
            raise ChangedMeanwhileError(f"{self.at(name)} was changed by another writer")
        return found["version"] or ""

    def _put_if(self, name: str, data: bytes, mode: Any) -> str:
        import obstore

        for pause in (*_SETTLING, None):
            try:
                result = self._written(
                    name,
                    lambda: obstore.put(self._store, name, data, mode=mode),
                    is_conditional=True,
                )
                return _quoted(result["e_tag"])
            except (ThereAlreadyError, ChangedMeanwhileError):
                try:
                    entry = self.entry(name)
                    if entry.num_bytes == len(data) and self.get(name) == data:
                        return entry.e_tag
                    raise
                except NoSuchObjectError:  # it is just being written, or was deleted
                    if pause is None:
                        raise ChangedMeanwhileError(
                            f"{self.at(name)} is being written by another writer"
                        ) from None
            time.sleep(pause)
        raise AssertionError("unreachable")

    def copy(self, name: str, to: str, num_bytes: int) -> None:
        """Copy an object of that size within the store, with its attributes."""
        import obstore

        if num_bytes <= _LARGEST_COPY:
            tried(self.at(name), "copy", lambda: obstore.copy(self._store, name, to))
            return

        def through_here() -> None:
            found = obstore.get(self._store, name)
            kept = dict(found.attributes)
            chunk = max(PIECE_BYTES, -(-num_bytes // _MOST_PARTS))
            obstore.put(self._store, to, found.stream(chunk), attributes=kept, chunk_size=chunk)

        tried(self.at(name), "copy", through_here)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there are no error."""

        listed = list(names)
        for start in range(0, len(listed), _DELETED_AT_ONCE):
            self._delete_some(listed[start : start + _DELETED_AT_ONCE])

    def _delete_some(self, names: list[str]) -> None:
        import obstore

        try:
            tried(self.at(names[0]), "delete", lambda: obstore.delete(self._store, names))
        except NoSuchObjectError:  # some stores stop there: each by itself
            if len(names) > 1:
                in_threads(lambda name: self._delete_some([name]), names, _DELETES)

    def entries(self, prefix: str = "") -> list[ObjectEntry]:
        """Return what is below a folder of this one, in the order of names; `prefix` ends in a
        slash."""
        import obstore

        assert not prefix or prefix.endswith("/"), "stores list whole folders only"

        def listed() -> list[ObjectEntry]:
            stream = obstore.list(self._store, prefix or None, chunk_size=1000)
            return [_entry(meta["path"], meta) for chunk in stream for meta in chunk]

        with self._bucket_named():
            found = tried(self.at(prefix), "list", listed)
        return _without_folders(found)

    def level(self, folder: str) -> tuple[list[str], list[ObjectEntry]]:
        """Return the folders in a folder, and what is in it itself."""
        import obstore

        with self._bucket_named():
            found = tried(
                self.at(folder),
                "list",
                lambda: obstore.list_with_delimiter(self._store, folder or None),
            )
        entries = [_entry(meta["path"], meta) for meta in found["objects"]]
        return list(found["common_prefixes"]), entries

    def check_bucket(self) -> None:
        """Raise a ConfigError if the bucket is not there or may not be listed."""
        import obstore

        with self._bucket_named():
            tried(
                self.url, "list", lambda: next(iter(obstore.list(self._store, chunk_size=1)), None)
            )

    def _written(self, name: str, call: Callable[[], Any], **how: bool) -> Any:
        with self._bucket_named():
            return tried(self.at(name), "write", call, **how)

    @contextmanager
    def _bucket_named(self) -> Iterator[None]:
        """Say of what is not there that it is the bucket: nothing else need be there."""
        try:
            yield
        except NoSuchObjectError:
            bucket = "/".join(self.url.split("/")[:3])
            raise ConfigError(
                f"{bucket} does not exist; make the bucket, or name another"
            ) from None


def open_objects(url: str) -> Objects:
    """Return a folder in a bucket; nothing is asked of the store yet."""
    address = cleaned(url)
    return Objects(url=address, _store=new_store(address))


def _entry(name: str, found: Any) -> ObjectEntry:
    return ObjectEntry(name=name, num_bytes=int(found["size"]), e_tag=_quoted(found["e_tag"]))


def _without_folders(found: Sequence[ObjectEntry]) -> list[ObjectEntry]:
    """Return the entries in the order of names, without the empty objects that consoles and some
    tools make for folders; the client lists these without the slash at their end."""
    folders = {""}
    for entry in found:
        folder = entry.name.rpartition("/")[0]
        while folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    own = (entry for entry in found if entry.num_bytes or entry.name not in folders)
    return sorted(own, key=lambda entry: entry.name)


def _quoted(e_tag: str | None) -> str:
    """Return an e_tag as requests have it; in Azure's listings it has no quotes.

    >>> _quoted('"0x1"'), _quoted("0x1"), _quoted(None)
    ('"0x1"', '"0x1"', '')
    """
    return e_tag if e_tag and '"' in e_tag else f'"{e_tag}"' if e_tag else ""
