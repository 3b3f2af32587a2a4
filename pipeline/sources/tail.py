"""What is new in a file of lines that was only appended to.

    then   {"a":1}\n{"a":2}\n                 16 bytes, its hash was noted
    now    {"a":1}\n{"a":2}\n{"a":3}\n        the first 16 bytes have that hash: line 3 is new

Lines keep the numbers that they have in the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import xxhash

from dataprep.pipeline.guards.opening import open_regular
from dataprep.pipeline.sources.fingerprint import PREFIX
from dataprep.pipeline.sources.json.formats import Jsonl
from dataprep.pipeline.sources.stream import is_url
from dataprep.pipeline.types import Source

_CHUNK = 4 << 20
_NEWLINE = b"\n"


class _Start(NamedTuple):
    """The first bytes of a file."""

    fingerprint: str
    lines: int
    last: bytes  # byte


def starts_of(path: str, sizes: Iterable[int]) -> dict[int, str]:
    """Return the fingerprints of the first bytes of a file, for each of these sizes that it has; of
    a file that is not there none. It is read once."""
    found: dict[int, str] = {}
    state, done = xxhash.xxh3_128(), 0
    with suppress(OSError, ValueError), open_regular(path) as file:
        for size in sorted(sizes):
            while done < size and (chunk := file.read(min(size - done, _CHUNK))):
                state.update(chunk)
                done += len(chunk)
            if done == size:
                found[size] = f"{PREFIX}{state.hexdigest()}"
    return found


def may_grow(source: Source) -> bool:
    """Return whether what is appended to such a file is more records."""
    return source.kind == Jsonl.kind and not source.compression and not is_url(source.path)


def tail_of(source: Source, num_bytes: int, fingerprint: str) -> Source | None:
    """Return what follows the first `num_bytes`; None unless they have this fingerprint and their
    last line ends there, so that the file was only appended to."""
    if not may_grow(source) or not 0 <= num_bytes < source.num_bytes:
        return None
    start = _start_of(source.file, num_bytes)
    if start is None or start.fingerprint != fingerprint:
        return None
    end = b"" if start.last in (b"", _NEWLINE) else _newline_at(source.file, num_bytes)
    if end is None:
        return None
    first = num_bytes + len(end)
    return replace(
        source,
        start=first,
        num_bytes=source.num_bytes - first,
        lines_before=start.lines + len(end[-1:]),
    )


def _newline_at(path: str | Path, place: int) -> bytes | None:
    """Return the newline that ends a line here, which was written with what came after it."""
    with open_regular(path) as file:
        file.seek(place)
        found = file.read(2)
    return next((end for end in (_NEWLINE, b"\r\n") if found.startswith(end)), None)


def _start_of(path: str | Path, num_bytes: int) -> _Start | None:
    """Read the first bytes of a file; None if it has fewer."""
    state, lines, last, left = xxhash.xxh3_128(), 0, b"", num_bytes
    with open_regular(path) as file:
        while left and (chunk := file.read(min(left, _CHUNK))):
            state.update(chunk)
            lines += chunk.count(_NEWLINE)
            last, left = chunk[-1:], left - len(chunk)
    return None if left else _Start(f"{PREFIX}{state.hexdigest()}", lines, last)
