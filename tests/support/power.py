"""Power loss: replay what a run asked of the disk, keep only what must, or may, be on it.

    calls       what a run did, as `recorded` has it
    Disk        files and folders, each as the program sees it and as it is durable
    worlds      after every operation: what a disk may hold if the power fails right then

                             names (entries of folders)      content of files
        strict               of the last fsync of a folder   of the last fsync of a file
        names first          all                             what was not synced is gone: empty
        sizes first          all                             what was not synced is zeros
        data first           of the last fsync               all
        in between           of an earlier moment, and       pages of 4 KiB, each there or zeros
                             what was synced since

POSIX promises no more than `strict`; journaling file systems write the others too. A program is
right if it can go on from each of them. Replaying everything must give the folder that the run
left, or the record is not to be trusted: `check_record` asserts that.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from support.recorded import Call
from support.trees import tree

PAGE = 4096

# --- the disk ---


@dataclass(eq=False, slots=True)
class File:
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""

    def sync(self) -> None:
        self.durable = bytes(self.data)


@dataclass(eq=False, slots=True)
class Folder:
    entries: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    past: list[dict[str, File | Folder]] = field(default_factory=list)  # after each call
    synced_at: int = -1  # the number of that call

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.synced_at = len(self.past)


class Disk:
    """Files below one folder, as a program sees them and as they are durable."""

    def __init__(self) -> None:
        self.root = Folder()
        self._folders = [self.root]
        self._positions: dict[tuple[int, int], int] = {}  # by descriptor and file
        self._doers = {
            "open": self._open,
            "write": self._write,
            "lseek": self._seek,
            "truncate": self._truncate,
            "rename": self._rename,
            "remove": self._remove,
            "mkdir": self._mkdir,
            "sync": self._sync,
        }

    def apply(self, call: Call) -> None:
        self._doers[call.name](call)
        for folder in self._folders:
            folder.past.append(dict(folder.entries))

    def _find(self, path: str) -> File | Folder | None:
        node: File | Folder | None = self.root
        for part in Path(path).parts:
            node = node.entries.get(part) if isinstance(node, Folder) else None
        return node

    def _file(self, path: str) -> File | None:
        """Return the file; None if it was removed while it was open."""
        node = self._find(path.removesuffix(" (deleted)"))
        return node if isinstance(node, File) else None

    def _place(self, path: str) -> tuple[dict[str, File | Folder], str]:
        folder = self._find(os.path.dirname(path))
        assert isinstance(folder, Folder), path
        return folder.entries, os.path.basename(path)

    def _open(self, call: Call) -> None:
        entries, name = self._place(call.paths[0])
        file = entries.get(name)
        if isinstance(file, Folder):
            return
        if file is None:
            file = entries[name] = File()
        if "O_TRUNC" in call.flags:
            file.data.clear()
        start = len(file.data) if "O_APPEND" in call.flags else 0
        self._positions[call.descriptor, id(file)] = start

    def _write(self, call: Call) -> None:
        file = self._file(call.paths[0])
        if file is None:
            return
        key = call.descriptor, id(file)
        start = self._positions.get(key, 0) if call.number < 0 else call.number
        file.data.extend(bytes(max(0, start - len(file.data))))
        file.data[start : start + len(call.data)] = call.data
        if call.number < 0:
            self._positions[key] = start + len(call.data)

    def _seek(self, call: Call) -> None:
        file = self._file(call.paths[0])
        if file is not None:
            self._positions[call.descriptor, id(file)] = call.number

    def _truncate(self, call: Call) -> None:
        file = self._file(call.paths[0])
        if file is not None:
            del file.data[call.number :]
            file.data.extend(bytes(call.number - len(file.data)))

    def _rename(self, call: Call) -> None:
        (source, old), (target, new) = map(self._place, call.paths)
        target[new] = source.pop(old)

    def _remove(self, call: Call) -> None:
        entries, name = self._place(call.paths[0])
        del entries[name]

    def _mkdir(self, call: Call) -> None:
        entries, name = self._place(call.paths[0])
        folder = Folder(past=[{}] * len(self.root.past))
        entries[name] = folder
        self._folders.append(folder)

    def _sync(self, call: Call) -> None:
        node = self._find(call.paths[0])
        if node is not None:
            node.sync()


# --- what may be left ---

World = Mapping[str, bytes | None]  # by path; None is a folder


def world_of(disk: Disk, kind: str, rng: random.Random) -> dict[str, bytes | None]:
    """Return one of the states that a disk may be in if the power fails now."""
    moment = rng.randint(0, max(len(disk.root.past) - 1, 0))

    def names(folder: Folder) -> Mapping[str, File | Folder]:
        if kind in ("strict", "data first"):
            return folder.durable
        if kind != "in between":
            return folder.entries
        at = max(moment, folder.synced_at)
        return folder.past[at] if at < len(folder.past) else folder.entries

    def content(file: File) -> bytes:
        current = bytes(file.data)
        if kind in ("data first", "killed"):
            return current
        if kind in ("strict", "names first") or current == file.durable:
            return file.durable
        pages = range(0, len(current), PAGE)
        kept = [kind == "in between" and rng.random() < 0.5 for _ in pages]
        old = file.durable.ljust(len(current), b"\0")
        chosen = (current if keep else old for keep in kept)
        return b"".join(whole[p : p + PAGE] for p, whole in zip(pages, chosen, strict=True))

    found: dict[str, bytes | None] = {}

    def walk(folder: Folder, prefix: str) -> None:
        for name, node in sorted(names(folder).items()):
            if isinstance(node, Folder):
                found[f"{prefix}{name}"] = None
                walk(node, f"{prefix}{name}/")
            else:
                found[f"{prefix}{name}"] = content(node)

    walk(disk.root, "")
    return found


WORLDS = ("strict", "names first", "sizes first", "data first", "in between")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What the disk holds if the power fails after a call."""

    number: int  # of the call, from 1; 0: before the first
    call: str
    kind: str  # of WORLDS
    world: World

    @property
    def name(self) -> str:
        return f"{self.kind}, after call {self.number} ({self.call})"


def losses(calls: Sequence[Call], *, seed: int = 0) -> Iterator[Loss]:
    """Yield every different state that a disk may be in, at every moment of the run."""
    disk, rng, seen = Disk(), random.Random(seed), set()
    for number, call in enumerate(calls, 1):
        disk.apply(call)
        for kind in WORLDS if call.name != "lseek" else ():
            world = world_of(disk, kind, rng)
            mark = _fingerprint(world)
            if mark not in seen:
                seen.add(mark)
                place = f"{call.name} {' '.join(call.paths)}"
                yield Loss(number=number, call=place, kind=kind, world=world)


def state_after(calls: Sequence[Call], kind: str) -> dict[str, bytes | None]:
    """Return what the disk holds after these calls; of the kind `killed`, all that was written."""
    disk = Disk()
    for call in calls:
        disk.apply(call)
    return world_of(disk, kind, random.Random(0))


def check_record(calls: Sequence[Call], root: Path) -> None:
    """Fail unless replaying everything gives what the run left."""
    replayed = state_after(calls, "killed")
    assert {n: d for n, d in replayed.items() if d is not None} == tree(root)


def write_world(world: World, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, data in world.items():
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)
    return folder


def _fingerprint(world: World) -> str:
    state = xxhash.xxh3_128()
    for name, data in world.items():
        state.update(f"{name}\0{'/' if data is None else len(data)}\0".encode())
        state.update(data or b"")
    return state.hexdigest()
