"""The folder of a dataset while it is made: its lock, and whether a run can be continued.

out/.work/identity.json     inputs and config of the unfinished run
out/.work/…                 its plan and what it has committed
out/manifest.json           the dataset is complete; .work is removed
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, ConflictError, LockedError, short
from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.guards.opening import why_unusable
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.commits import TASKS, has_commits
from dataprep.pipeline.jobs.ownership import (
    check_ours,
    check_plain,
    make_work,
    remove_dataset,
)
from dataprep.pipeline.storage.checked import check_size
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, Manifest, files_of, read_manifest

IDENTITY = "identity.json"
LONGEST_NAME = 100  # of a file in the work folder
WORK_VERSION = 6  # of plans and markers: changes with them, so that no run reads those of others

Identity = Mapping[str, Any]


@contextmanager
def locked(out: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock the folder for this process; the kernel unlocks it, however the process ends.

    `wait` for another run to end; else that is a LockedError.
    """
    try:
        make_folder(out)
        descriptor = os.open(out, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EIO:
            raise
        raise ConfigError(f"cannot use --out {out}: {error.strerror}; name another") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            who = _holder(descriptor)
            raise LockedError(f"another run holds {out}; wait for it or stop it ({who})") from None
        except OSError as error:  # some network disks have no locks, or none for folders
            raise ConfigError(
                f"cannot lock --out {out}: {error.strerror}; name a folder on a disk with locks"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Return who has the lock, as the kernel lists it: process 4711 on host: dataprep …"""
    inode = str(os.fstat(descriptor).st_ino)
    with suppress(OSError), open("/proc/locks", encoding="ascii") as file:
        for line in file:  # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:2375681 0 EOF
            words = line.split()
            if "FLOCK" in words and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
                command = Path(f"/proc/{words[4]}/cmdline").read_bytes().decode(errors="replace")
                shown = short(redacted(" ".join(command.split("\0")).strip()), 100)
                return f"process {words[4]} on {os.uname().nodename}: {shown}"
    return "its process is not known here; it may be on another machine"


def check_out(name: str) -> Path:
    """Return the output folder; refuse one that cannot be used."""
    if not name:
        raise ConfigError("no output folder; set --out")
    if "://" in name:
        raise ConfigError(f"--out {name} must be a local folder; copy it there afterwards")
    try:
        name.encode()  # errors, logs and the manifest name it
    except UnicodeEncodeError:
        raise ConfigError(f"the name of --out {name!a} is not UTF-8; name another") from None
    out = Path(os.path.expanduser(name))  # as inputs are: a shell leaves --out=~/data as it is
    try:
        for folder in (out, *out.parents):
            if folder.is_symlink() and not folder.exists():
                raise ConfigError(f"cannot use --out {name}: {folder} {why_unusable(folder)}")
        _check_room_for_names(out)
        if out.exists() and not out.is_dir():
            raise ConfigError(f"--out {out} is a file; name a folder")
        if out.is_dir() and not (out / MANIFEST).exists():
            with locked(out):  # another run may be making or removing it
                check_ours(out)
    except OSError as error:
        raise ConfigError(f"cannot use --out {name}: {error.strerror}; name another") from None
    return out


def _check_room_for_names(out: Path) -> None:
    """Raise OSError if paths of files below the folder would be longer than the system allows."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.lstat(os.path.abspath(out / WORK / TASKS / ("-" * LONGEST_NAME)))


def complete_manifest(out: Path, identity: Identity, names: Sequence[str]) -> Manifest | None:
    """Return the manifest if the dataset is finished, else None; another identity is a conflict."""
    if not (out / MANIFEST).exists():
        return None
    manifest = read_manifest(out)
    if manifest.fingerprint != fingerprint(identity):
        changes = difference(manifest.identity, identity, names)
        raise ConflictError(
            f"{out} was made from something else ({changes}); "
            "name another --out, or replace it with --overwrite"
        )
    for entry in files_of(manifest):
        check_size(out, entry)
    return manifest


def refuse_other_run(
    out: Path, identity: Identity, names: Sequence[str], *, may_change: Sequence[str] = ()
) -> None:
    """Raise ConflictError if an unfinished run of something else has committed work in the folder.

    `may_change` are config keys.
    """
    begun = begun_in(out / WORK)
    if begun is None or _is_same(begun, identity, may_change) or not has_commits(out / WORK):
        return
    changes = (
        difference(begun, identity, names)
        if begun.get("work_version") == WORK_VERSION
        else "another version of dataprep"
    )
    raise ConflictError(
        f"{out} has an unfinished run of something else ({changes}); "
        "throw it away with --overwrite, name another --out, or finish it by its own command"
    )


def moved_inputs(manifest: Manifest, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the inputs that have other names than the manifest says: (then, now).

    A dataset is known by the content of its inputs; it says where they were when it was made.
    """
    pairs = zip((source.path for source in manifest.sources), names, strict=False)
    return tuple(
        (then, now)
        for then, now in pairs
        if then != now and os.path.realpath(then) != os.path.realpath(now)
    )


def prepare(
    out: Path, identity: Identity, names: Sequence[str], *, may_change: Sequence[str] = ()
) -> Path:
    """Return the work folder, of a new run or one to continue; `may_change` are config keys."""
    refuse_other_run(out, identity, names, may_change=may_change)
    work = out / WORK
    begun = begun_in(work)
    if begun is not None and _is_same(begun, identity, may_change):
        check_plain(work)
        return work
    # There is nothing, nothing that is worth keeping, or what an interrupted removal left.
    remove_dataset(out)
    _check_writable(out)
    work = make_work(out)
    whole = {**identity, "work_version": WORK_VERSION}
    write_sealed(work / IDENTITY, json.dumps(whole).encode())
    return work


def begun_in(work: Path) -> Identity | None:
    """Return the identity of the unfinished run; None if there is none or it is damaged."""
    data = read_sealed(work / IDENTITY)
    begun: Identity | None = None if data is None else json.loads(data)
    return begun


def begun_to_continue(work: Path) -> Identity | None:
    """Return the identity of the dataset that an unfinished run makes; None if there is none that
    this dataprep could continue."""
    begun = dict(begun_in(work) or {})
    return begun if begun.pop("work_version", None) == WORK_VERSION else None


def _is_same(begun: Identity, identity: Identity, may_change: Sequence[str]) -> bool:
    version = {"work_version": WORK_VERSION}
    return _without(begun, may_change) == _without({**identity, **version}, may_change)


def _check_writable(out: Path) -> None:
    if not os.access(out, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write in --out {out}: no permission, or a read-only disk")


def _without(identity: Identity, keys: Sequence[str]) -> str:
    config = {k: v for k, v in identity.get("config", {}).items() if k not in keys}
    return fingerprint({**identity, "config": config})


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}"""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


def _told(value: Any) -> str:
    """Return a value for a message; of a hash, as much as tells two apart."""
    is_hash = isinstance(value, str) and re.fullmatch(r"(\w+:)?[0-9a-f]{32,}", value)
    return f"{value[:19]}…" if is_hash else repr(value)


def difference(old: Identity, new: Identity, names: Sequence[str]) -> str:
    """Return what changed: `fields: 'text' -> 'body'; input a.jsonl changed`.

    `names` are the inputs of `new`.
    """
    kinds = old.get("kind"), new.get("kind")
    if kinds[0] != kinds[1]:
        return f"{kinds[0]} -> {kinds[1]}"
    changes = []
    for section in ("config", "tokenizer"):
        before, after = _flat(old.get(section, {})), _flat(new.get(section, {}))
        name = "tokenizer " if section == "tokenizer" else ""
        changes += [
            f"{name}{key}: {_told(before.get(key))} -> {_told(after.get(key))}"
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        ]
    before, after = old.get("sources", []), new.get("sources", [])
    if len(before) != len(after):
        changes.append(f"number of sources: {len(before)} -> {len(after)}")
    else:
        pairs = zip(before, after, names, strict=True)
        changes += [f"input {name} changed" for a, b, name in pairs if a != b][:3]
    if old.get("selection") != new.get("selection") and not changes:
        changes.append("the file of select has other bytes")
    return "; ".join(changes) or "another version of dataprep"
