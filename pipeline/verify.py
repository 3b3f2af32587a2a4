"""Check a dataset against its manifest: every hash, count, id, boundary and mask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import hash_file
from dataprep.pipeline.manifest import fingerprint, read_manifest
from dataprep.pipeline.record import (
    check_documents,
    decode_documents,
    index_documents,
    index_dtype,
)

RECORDS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    folder: Path
    num_shards: int
    num_documents: int
    num_tokens: int
    num_bytes: int


def verify(folder: Path) -> Verified:
    """Read everything; the first thing wrong is a CorruptError that names it."""
    manifest = read_manifest(folder)
    if fingerprint(manifest["identity"]) != manifest["fingerprint"]:
        raise CorruptError(f"{folder}/manifest.json was edited: its fingerprint does not fit")
    documents = tokens = targets = num_bytes = 0
    for shard in manifest["shards"]:
        for entry in (shard, shard["index"], shard["provenance"]):
            _check_file(folder / entry["path"], entry)
            num_bytes += entry["num_bytes"]
        found, loss = _check_shard(folder, manifest, shard)
        documents, tokens, targets = (
            documents + len(found),
            tokens + int(found.sum()),
            targets + loss,
        )
    counts = manifest["counts"]
    for name, value in (
        ("documents_written", documents),
        ("tokens", tokens),
        ("target_tokens", targets),
    ):
        if counts[name] != value:
            raise CorruptError(f"{folder} holds {value} {name}, its manifest says {counts[name]}")
    for source in manifest["sources"]:
        gone = sum(source[key] for key in ("written", "empty", "quarantined", "dropped"))
        if source["records"] != gone:
            raise CorruptError(f"counts of {source['path']} do not add up in the manifest")
    return Verified(
        folder=folder,
        num_shards=len(manifest["shards"]),
        num_documents=documents,
        num_tokens=tokens,
        num_bytes=num_bytes,
    )


def compare(left: Path, right: Path) -> int:
    """Byte by byte; gives the number of files, or names the first that differs."""
    names = sorted({*_files(left), *_files(right)})
    for name in names:
        for folder in (left, right):
            if not (folder / name).is_file():
                raise CorruptError(f"{name} is not in {folder}")
        if hash_file(left / name) != hash_file(right / name):
            raise CorruptError(f"{name} differs between {left} and {right}")
    return len(names)


def _files(folder: Path) -> list[str]:
    read_manifest(folder)
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]


def _check_file(path: Path, entry: dict[str, Any]) -> None:
    try:
        size = path.stat().st_size
        digest = hash_file(path) if size == entry["num_bytes"] else ""
    except OSError as error:
        raise CorruptError(f"{path} cannot be read: {error.strerror}") from None
    if size != entry["num_bytes"]:
        raise CorruptError(f"{path} has {size} bytes, the manifest says {entry['num_bytes']}")
    if digest != entry["xxh3_128"]:
        raise CorruptError(f"{path} is damaged: its xxh3-128 is {digest}, not {entry['xxh3_128']}")


def _check_shard(
    folder: Path, manifest: dict[str, Any], shard: dict[str, Any]
) -> tuple[np.ndarray[Any, Any], int]:
    """Lengths of the shard's documents as they are in its records, and its loss tokens."""
    path = folder / shard["path"]
    reader = array_record_module.ArrayRecordReader(str(path))
    if not reader.ok() or reader.num_records() != shard["num_records"]:
        raise CorruptError(f"{path} is damaged: its footer lists {reader.num_records()} records")
    parts = [np.zeros(0, index_dtype(manifest["masks"]))]
    targets = 0
    for first in range(0, shard["num_records"], RECORDS_AT_ONCE):
        numbers = range(first, min(first + RECORDS_AT_ONCE, shard["num_records"]))
        for number, data in zip(numbers, reader.read(list(numbers)), strict=True):
            found = decode_documents(data, manifest["token_dtype"], len(manifest["masks"]))
            wrong = check_documents(found, manifest["max_id"])
            if wrong or len(data) != shard["record_bytes"][number]:
                raise CorruptError(f"record {number} of {path}: {wrong or 'wrong size'}")
            parts.append(index_documents(found, manifest["masks"], number))
            targets += int(np.diff(found.runs[0], prepend=0)[1::2].sum())
    reader.close()
    index = np.load(folder / shard["index"]["path"], allow_pickle=False)
    found_index = np.concatenate(parts)
    if not np.array_equal(index, found_index):
        raise CorruptError(f"{folder / shard['index']['path']} does not fit {path}")
    return found_index["length"].astype(np.int64), targets
