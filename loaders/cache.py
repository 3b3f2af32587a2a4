"""A folder of files that were fetched from object stores, shared by the processes of a machine.

    ROOT/dataprep-cache          the mark: nothing is deleted below a folder that has none
    ROOT/lock                    held while files are counted, promised, added or evicted
    ROOT/files/3f09…             a file by the hash of its content, proven when it came
    ROOT/files/3f09….index       what comes with it
    ROOT/users/4711-a3           one for each that uses the folder, locked as long as it lives:
                                 {"next": {"3f09…": 12.5}, "coming": {"77ab…": 1048576}}
    ROOT/coming/4711-a3.77ab…    a file on its way

Files never take more than `num_bytes`, those on their way included. To make room, the file goes
whose next use is furthest, over all users; of equal ones, the last by name. A file that goes while
another process reads it stays readable there, since it is mapped. Whoever is killed leaves a file
in `users` that is not locked any more: who comes next clears up after it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Literal

from dataprep.pipeline.errors import ConfigError, CorruptError, ResourceError
from dataprep.pipeline.files import temporary

MARK = "dataprep-cache"
INDEX = ".index"
NOW = -1.0  # the next use of what somebody waits for
_TEXT = "Files that dataprep fetched from object stores. Delete this folder when nothing uses it.\n"

Promise = Literal["there", "coming", "mine", "full"]

_users = weakref.WeakSet["Cache"]()  # of this process


class Cache:
    """One user of such a folder; its threads share it."""

    def __init__(self, root: Path, num_bytes: int) -> None:
        self.root, self.num_bytes = root, num_bytes
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._next: dict[str, float] = {}
        self._coming: dict[str, int] = {}
        self.evicted: list[str] = []  # by this user, in order, since somebody took them from here
        self._mutex = threading.Lock()  # of this user's own file
        _make_root(root)
        with self._alone():
            self._enter()
            self._clear_orphans()
        _users.add(self)

    def _enter(self) -> None:
        """Tell others that this user lives, and what it needs."""
        path = self.root / "users" / self._name
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._leave = weakref.finalize(self, _leave, self._file, path, self.root)
        self._tell()

    def close(self) -> None:
        """Use the folder no more."""
        with self._mutex:
            self._leave()

    def path(self, name: str) -> Path:
        return self.root / "files" / name

    def arriving(self, name: str) -> Path:
        """Return where to write a file that was promised."""
        return self.root / "coming" / f"{self._name}.{name}"

    def index(self, name: str) -> bytes:
        """Return what comes with a file; a CorruptError if only that is gone."""
        try:
            return self.path(name + INDEX).read_bytes()
        except FileNotFoundError:
            if self.path(name).exists():  # it goes first when both are evicted
                raise CorruptError(f"{self.path(name + INDEX)} is gone") from None
            raise

    def discard(self, name: str) -> None:
        """Remove a file, and then what comes with it."""
        _remove(self.path(name))
        _remove(self.path(name + INDEX))

    def names(self) -> set[str]:
        """Return the names of all files, and of what comes with them."""
        try:
            return set(os.listdir(self.root / "files"))
        except FileNotFoundError:
            return set()

    def present(self) -> dict[str, int]:
        """Return the bytes of each file, with what comes with it."""
        found: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self.root / "files") as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    name = entry.name.removesuffix(INDEX)
                    found[name] = found.get(name, 0) + entry.stat().st_size
        return found

    def plan(self, next_use: Mapping[str, float]) -> None:
        """Tell all users how far away the next use of files is; those that are not told have
        none. What is too much, as after another bound, goes."""
        with self._locked():
            self._next = dict(next_use)
            self._tell()
            self._make_room(0, (), NOW)

    def promise(self, name: str, num_bytes: int, keep: Collection[str], next_use: float) -> Promise:
        """Say what is to be done about a file that is wanted: it is there, another process fetches
        it, it is mine to fetch, or there is no room for it now.

        Files that are used later make room for it, but none of `keep`; for what is waited for
        (NOW), any but those."""
        with self._locked():
            if self.path(name).exists():
                return "there"
            users = self._users()
            if any(name in coming for _, coming in users):
                return "coming"
            if not self._make_room(num_bytes, keep, next_use):
                return "full"
            self._coming[name] = num_bytes
            self._tell()
            return "mine"

    def arrived(self, name: str, index: bytes) -> None:
        """Add a file that was promised and is written, with what comes with it."""
        with self._locked():
            self.path(name + INDEX).write_bytes(index)  # first: it is looked for by the other
            os.replace(self.arriving(name), self.path(name))
            self._coming.pop(name, None)
            self._tell()

    def failed(self, name: str) -> None:
        """Take a promise back."""
        with self._locked():
            for path in (self.arriving(name), temporary(self.arriving(name))):
                _remove(path)
            self._coming.pop(name, None)
            self._tell()

    def _clear_orphans(self) -> None:
        """Remove files on their way to somebody who is gone: a download may outlive its user."""
        users = set(os.listdir(self.root / "users"))
        for name in os.listdir(self.root / "coming"):
            if name.partition(".")[0] not in users:
                _remove(self.root / "coming" / name)

    def _make_room(self, num_bytes: int, keep: Collection[str], next_use: float) -> bool:
        """Evict what may go until there is room; return whether there is."""
        present, users = self.present(), self._users()
        coming = sum(sum(own.values()) for _, own in users)
        free = self.num_bytes - coming - sum(present.values())
        if free < num_bytes:
            for victim in self._victims(present, users, keep, next_use):
                self._evict(victim)
                free += present[victim]
                if free >= num_bytes:
                    break
        return free >= num_bytes

    def _victims(
        self,
        present: Mapping[str, int],
        users: list[tuple[dict[str, float], dict[str, int]]],
        keep: Collection[str],
        next_use: float,
    ) -> Iterator[str]:
        """Yield the files that may go for one that is used next then, the furthest first."""
        uses = {
            name: min((own.get(name, inf) for own, _ in users), default=inf) for name in present
        }
        for name in sorted(present, key=lambda one: (uses[one], one), reverse=True):
            if name not in keep and (uses[name] > next_use or next_use == NOW):
                yield name

    def _evict(self, name: str) -> None:
        self.discard(name)
        self.evicted.append(name)

    def _users(self) -> list[tuple[dict[str, float], dict[str, int]]]:
        """Return the plans and promises of all that live, and clear up after others."""
        found = [(self._next, self._coming)]
        for entry in list(os.scandir(self.root / "users")):
            if entry.name == self._name:
                continue
            if _is_alive(entry.path):
                with suppress(OSError, ValueError):
                    told = json.loads(Path(entry.path).read_bytes() or b"{}")
                    found.append((told.get("next", {}), told.get("coming", {})))
                continue
            for left in (self.root / "coming").glob(f"{entry.name}.*"):
                _remove(left)
            _remove(Path(entry.path))
        return found

    def _tell(self) -> None:
        # In place: the lock is of this very file, and who reads it holds the other lock.
        text = json.dumps({"next": self._next, "coming": self._coming}).encode()
        with self._mutex:
            if self._leave.alive:
                os.pwrite(self._file, text, 0)
                os.ftruncate(self._file, len(text))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; if somebody removed the folder, make it anew."""
        if self._leave.alive:
            _make_root(self.root)
        with self._alone():
            if self._leave.alive and not (self.root / "users" / self._name).exists():
                self.let_go()
                self._enter()
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            file = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
            finally:
                # If it were only closed, a process forked meanwhile would keep it locked.
                fcntl.flock(file, fcntl.LOCK_UN)
                os.close(file)
        except OSError as error:
            raise ResourceError(f"cannot use the cache {self.root}: {error.strerror}") from None

    def let_go(self) -> None:
        """Close the file that says that this user lives: it was removed, or this process was
        forked from the user's."""
        if self._leave.detach() is not None:
            os.close(self._file)


def _make_root(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / MARK).is_file():
            # Marked by the first of several processes: the names of the others are known.
            known = {MARK, "lock", "users", "files", "coming"}
            strange = sorted({entry.name for entry in os.scandir(root)} - known)
            if strange:
                raise ConfigError(
                    f"the cache {root} is not empty and not a cache of dataprep (it has "
                    f"{strange[0]}); name a new folder, whose files may be deleted"
                )
            (root / MARK).write_text(_TEXT)
        for name in ("users", "files", "coming"):
            (root / name).mkdir(exist_ok=True)
    except FileNotFoundError:
        raise ResourceError(f"the cache {root} was removed just now; leave it alone") from None
    except OSError as error:
        raise ConfigError(f"cannot make the cache {root}: {error.strerror}; name another") from None


def _is_alive(path: str) -> bool:
    """Return whether the user whose file this is lives: it holds a lock on it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _leave(file: int, path: Path, root: Path) -> None:
    with suppress(OSError):
        for left in (root / "coming").glob(f"{path.name}.*"):
            _remove(left)
    _remove(path)
    with suppress(OSError):
        os.close(file)


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def _let_go() -> None:
    for user in list(_users):
        user.let_go()


os.register_at_fork(after_in_child=_let_go)
