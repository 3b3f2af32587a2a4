"""manifest.json: what a dataset holds, where it came from, and proof that it is whole.

    read_manifest(folder)   TokenizedManifest | PackedManifest | EncodedManifest | ExportedManifest,
                            every value typed
    kind_of(folder)         "tokenized", "packed", "encoded", "exported", "unfinished" or "",
                            without a check

Written last and atomically, so that its presence means: complete and verified. Holds no clock
time, host, worker count or output path: equal input and config give equal bytes. `checksum` is the
fingerprint of all its other values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.guards.opening import NotRegularError, open_regular, read_bounded
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.storage.agreement import wrong_in
from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.kinds import (
    KINDS,
    AnyFile,
    AnyShard,
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
    files_of,
    files_of_shard,
    size_of,
)
from dataprep.pipeline.storage.objects import NoSuchObjectError, is_remote, open_objects
from dataprep.pipeline.typed import decode_as

__all__ = [
    "FORMAT_VERSION",
    "KINDS",
    "MANIFEST",
    "MARK",
    "WORK",
    "AnyFile",
    "AnyShard",
    "EncodedManifest",
    "ExportedManifest",
    "Manifest",
    "PackedManifest",
    "TokenizedManifest",
    "check_bytes",
    "files_of",
    "files_of_shard",
    "json_of",
    "kind_of",
    "kind_told",
    "manifest_in",
    "manifest_text",
    "manifests_remembered",
    "read_manifest",
    "sealed",
    "size_of",
]

FORMAT_VERSION = 10
MANIFEST = "manifest.json"
CHECKSUM = "checksum"
WORK = ".work"
MARK = "dataprep-work"  # the file by which a work folder is known as one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The keys that must be known before the rest can be read."""

    format_version: int
    kind: str


def manifest_text(manifest: Manifest) -> str:
    """Return what manifest.json holds, with its checksum."""
    wrong = wrong_in(manifest)
    assert not wrong, f"the manifest would not be readable: {wrong}"
    return sealed(msgspec.to_builtins(manifest)).decode()


def json_of(manifest: Manifest) -> Json:
    """Return what manifest.json holds, as values."""
    values: Json = json.loads(sealed(msgspec.to_builtins(manifest)))
    return values


def sealed(values: Json) -> bytes:
    """Return the bytes of a manifest with these values, and with their checksum."""
    whole = {**values, CHECKSUM: fingerprint(values)}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """Read the manifest and check every value in it, but not the files that it lists.

    `name` is another than manifest.json for an earlier generation (`parts`).
    """
    path, data = folder / name, _read(folder, name)
    known = _remembered.get()
    if known is not None and data in known:
        return known[data]
    try:
        found = manifest_in(path, data)
    except CorruptError:
        if not is_remote(folder):
            raise
        data = _read(folder, name)  # it may have been damaged on its way
        found = manifest_in(path, data)
    if known is not None:
        known[data] = found
    return found


# By their bytes, which decide all that is checked.
_remembered: ContextVar[dict[bytes, Manifest] | None] = ContextVar("remembered", default=None)


@contextmanager
def manifests_remembered() -> Iterator[None]:
    """Check each manifest once in this block, however often it is read."""
    before = _remembered.set({})
    try:
        yield
    finally:
        _remembered.reset(before)


def manifest_in(path: Path | str, data: bytes) -> Manifest:
    """Return a manifest of these bytes; a CorruptError, which names its path, if they are none."""
    kind = _kind_in(path, data)
    try:
        values = msgspec.json.decode(data)
        manifest: Manifest = decode_as(data, KINDS[kind])
        same = msgspec.json.decode(msgspec.json.encode(manifest))
        is_sealed = values.pop(CHECKSUM, None) == fingerprint(values)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise CorruptError(f"{path} is damaged ({error}); make the dataset again") from None
    if not is_sealed:
        raise CorruptError(
            f"{path} was edited: its checksum does not match; make the dataset again"
        )
    wrong = _other_key(same, values) or wrong_in(manifest)
    if wrong:
        raise CorruptError(f"{path} is damaged: {wrong}; make the dataset again")
    return manifest


def _kind_in(path: Path | str, data: bytes) -> str:
    """Return the kind; raise CorruptError if this dataprep cannot read such a manifest."""
    try:
        head = decode_as(data, _Head)
    except msgspec.ValidationError as error:
        raise CorruptError(f"{path} is not a manifest of dataprep: {error}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise CorruptError(f"{path} is damaged: {error}; make the dataset again") from None
    if head.format_version != FORMAT_VERSION:
        raise CorruptError(
            f"{path} has format version {head.format_version}, this dataprep reads "
            f"{FORMAT_VERSION}; use the dataprep that wrote it, or make the dataset again"
        )
    if head.kind not in KINDS:
        raise CorruptError(f"{path} is of kind {head.kind!r}, which this dataprep cannot read")
    return head.kind


def check_bytes(folder: Path, name: str = MANIFEST) -> None:
    """Raise CorruptError unless the manifest is byte by byte as it was written."""
    data = _read(folder, name)
    values = json.loads(data)
    del values[CHECKSUM]
    if data != sealed(values):
        raise CorruptError(f"{folder / name} is not as it was written; make the dataset again")


def _other_key(wanted: Json, found: Json) -> str:
    """Return which key is missing, or was not written by this dataprep, or ''."""
    for key in {**wanted, **found}:
        if key not in found or key not in wanted:
            return f"it {'lacks' if key in wanted else 'has an unknown'} key {key!r}"
        if wanted[key] != found[key]:
            return f"{key!r} lacks a key, or has an unknown one"
    return ""


def kind_of(folder: Path | str) -> str:
    """Return what dataprep wrote in a folder: one of KINDS, unfinished or ''."""
    place = Path(folder)
    try:
        with open_regular(place / MANIFEST) as file:
            head = file.read(200)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        # Not Path.exists, which raises where a folder may not be entered.
        return "unfinished" if os.path.exists(place / WORK / MARK) else ""
    return kind_told(head)


def kind_told(head: bytes) -> str:
    """Return the kind of dataset that a manifest tells in its first bytes, or ''."""
    return next((kind for kind in KINDS if f'"kind": "{kind}"'.encode() in head), "")


def _read(folder: Path, name: str = MANIFEST) -> bytes:
    if is_remote(folder):
        objects = open_objects(str(folder))
        try:
            return objects.get(name)
        except NoSuchObjectError:
            objects.check_bucket()
            raise CorruptError(f"{folder} is not a dataset: it has no {name}") from None
    try:
        return read_bounded(folder / name)
    except NotRegularError:
        raise CorruptError(f"{folder / name} is not a file, so {folder} is not a dataset") from None
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptError(_missing(folder)) from None
    except OSError as error:
        cause = f"cannot read {folder / name}: {error.strerror}"
        raise CorruptError(f"{cause}; copy the dataset again, or make it again") from None


def _missing(folder: Path) -> str:
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file, not the folder of a dataset"
    if not folder.is_dir():
        return f"{folder} is not a dataset: there is no such folder"
    if (folder / WORK).is_dir():
        return f"{folder} is unfinished; run the command that makes it again to continue"
    if (folder / "parts").is_dir():
        return f"{folder} has parts and no {MANIFEST}, so it is unfinished; dataprep run goes on"
    return f"{folder} is not a dataset: it has no {MANIFEST}"
