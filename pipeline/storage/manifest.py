"""manifest.json: what a dataset holds, where it came from, and proof that it is whole.

Written last and atomically, so that its presence means: complete and verified. Holds no clock
time, host, worker count or output path: equal input and config give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import write_atomic

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PIECES = "provenance/pieces.json"  # of a tokenized dataset: the source of each piece
KINDS = ("encoded", "tokenized", "packed")
REQUIRED = (
    *("format_version", "kind", "fingerprint", "tokenizer"),
    *("masks", "shards", "counts"),
)


def fingerprint(content: Mapping[str, Any]) -> str:
    """A hash of anything JSON-able, the same for any order of keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    whole = {**manifest, "checksum": fingerprint(manifest)}
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / MANIFEST, text.encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, checked for shape; the files it names are for others to check."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise CorruptError(_missing(folder)) from None
    except OSError as error:
        raise CorruptError(f"cannot read {path}: {error}") from None
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path} is damaged: {error}; make the dataset again") from None
    if not isinstance(manifest, dict) or any(key not in manifest for key in REQUIRED):
        raise CorruptError(f"{path} is not a manifest of dataprep")
    version = manifest["format_version"]
    if version != FORMAT_VERSION:
        raise CorruptError(
            f"{path} has format version {version}, this dataprep reads {FORMAT_VERSION}; "
            "use the dataprep that wrote it, or make the dataset again"
        )
    if manifest["kind"] not in KINDS:
        raise CorruptError(f"{path} is of kind {manifest['kind']!r}, which this cannot read")
    dtype = manifest.get("token_dtype")
    if manifest["kind"] != "encoded" and dtype not in ("uint16", "uint32"):
        raise CorruptError(f"{path} has token_dtype {dtype!r}; make the dataset again")
    try:
        for shard in manifest["shards"]:
            int(shard["num_records"]), int(shard["num_tokens"])
            for entry in (shard, *(shard[k] for k in ("index", "provenance") if k in shard)):
                _check_entry(entry, path)
        for entry in manifest.get("files", ()):
            _check_entry(entry, path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{path} is damaged ({error!r}); make the dataset again") from None
    return manifest


def _check_entry(entry: Mapping[str, Any], place: Path) -> None:
    check_inside(str(entry["path"]), place)
    int(entry["num_bytes"]), str(entry["xxh3_128"])


def check_sum(manifest: Mapping[str, Any], place: Path) -> None:
    """That nothing in the manifest was changed since it was written."""
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    if manifest.get("checksum") != fingerprint(rest):
        raise CorruptError(f"{place}/{MANIFEST} was edited: its checksum does not fit")


def missing_file(manifest: Mapping[str, Any], folder: Path) -> str:
    """A file that is gone or of another size than the manifest says, or ''."""
    for shard in manifest["shards"]:
        for entry in (shard, *(shard[k] for k in ("index", "provenance") if k in shard)):
            path = folder / entry["path"]
            if not path.is_file() or path.stat().st_size != entry["num_bytes"]:
                return str(path)
    return ""


def check_inside(name: str, place: Path) -> None:
    """A path in a manifest must stay below its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
        raise CorruptError(f"{place} names {name!r}, which is outside the dataset")


def _missing(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a dataset: no such folder"
    if (folder / ".work").is_dir():
        return f"{folder} is unfinished; run the command that makes it again, it will go on"
    return f"{folder} is not a dataset: it has no {MANIFEST}"
