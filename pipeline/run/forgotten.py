"""What a run must forget: the list. `finder` finds the documents that it means.

    out/.run/forgotten.json   what was asked for, as contents, values of keys, or file and line

    content 1cb9f4ab…      wherever it comes from, also in files that are read later
    key id = 17            every record with this value, if the split is by this key
    line 12 of 99aa…       of a file of this content, or one that was appended to it

The list is kept, so that what was forgotten stays away when a corpus is made anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from dataprep.pipeline.errors import ConfigError, CorruptError, short
from dataprep.pipeline.files import make_folder, read_sealed, write_sealed
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.run.parts import STATE
from dataprep.pipeline.storage.keys import CONTENT, OF_KEY
from dataprep.pipeline.typed import decode_as

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
    bytes: int = 0  # of the file then; 0: files that were appended to since are not meant

    def __str__(self) -> str:
        if self.content:
            return f"content:{self.content}"
        return f"{self.path}:{self.line}" if self.path else f"{self.key}={self.value}"

    def as_json(self) -> str:
        """Return it as the list has it, which tells 1 from true."""
        return json.dumps(asdict(self), sort_keys=True)


def read_requests(path: str) -> list[ForgetRequest]:
    """Read a list of documents: a line each, FILE:LINE, KEY=VALUE, a content hash, or JSON."""
    try:
        lines = read_bounded(path, MOST_BYTES).decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read --documents {path}: {cause}") from None
    found = [
        request
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
        for request in _parsed(line.strip(), f"line {number} of {path}")
    ]
    if not found:
        raise ConfigError(f"--documents {path} names no document")
    return found


def _parsed(text: str, place: str) -> list[ForgetRequest]:
    """Return what a line may mean: `id=user:17` is a value of a key, or line 17 of a file.

    >>> [str(each) for each in _parsed("a.jsonl:17", "")], _parsed("id=x", "")[0].value
    (['a.jsonl:17'], 'x')
    >>> [(each.path, each.key) for each in _parsed("id=user:17", "")]
    [('id=user', ''), ('', 'id')]
    """
    if text.startswith("{"):
        try:
            return [decode_as(text.encode(), ForgetRequest)]
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ConfigError(f"{place}: {error}") from None
    if match := _HEX.fullmatch(text):
        return [ForgetRequest(content=match[1])]
    if text.startswith("content:"):
        raise ConfigError(
            f"{place}: {short(text)!r} is no content; one has 32 hexadecimal digits, as in keys/ "
            "(a file called content is ./content:LINE)"
        )
    found = []
    if (match := _LINE.fullmatch(text)) and int(match[2]):
        found.append(ForgetRequest(path=match[1], line=int(match[2])))
    if match := _KEY.fullmatch(text):
        found.append(ForgetRequest(key=match[1], value=match[2]))
    if found:
        return found
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
