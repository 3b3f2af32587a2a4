"""What a run must forget: the list, and the documents that it means.

    out/.run/forgotten.json   what was asked for, as contents, values of keys, or file and line

    content 1cb9f4ab…      wherever it comes from, also in files that are read later
    key id = 17            every record with this value, if the split is by this key
    line 12 of 99aa…       of a file of this content, or one that was appended to it

The list is kept, so that what was forgotten stays away when a corpus is made anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import UnsetType
from numpy.typing import NDArray

from dataprep.pipeline.errors import ConfigError, CorruptError, short
from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.run.parts import STATE
from dataprep.pipeline.sources.tail import begins_with
from dataprep.pipeline.storage.keys import (
    CONTENT,
    OF_KEY,
    content_of_hex,
    groups_of,
    hex_of_content,
    read_keys,
)
from dataprep.pipeline.storage.kinds import TokenizedManifest
from dataprep.pipeline.storage.origins import Origins, origins_of
from dataprep.pipeline.storage.provenance import OriginFile
from dataprep.pipeline.typed import decode_as
from dataprep.pipeline.types import Offsets

LEDGER = f"{STATE}/forgotten.json"
MOST_BYTES = 1 << 34  # of a list of documents
_HEX = re.compile(r"(?:content:)?([0-9a-f]{32})")
_LINE = re.compile(r"(.+):([0-9]{1,18})")
_KEY = re.compile(r"([^=]+)=(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest:
    """One thing to forget; the keys that are not empty say which."""

    content: str = ""  # 32 hexadecimal digits
    key: str = ""
    value: Any = None
    path: str = ""
    line: int = 0  # from 1
    fingerprint: str = ""  # of the file, once it is known
    bytes: int = 0  # of the file then

    def __str__(self) -> str:
        if self.content:
            return f"content:{self.content}"
        return f"{self.path}:{self.line}" if self.path else f"{self.key}={self.value}"

    def as_json(self) -> str:
        """Return it as the list has it, which tells 1 from true."""
        return json.dumps(asdict(self), sort_keys=True)


Meant = tuple[ForgetRequest, Offsets]  # and the documents that it means


def read_requests(path: str) -> list[ForgetRequest]:
    """Read a list of documents: a line each, FILE:LINE, KEY=VALUE, a content hash, or JSON."""
    try:
        lines = read_bounded(path, MOST_BYTES).decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read --documents {path}: {cause}") from None
    found = [
        _parsed(line.strip(), f"line {number} of {path}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    if not found:
        raise ConfigError(f"--documents {path} names no document")
    return found


def _parsed(text: str, place: str) -> ForgetRequest:
    """
    >>> str(_parsed("a.jsonl:17", "")), _parsed("id=x", "").value
    ('a.jsonl:17', 'x')
    """
    if text.startswith("{"):
        try:
            return decode_as(text.encode(), ForgetRequest)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ConfigError(f"{place}: {error}") from None
    if match := _HEX.fullmatch(text):
        return ForgetRequest(content=match[1])
    if (match := _LINE.fullmatch(text)) and int(match[2]):
        return ForgetRequest(path=match[1], line=int(match[2]))
    if match := _KEY.fullmatch(text):
        return ForgetRequest(key=match[1], value=match[2])
    raise ConfigError(
        f"{place}: {short(text)!r} is no document; write FILE:LINE with lines from 1, KEY=VALUE, "
        "content:HASH, or JSON such as "
        '{"key": "id", "value": 17}'
    )


def read_ledger(out: Path) -> tuple[ForgetRequest, ...]:
    """Return what is to be forgotten in the datasets of a run."""
    data = read_sealed(out / LEDGER)
    if data is None:
        if (out / LEDGER).exists():
            raise CorruptError(
                f"{out / LEDGER} is damaged; restore it, or remove it and forget again what it held"
            )
        return ()
    return decode_as(data, tuple[ForgetRequest, ...])


def keys_needed(ledger: Iterable[ForgetRequest], keys: str | None) -> str | None:
    """Return which keys documents need, so that contents on the list are found among them."""
    return keys or (CONTENT if any(request.content for request in ledger) else None)


def lost_keys(ledger: Iterable[ForgetRequest], keys: str | None) -> list[str]:
    """Return the requests that cannot be looked for, as documents do not have their key."""
    return [str(each) for each in ledger if each.key and keys != f"{OF_KEY}{each.key}"]


def write_ledger(out: Path, requests: Iterable[ForgetRequest]) -> None:
    """Write the list durably, each thing once."""
    make_folder((out / LEDGER).parent)
    once = dict.fromkeys(request.as_json() for request in requests)
    write_sealed(out / LEDGER, f"[{', '.join(once)}]".encode())


class DocumentFinder:
    """Finds the documents of a tokenized part that requests mean."""

    def __init__(self, place: Path, manifest: TokenizedManifest) -> None:
        self._place, self._manifest = place, manifest
        self._origins: Origins | None = None
        self._keys: NDArray[Any] | None = None
        self._longer: dict[tuple[str, int, str], bool] = {}  # files that begin with others

    @property
    def has_keys(self) -> bool:
        shards = self._manifest.shards
        return bool(shards) and not isinstance(shards[0].keys, UnsetType)

    def find(self, requests: Sequence[ForgetRequest]) -> Offsets:
        """Return the documents, ascending."""
        found = [np.zeros(0, np.int64), *(each for _, each in self.find_each(requests))]
        return np.unique(np.concatenate(found))

    def find_each(self, requests: Sequence[ForgetRequest]) -> Iterator[Meant]:
        """Yield for each request the documents that it means here."""
        by_content = [request for request in requests if request.content]
        if by_content and self.has_keys:
            yield from self._by_content(by_content)
        for request in requests:
            if request.key:
                yield request, self._by_key(request)
            elif request.path:
                yield request, self._by_line(request)

    def resolved(self, request: ForgetRequest, documents: Offsets) -> list[ForgetRequest]:
        """Return what to remember, so that the same documents are found again."""
        if request.content:
            return [request]
        if request.path and self.has_keys:
            contents = hex_of_content(self._read_keys()["content"][documents])
            return [ForgetRequest(content=content) for content in contents]
        origins = self._read_origins()
        files, lines = origins.of(documents)
        found = [
            ForgetRequest(
                path=file.path,
                line=line + 1,
                fingerprint=file.fingerprint,
                bytes=file.start + max(file.bytes, 0),
            )
            for file, line in zip((origins.files[i] for i in files), lines.tolist(), strict=True)
        ]
        return [request, *found] if request.key else found  # splits may be by another key later

    def _by_content(self, requests: Sequence[ForgetRequest]) -> Iterator[Meant]:
        own = _whole(self._read_keys()["content"])
        order = np.argsort(own, kind="stable")
        wanted = _whole(content_of_hex([request.content for request in requests]))
        firsts, lasts = (
            np.searchsorted(own[order], wanted, side=side) for side in ("left", "right")
        )
        for request, first, last in zip(requests, firsts, lasts, strict=True):
            yield request, order[first:last].astype(np.int64)

    def _by_key(self, request: ForgetRequest) -> Offsets:
        if not self.has_keys or self._manifest.keys != f"{OF_KEY}{request.key}":
            return np.zeros(0, np.int64)  # it does not know this key of its documents
        group = groups_of([request.value])[0]
        found: Offsets = np.flatnonzero(self._read_keys()["group"] == group)
        return found

    def _by_line(self, request: ForgetRequest) -> Offsets:
        origins = self._read_origins()
        found = [np.zeros(0, np.int64)]
        for number, file in enumerate(origins.files):
            own = origins.documents_of(number, request.line - 1)
            if len(own) and self._is_meant(file, request):
                found.append(own)
        return np.unique(np.concatenate(found))

    def _is_meant(self, file: OriginFile, request: ForgetRequest) -> bool:
        """Return whether a file is the one of a request, perhaps under another name or longer."""
        if not request.fingerprint:
            names = {request.path, os.path.abspath(request.path)}
            return file.path in names or file.path.endswith(f"/{request.path.removeprefix('./')}")
        if file.fingerprint == request.fingerprint:
            return True
        if not file.start < request.bytes < file.start + file.bytes:
            return False
        asked = file.path, request.bytes, request.fingerprint
        if asked not in self._longer:
            self._longer[asked] = begins_with(*asked)
        return self._longer[asked]

    def _read_keys(self) -> NDArray[Any]:
        if self._keys is None:
            parts = [read_keys(self._place, shard) for shard in self._manifest.shards]
            self._keys = np.concatenate(parts)
        return self._keys

    def _read_origins(self) -> Origins:
        if self._origins is None:
            self._origins = origins_of(self._place, self._manifest)
        return self._origins


def _whole(content: NDArray[Any]) -> NDArray[Any]:
    """Return contents as values that can be sorted and compared."""
    halves = np.dtype([("a", "<u8"), ("b", "<u8")])
    return np.ascontiguousarray(content, "<u8").view(halves).reshape(-1)
