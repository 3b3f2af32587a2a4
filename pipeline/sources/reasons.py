"""Explain why a record could not be read, and where in the record the fault is."""

from __future__ import annotations

import re

from dataprep.pipeline.sources.json.array import JSON_SPACE

_GOT = re.compile(r"^Expected `object`, got `(\w+)`")
_JSON_NAMES = {
    "null": "null",
    "array": "a list",
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "a boolean",
}
# Escapes from left to right, whole surrogate pairs first: a surrogate in group 1 has no partner.
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class DuplicateKeyError(ValueError):
    """A wanted key appears twice in an object; the argument is the key."""


def too_long_reason(num_bytes: int, max_record_bytes: int) -> str:
    return f"record of {num_bytes} bytes is longer than the limit of {max_record_bytes}"


def invalid_utf8_reason(fault: UnicodeDecodeError, place: str) -> str:
    """
    >>> invalid_utf8_reason(UnicodeDecodeError("utf-8", b"ab\\xff", 2, 3, ""), "text")
    'invalid UTF-8: byte 0xff at byte 2 of the text'
    """
    byte = fault.object[fault.start]
    return f"invalid UTF-8: byte 0x{byte:02x} at byte {fault.start} of the {place}"


def explain(data: bytes, error: Exception) -> str:
    """Return the reason why this record could not be read."""
    if isinstance(error, DuplicateKeyError):
        return f"key {error.args[0]!r} appears twice in the object"
    if isinstance(error, RecursionError):
        return "not readable: nested too deeply"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as fault:
        return invalid_utf8_reason(fault, "record")
    for escape in _ESCAPES.finditer(data):
        if escape[1] is not None:
            return f"lone surrogate \\{escape[1].decode()} at byte {escape.start()} of the record"
    if not data.strip(JSON_SPACE):
        return "not valid JSON: nothing between two commas"
    kind = _GOT.match(str(error))
    if kind:
        return f"not an object but {_JSON_NAMES.get(kind[1], kind[1])}"
    return f"not valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
