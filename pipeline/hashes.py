"""Hash files, to find damage, and plain values, to tell them apart.

hash_file(Path("a.jsonl"))         '99aa06d3014798d86001c324468d497f'    xxh3-128
fingerprint({"b": 1, "a": [2]})    'sha256:2a9e…'                        the same for any key order
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import xxhash

CHUNK_BYTES = 1 << 19  # what was read is still near when it is hashed: a quarter less than 4 MiB


def hash_bytes(data: bytes) -> str:
    """Return the xxh3-128 of the bytes, in hex."""
    return xxhash.xxh3_128_hexdigest(data)


def hash_file(path: Path | str | int, between: Callable[[], None] | None = None) -> str:
    """Return the xxh3-128 of the content, in hex; an open descriptor is read on and closed.

    `between` is called after each part that is read, and may raise to end it.
    """
    state = xxhash.xxh3_128()
    buffer = bytearray(CHUNK_BYTES)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            state.update(view[:count])
            if between:
                between()
    return state.hexdigest()


def fingerprint(content: Mapping[str, Any]) -> str:
    """Hash anything that JSON can hold; the order of keys does not matter."""
    try:
        text = msgspec.json.encode(content, order="deterministic")
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, as in a template's "\ud83d", or a number of more than 64 bits.
        text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return f"sha256:{hashlib.sha256(text).hexdigest()}"
