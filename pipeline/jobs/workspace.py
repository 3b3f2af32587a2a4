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
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, ConflictError, LockedError, short
from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.guards.opening import why_unusable
from dataprep.pipeline.guards.secrets import redacted
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.jobs.commits import has_commits
from dataprep.pipeline.jobs.differences import difference
from dataprep.pipeline.jobs.ownership import (
    IDENTITY,
    REMOVED,
    TURN,
    check_ours,
    check_plain,
    make_work,
)
from dataprep.pipeline.jobs.stored import TASKS
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, Manifest, read_manifest
from dataprep.pipeline.storage.source_lists import read_sources

DISTRUSTED = "distrusted.json"
LONGEST_NAME = 100  # of a file in the work folder
GLANCE_SECONDS = 2.0
FINISH_OR_OVERWRITE = (
    "throw it away with --overwrite, name another --out, or finish it by its own command"
)
WORK_VERSION = 10  # of plans and markers: changes with them, so that no run reads those of others

Identity = Mapping[str, Any]


@contextmanager
def locked(
    out: Path, *, wait: bool = False, shared: bool = False, name: str = ""
) -> Iterator[None]:
    """Lock the folder for this process; the kernel unlocks it, however the process ends.

    `wait` for another run to end; else that is a LockedError. `shared`: with other elements of a
    task array, not with any other run. `name` it otherwise in messages.
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
            _lock(descriptor, wait=wait, shared=shared)
        except BlockingIOError:
            who = _holder(descriptor)
            raise LockedError(
                f"another run holds {name or out}; wait for it or stop it ({who})"
            ) from None
        except OSError as error:  # some network disks have no locks, or none for folders
            raise ConfigError(
                f"cannot lock --out {out}: {error.strerror}; name a folder on a disk with locks"
            ) from None
        try:
            yield
        finally:  # if it were only closed, a process forked meanwhile would keep it locked
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool, shared: bool) -> None:
    """Lock, or raise BlockingIOError. A shared lock is tried for a while: commands that only look
    hold the folder for a moment, and all elements of an array begin at once."""
    deadline = time.monotonic() + (GLANCE_SECONDS if shared else 0.0)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            fcntl.flock(descriptor, kind | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
        else:
            return


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


def check_out(name: str, *, shared: bool = False) -> Path:
    """Return the output folder; refuse one that cannot be used. `shared`: as in `locked`."""
    if not name:
        raise ConfigError("no output folder; set --out")
    if "://" in name:
        raise ConfigError(
            f"--out {name} must be a local folder, or the address of one in a bucket: s3://, gs:// "
            "or az://"
        )
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
            with locked(out, shared=shared):  # another run may be making or removing it
                check_ours(out)
    except OSError as error:
        raise ConfigError(f"cannot use --out {name}: {error.strerror}; name another") from None
    return out


def _check_room_for_names(out: Path) -> None:
    """Raise OSError if paths of files below the folder would be longer than the system allows."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        os.lstat(os.path.abspath(out / WORK / TASKS / ("-" * LONGEST_NAME)))


def complete_manifest(
    out: Path,
    identity: Identity,
    names: Sequence[str],
    *,
    name: str = "",
    prints: Sequence[str] = (),
) -> Manifest | None:
    """Return the manifest if the dataset is finished, else None; another identity is a conflict.

    Nobody has looked at its files yet. `name` is where they are, if it is not `out`, and `prints`
    are the fingerprints of the inputs.
    """
    if not (out / MANIFEST).exists():
        return None
    manifest = read_manifest(out)
    if manifest.fingerprint != fingerprint(identity):
        recorded = read_sources(Path(name or out), manifest)
        both = [source.fingerprint for source in recorded], prints
        changes = difference(manifest.identity, identity, names, both)
        raise ConflictError(
            f"{name or out} was made from something else ({changes}); "
            "name another --out, or replace it with --overwrite"
        )
    return manifest


