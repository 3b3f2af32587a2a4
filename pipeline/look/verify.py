"""Check a dataset against its manifest: every hash, count, id, boundary and mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import hash_file
from dataprep.pipeline.storage.documents import (
    check_documents,
    count_true,
    decode_documents,
    index_documents,
    index_dtype,
    mask_of_runs,
)
from dataprep.pipeline.storage.manifest import check_sum, read_manifest
from dataprep.pipeline.storage.rows import RowLayout, check_row, decode_row

RECORDS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    folder: Path
    kind: str
    num_shards: int
    num_items: int  # documents or rows
    num_tokens: int
    num_bytes: int


def verify(folder: Path) -> Verified:
    """Read everything; the first thing wrong is a CorruptError that names it."""
    manifest = read_manifest(folder)
    check_sum(manifest, folder)
    _check_listing(folder, manifest)
    check = _check_rows if manifest["kind"] == "packed" else _check_documents
    found = Counter[str]()
    num_bytes = 0
    for shard in manifest["shards"]:
        for entry in (shard, shard["index"], shard["provenance"]):
            _check_file(folder / entry["path"], entry)
            num_bytes += entry["num_bytes"]
        in_shard = check(folder, manifest, shard)
        if in_shard["tokens"] != shard["num_tokens"]:
            raise CorruptError(
                f"{shard['path']} holds {in_shard['tokens']} tokens, "
                f"the manifest says {shard['num_tokens']}"
            )
        found.update(in_shard)
    for entry in manifest.get("files", ()):
        _check_file(folder / entry["path"], entry)
    items = "rows" if manifest["kind"] == "packed" else "documents_written"
    for name in {items, "tokens", "target_tokens", *found}:
        value = found[name]
        said = manifest["counts"].get(name, value)  # one made before a count was thought of
        if said != value:
            raise CorruptError(f"{folder} holds {value} {name}, its manifest says {said}")
    if manifest["kind"] == "tokenized":
        _check_sources(manifest)
    return Verified(
        folder=folder,
        kind=manifest["kind"],
        num_shards=len(manifest["shards"]),
        num_items=sum(found[name] for name in ("documents_written", "rows")),
        num_tokens=found["tokens"],
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


def _check_listing(folder: Path, manifest: dict[str, Any]) -> None:
    """No file among the shards that the manifest does not know."""
    known = {shard[key]["path"] for shard in manifest["shards"] for key in ("index", "provenance")}
    known |= {shard["path"] for shard in manifest["shards"]}
    known |= {entry["path"] for entry in manifest.get("files", ())}
    for part in ("shards", "index", "provenance"):
        for path in sorted((folder / part).glob("*")):
            if path.relative_to(folder).as_posix() not in known:
                raise CorruptError(f"{path} is not in the manifest; remove it")


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


def _check_sources(manifest: dict[str, Any]) -> None:
    for source in manifest["sources"]:
        gone = sum(source[key] for key in ("written", "empty", "quarantined", "dropped"))
        if source["records"] != gone:
            raise CorruptError(f"counts of {source['path']} do not add up in the manifest")
    for key, name in (("records", "read"), ("written", "written"), ("empty", "empty")):
        if (
            sum(source[key] for source in manifest["sources"])
            != manifest["counts"][f"documents_{name}"]
        ):
            raise CorruptError(f"{key} of the sources do not add up to documents_{name}")


def read_records(folder: Path, shard: dict[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Every record of a shard with its number, by the official reader."""
    path = folder / shard["path"]
    reader = array_record_module.ArrayRecordReader(str(path))
    if not reader.ok() or reader.num_records() != shard["num_records"]:
        raise CorruptError(f"{path} is damaged: its footer lists {reader.num_records()} records")
    for first in range(0, shard["num_records"], RECORDS_AT_ONCE):
        numbers = range(first, min(first + RECORDS_AT_ONCE, shard["num_records"]))
        yield from zip(numbers, reader.read(list(numbers)), strict=True)
    reader.close()


def _check_documents(
    folder: Path, manifest: dict[str, Any], shard: dict[str, Any]
) -> dict[str, int]:
    """Counts of a shard of documents, as they are in its records."""
    path = folder / shard["path"]
    parts = [np.zeros(0, index_dtype(manifest["masks"]))]
    names = ["target_tokens", *(f"{mask}_tokens" for mask in manifest["masks"][1:])]
    counts = Counter[str]()
    for number, data in read_records(folder, shard):
        found = decode_documents(data, manifest["token_dtype"], len(manifest["masks"]))
        wrong = check_documents(found, manifest["max_id"])
        if wrong or len(data) != shard["record_bytes"][number]:
            raise CorruptError(f"record {number} of {path}: {wrong or 'wrong size'}")
        parts.append(index_documents(found, manifest["masks"], number))
        counts.update(dict(zip(names, map(count_true, found.runs), strict=True)))
    found_index = np.concatenate(parts)
    index = np.load(folder / shard["index"]["path"], allow_pickle=False)
    if not np.array_equal(index, found_index):
        raise CorruptError(f"{folder / shard['index']['path']} does not fit {path}")
    return {
        "documents_written": len(index),
        "tokens": int(index["length"].sum(dtype=np.int64)),
        **counts,
    }


def _check_rows(folder: Path, manifest: dict[str, Any], shard: dict[str, Any]) -> dict[str, int]:
    """Counts of a shard of rows, as they are in its records."""
    path = folder / shard["path"]
    layout = RowLayout.of_manifest(manifest)
    sizes = np.load(folder / shard["index"]["path"], allow_pickle=False)
    pack = manifest["config"]["pack"]
    lwm_stream = pack["strategy"] == "concat" and pack["compat"] == "lwm"
    counts = Counter[str](rows=shard["num_records"])
    for number, data in read_records(folder, shard):
        row = decode_row(data, layout)
        wrong = check_row(
            row, max_id=manifest["max_id"], pad=manifest["pad"], first_has_loss=lwm_stream
        )
        if wrong or len(data) != sizes[number]:
            raise CorruptError(f"row {number} of {path}: {wrong or 'wrong size'}")
        loss = mask_of_runs(row.runs[0], layout.capacity)
        counts["tokens"] += int(row.ends[-1]) - row.left_padding
        counts["target_tokens"] += int(loss[1:].sum())
        counts["segments"] += len(row.ends)
    return dict(counts)
