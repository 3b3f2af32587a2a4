"""The beginning of a record that could not be used, for people: short, UTF-8, no credentials.

    b'{"text": "a cat", "url": "ftp://me:pw@host/a"'   ─►   {"text": "a cat", "url": "ftp://***@host/a"

The same for the same record, however it was read: keys are sorted, long lists are cut alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from dataprep.pipeline.errors import short

LIMIT = 200  # characters
_WINDOW = 1000  # characters that are looked at: a credential must not be cut before it is hidden
# Of JSON, or of JSON in JSON. Spaces, quotes and brackets stay as they are: they would end a URL,
# and what follows them in a password would be shown.
_ESCAPED = re.compile(
    r"(?<!\\)\\+(?:(?P<plain>/)|u00(?P<code>00|(?!2[027]|3[ceCE])[2-6][0-9a-fA-F]|7[0-9a-eA-E]))"
)
_MOST = 20  # items of a list or keys of an object


def excerpt_of_bytes(data: bytes | memoryview) -> str:
    """
    >>> excerpt_of_bytes("na\\u00efve".encode("latin-1"))
    'na\ufffdve'
    """
    return _cut(bytes(data[: 4 * _WINDOW]).decode("utf-8", "replace"))


def excerpt_of(record: Mapping[str, Any]) -> str:
    """
    >>> excerpt_of({"text": None, "codes": list(range(100)), "image": b"..."})[:60]
    '{"codes": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,'
    >>> excerpt_of({"image": b"...", "text": None})
    '{"image": "<3 bytes>", "text": null}'
    """
    return _cut(json.dumps(_small(record), ensure_ascii=False, default=str))


def _cut(text: str) -> str:
    # A lone surrogate, which JSON may spell, is no UTF-8.
    safe = _unescaped(text[: 4 * _WINDOW])[:_WINDOW].encode("utf-8", "replace").decode("utf-8")
    return short(safe, LIMIT)


def _unescaped(text: str) -> str:
    r"""Return a text with URLs as they are known, however JSON or UTF-16 spells them.

    >>> _unescaped(r"ftp:\/\/me:p\u0022w\u0040host"), _unescaped("h\0t\0t\0p\0")
    ('ftp://me:p\\u0022w@host', 'http')
    """
    plain = _ESCAPED.sub(
        lambda found: found["plain"] or chr(int(found["code"], 16)), text.replace("\0", "")
    )
    return plain.replace("\0", "")


def _small(value: Any, depth: int = 0) -> Any:
    """Return as much of a value as an excerpt can show, in a form that JSON has."""
    if isinstance(value, str):
        return value[:_WINDOW]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth > 3:
        return "..."
    if isinstance(value, Mapping):
        keys = sorted(map(str, value))[:_MOST] if depth else sorted(map(str, value))
        return {key[:_WINDOW]: _small(value[key], depth + 1) for key in keys if key in value}
    if hasattr(value, "tolist"):  # codes may be an array or a list
        value = value[:_MOST].tolist() if getattr(value, "ndim", 0) else value.tolist()
    if isinstance(value, list | tuple):
        return [_small(item, depth + 1) for item in islice(value, _MOST)]
    return value