def refuse_other_run(
    out: Path,
    identity: Identity,
    names: Sequence[str],
    *,
    may_change: Sequence[str] = (),
    name: str = "",
    spares_empty: bool = False,
    fix: str = FINISH_OR_OVERWRITE,
) -> None:
    """Raise ConflictError if an unfinished run of something else has committed work in the folder;
    with `spares_empty`, also if it has only begun.

    `may_change` are config keys; `name` the folder otherwise in messages, which end with the `fix`.
    """
    begun = begun_in(out / WORK)
    if begun is None or _is_same(begun, identity, may_change):
        return
    if not (spares_empty or has_commits(out / WORK)):
        return
    changes = (
        difference(begun, identity, names)
        if begun.get("work_version") == WORK_VERSION
        else "another version of dataprep"
    )
    raise ConflictError(f"{name or out} has an unfinished run of something else ({changes}); {fix}")


def moved_inputs(
    folder: Path, manifest: Manifest, names: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return the inputs that have other names than the dataset in a folder says: (then, now).

    A dataset is known by the content of its inputs; it says where they were when it was made.
    """
    recorded = (source.path for source in read_sources(folder, manifest))
    pairs = zip(recorded, names, strict=False)
    return tuple(
        (then, now)
        for then, now in pairs
        if then != now and os.path.realpath(then) != os.path.realpath(now)
    )


def work_to_continue(
    out: Path, identity: Identity, *, may_change: Sequence[str] = ()
) -> Path | None:
    """Return the work folder of a run to continue; None if there is none. `may_change` are config
    keys."""
    begun = begun_in(out / WORK)
    if why_distrusted(out / WORK) is not None:
        return None
    if begun is None or not _is_same(begun, identity, may_change):
        return None
    check_plain(out / WORK)
    return out / WORK


def begun_by(identity: Identity) -> bytes:
    """Return what is written about a run that begins."""
    return json.dumps({**identity, "work_version": WORK_VERSION}).encode()


def join(
    out: Path, identity: Identity, names: Sequence[str], *, may_change: Sequence[str] = ()
) -> Path:
    """Return the work folder, for one of several processes that do the work of a run together.

    Nothing is removed here: whoever else has the shared lock may need it.
    """
    work = out / WORK
    make_folder(work)
    with turn(work):
        check_ours(out)
        why = why_distrusted(work)
        if why is not None:
            raise ConflictError(f"the work in {work} cannot be used ({why}); {_throw_away(out)}")
        begun = begun_in(work)
        if begun is None and (has_commits(work) or (work / REMOVED).exists()):
            raise ConflictError(f"{work / IDENTITY} is lost or damaged; {_throw_away(out)}")
        fix = _throw_away(out)
        refuse_other_run(out, identity, names, may_change=may_change, spares_empty=True, fix=fix)
        if begun is None:
            check_writable(out)
            make_work(out)
            write_sealed(work / IDENTITY, begun_by(identity))
    return work


@contextmanager
def turn(work: Path) -> Iterator[None]:
    """Wait until no other element of an array is here; the kernel ends the turn of the dead."""
    with open(work / TURN, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def distrust(work: Path, why: str) -> None:
    """Let nobody use what was committed so far, or will be by others that are still at work."""
    write_sealed(work / DISTRUSTED, json.dumps(why).encode())


def why_distrusted(work: Path) -> str | None:
    data = read_sealed(work / DISTRUSTED)
    return None if data is None else str(json.loads(data))


def _throw_away(out: Path) -> str:
    return f"throw it away (dataprep clean {out} --go) and run all elements again"


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


def check_writable(out: Path) -> None:
    if not os.access(out, os.W_OK | os.X_OK):
        raise ConfigError(f"cannot write in --out {out}: no permission, or a read-only disk")


def _without(identity: Identity, keys: Sequence[str]) -> str:
    config = {k: v for k, v in identity.get("config", {}).items() if k not in keys}
    return fingerprint({**identity, "config": config})
