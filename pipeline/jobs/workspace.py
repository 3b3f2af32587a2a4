"""The folder of a dataset while it is made: its lock, its content, whether a run can be continued.

out/.work/identity.json     inputs and config of the unfinished run
out/.work/…                 its plan and what it has committed
out/manifest.json           the dataset is complete; .work is removed
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from dataprep.pipeline.errors import ConfigError, ConflictError, CorruptError, LockedError
from dataprep.pipeline.files import write_atomic
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.storage.manifest import MANIFEST, WORK, Manifest, missing_file, read_manifest

IDENTITY = "identity.json"
WORK_VERSION = 2  # of plans and markers: changes with them, so that no run reads those of others
OURS = (WORK, MANIFEST, "shards", "index", "provenance", "errors.jsonl")

Identity = Mapping[str, Any]


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Lock the folder for this process; the kernel unlocks it, however the process ends."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(out, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot use --out {out}: {error.strerror}; name another") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"another run holds {out}; wait for it or stop it") from None
        yield
    finally:
        os.close(descriptor)


def check_out(name: str) -> Path:
    """Return the output folder; refuse one that holds files of others."""
    if not name:
        raise ConfigError("no output folder; set --out")
    if "://" in name:
        raise ConfigError(f"--out {name} must be a local folder; copy it there afterwards")
    out = Path(name)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file")
    if out.is_dir() and not (out / MANIFEST).exists() and not (out / WORK).exists():
        strangers = sorted(path.name for path in out.iterdir())
        if strangers:
            raise ConfigError(
                f"--out {out} holds other files ({', '.join(strangers[:3])}); name a new folder"
            )
    return out


def refuse_overlap(out: Path, reads: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Refuse an input inside `out`, where --overwrite would remove it, and `out` inside an input.

    `reads` are files and folders, some perhaps not local; `folders` are read with all they hold.
    """
    target = os.path.realpath(out)
    folder_of = lru_cache(maxsize=None)(os.path.realpath)  # many files are in few folders
    for path in (*reads, *folders):
        is_plain = os.path.isfile(path) and not os.path.islink(path)
        name = os.path.basename(path)
        real = f"{folder_of(os.path.dirname(path))}/{name}" if is_plain else os.path.realpath(path)
        if os.path.exists(real) and f"{real}/".startswith(f"{target.rstrip('/')}/"):
            raise ConfigError(f"--out {out} is or holds the input {path}; name another folder")
    for path in folders:
        if f"{target}/".startswith(f"{os.path.realpath(path).rstrip('/')}/"):
            raise ConfigError(f"--out {out} lies in the input {path}; name another folder")


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
    lost = missing_file(manifest, out)
    if lost:
        raise CorruptError(f"{lost} is gone or damaged; make the dataset again with --overwrite")
    shutil.rmtree(out / WORK, ignore_errors=True)  # left by a run that was killed at the very end
    return manifest


def prepare(
    out: Path, identity: Identity, names: Sequence[str], *, may_change: Sequence[str] = ()
) -> Path:
    """Return the work folder, of a new run or one to continue; `may_change` are config keys."""
    work = out / WORK
    path = work / IDENTITY
    if path.exists():
        begun = json.loads(path.read_bytes())
        if begun.pop("work_version", None) != WORK_VERSION:
            raise ConflictError(
                f"{out} has an unfinished run of another version of dataprep; finish it with that "
                "one, name another --out, or throw it away with --overwrite"
            )
        if _without(begun, may_change) != _without(identity, may_change):
            changes = difference(begun, identity, names)
            raise ConflictError(
                f"{out} has an unfinished run of something else ({changes}); "
                "finish that one, name another --out, or throw it away with --overwrite"
            )
        return work
    # There is nothing, or what an interrupted removal left.
    remove_dataset(out)
    _check_writable(out)
    work.mkdir()
    write_atomic(path, json.dumps({**identity, "work_version": WORK_VERSION}).encode())
    return work


def remove_dataset(out: Path) -> None:
    """Remove what we wrote and nothing else. The work folder goes last, so that after a kill the
    rest is known to be ours and is removed too."""
    if not any((out / name).exists() for name in OURS):
        return
    _check_writable(out)
    (out / WORK).mkdir(exist_ok=True)
    (out / WORK / IDENTITY).unlink(missing_ok=True)
    for name in (MANIFEST, *(name for name in OURS if name not in (MANIFEST, WORK)), WORK):
        path = out / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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


def difference(old: Identity, new: Identity, names: Sequence[str]) -> str:
    """Return what changed: `fields: 'text' -> 'body'; input a.jsonl changed`.

    `names` are the inputs of `new`.
    """
    changes = []
    for section in ("config", "tokenizer"):
        before, after = _flat(old.get(section, {})), _flat(new.get(section, {}))
        name = "tokenizer " if section == "tokenizer" else ""
        changes += [
            f"{name}{key}: {before.get(key)!r} -> {after.get(key)!r}"
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        ]
    before, after = old.get("sources", []), new.get("sources", [])
    if len(before) != len(after):
        changes.append(f"number of sources: {len(before)} -> {len(after)}")
    else:
        pairs = zip(before, after, names, strict=True)
        changes += [f"input {name} changed" for a, b, name in pairs if a != b][:3]
    return "; ".join(changes) or "another version of dataprep"
