"""The keys of documents: hashes that tell equal content, and which documents belong together.

    keys/documents-00000-of-00003.npy    DOCUMENT_KEY of each document, in order
        content    xxh3-128 of the values that the document was made of, without names or tokenizer
        group      64 bits of the hash of one value, or the first of the content

Values are hashed as parts, each with its type and length, so that no two lists of values give the
same bytes:

    "2+2=", 4      text 4\\n2+2=text 1\\n4        a number is the text that it becomes in a document

Datasets have such files only if they were asked for. `documents.keys` finds the values in records.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from msgspec import UnsetType
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.checked import CheckedFiles, map_array, read_array
from dataprep.pipeline.storage.entries import DocumentShard, FileEntry

DOCUMENT_KEY = np.dtype([("content", "<u8", (2,)), ("group", "<u8")])
CONTENT = "content"
OF_KEY = "key:"  # before the name of the key whose value tells the group


def group_key(keys: str | None) -> str | None:
    """Return the key whose value tells the group of a record, if `keys` names one.

    >>> group_key("key:meta.id"), group_key("content"), group_key(None)
    ('meta.id', None, None)
    """
    return keys.removeprefix(OF_KEY) if keys and keys.startswith(OF_KEY) else None


# --- parts that are hashed ---


def part(kind: str, data: bytes) -> bytes:
    """Return a value as it is hashed; `kind` has no space.

    >>> part("text", b"abc")
    b'text 3\\nabc'
    """
    return f"{kind} {len(data)}\n".encode() + data


def part_of_text(text: str) -> bytes:
    return part("text", text.encode("utf-8", "surrogatepass"))


def part_of_numbers(kind: str, numbers: NDArray[Any]) -> bytes:
    """Return integers of any type as they are hashed."""
    return part(kind, numbers.astype("<i8").tobytes())


def part_of_value(value: Any) -> bytes:
    """Return any value of a record as it is hashed: a text, a number as its text, else as JSON.

    >>> part_of_value(3) == part_of_value("3"), part_of_value({"b": 1, "a": None})
    (True, b'json 16\\n{"a":null,"b":1}')
    """
    if isinstance(value, str):
        return part_of_text(value)
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return part_of_text(json.dumps(value))
    return part_of_json(value)


def part_of_json(value: Any) -> bytes:
    """Return a value as it is hashed: JSON with sorted keys, arrays as lists; ValueError if it is
    nested too deeply."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_as_json)
    except RecursionError:
        raise ValueError("a value is nested too deeply to be hashed") from None
    return part("json", text.encode())


def _as_json(value: Any) -> Any:
    """Return what JSON cannot hold as something that it can: arrays, bytes, dates and the like."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


# --- hashes ---


def hash_parts(records: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return the hash of the parts of each record: u64[n, 2]."""
    digests = b"".join(map(xxhash.xxh3_128_digest, records))
    return np.frombuffer(digests, "<u8").reshape(-1, 2)


def groups_of(values: Iterable[Any]) -> NDArray[np.uint64]:
    """Return the group that each value tells: u64[n]."""
    return hash_parts(map(part_of_value, values))[:, 0]


def hex_of_content(content: NDArray[np.uint64]) -> list[str]:
    """Return contents as people write them: 32 hexadecimal digits each.

    >>> hex_of_content(hash_parts([part_of_text("a")]))
    ['1cb9f4ab5a10aa29a9623d9f67a82119']
    """
    data = np.ascontiguousarray(content, "<u8").tobytes().hex()
    return [data[i : i + 32] for i in range(0, len(data), 32)]


def content_of_hex(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Return the contents that are written so; ValueError if one is none."""
    if any(len(text) != 32 for text in texts):
        raise ValueError("a content hash has 32 hexadecimal digits")
    return np.frombuffer(bytes.fromhex("".join(texts)), "<u8").reshape(-1, 2)


# --- files ---


def read_keys(folder: Path, shard: DocumentShard) -> NDArray[Any]:
    """Return the keys of a shard's documents, whose bytes have the hash of the manifest."""
    return read_array(folder, _entry(folder, shard), DOCUMENT_KEY, shard.num_documents)


def map_keys(folder: Path, shard: DocumentShard, watch: CheckedFiles) -> NDArray[Any]:
    """Return the same, mapped after the file was checked: for more keys than memory holds."""
    entry = _entry(folder, shard)
    watch.check(folder, entry)
    return map_array(folder, entry, DOCUMENT_KEY, shard.num_documents)


def _entry(folder: Path, shard: DocumentShard) -> FileEntry:
    if isinstance(shard.keys, UnsetType):
        raise ConfigError(
            f"{folder} has no keys of documents; tokenize it again with --set keys=content, or "
            "keys=key:NAME"
        )
    return shard.keys
