"""Turn codes, in any form that a record may have them in, into integers.

    [754, 1512]                     ints; also digit strings ["754", "1512"] and integral floats
    [[754, 3], [1512, 9]]           K codebooks: K lists of equal length
    "8gLoBQ=="                      base64 of little-endian integers
    "k05VTVBZ…", b"\\x93NUMPY…"     an .npy, in base64 or as bytes; never unpickled
    array([754, 1512])              a list, as some readers give it

`modalities` checks whether codes are in range and fill their frames.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import short
from dataprep.pipeline.sources.npy_header import NPY_MAGIC, integers_in

DIGITS = re.compile(r"0*[0-9]{1,18}")
Integers = NDArray[Any]  # of any integer type


class NotCodesError(ValueError):
    """The value may never have been meant as codes."""


def integers_of(value: Any, raw_dtype: np.dtype[Any], *, may_nest: bool) -> Integers:
    """Return the integers in the shape they are given in; ValueError says what is wrong.

    With `may_nest` a list may hold a list for each codebook.
    """
    if isinstance(value, list):
        return _from_list(value, may_nest)
    if isinstance(value, str):
        value = _from_base64(value)
    if isinstance(value, bytes):
        value = _from_bytes(value, raw_dtype)
    if not isinstance(value, np.ndarray):
        raise NotCodesError(f"must be a list of codes, got {type(value).__name__}")
    if value.dtype == np.uint64:  # together with signed integers NumPy would make floats of them
        if value.size and int(value.max()) >> 63:
            raise ValueError(f"has code {int(value.max())}, which does not fit 63 bits")
        return value.astype(np.int64)
    return value


def _from_list(value: list[Any], may_nest: bool) -> Integers:
    kinds = set(map(type, value))
    if kinds & {list, np.ndarray} and not may_nest:
        raise ValueError("is a nested list; give the codes of all frames as one flat list")
    if kinds and kinds <= {list, np.ndarray}:
        rows = [row if isinstance(row, np.ndarray) else _from_list(row, False) for row in value]
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            shortest, longest = min(lengths), max(lengths)
            raise ValueError(f"has nested lists of unequal length, {shortest} to {longest}")
        return np.stack(rows)
    if not kinds <= {int, str, float}:
        # The reader may have turned lists into arrays.
        names = {"list" if kind is np.ndarray else kind.__name__ for kind in kinds}
        wrong = ", ".join(sorted(names - {"int", "str", "float"}))
        raise ValueError(f"holds {wrong}; codes are ints, digit strings or integral floats")
    plain = value if kinds <= {int} else [_as_integer(v, i) for i, v in enumerate(value)]
    try:
        return np.array(plain, np.int64)
    except OverflowError:
        raise ValueError("holds a code that does not fit 64 bits") from None


def _as_integer(value: int | str | float, place: int) -> int:
    if isinstance(value, str):
        if DIGITS.fullmatch(value):
            return int(value)
    elif isinstance(value, int) or value.is_integer():
        return int(value)
    raise ValueError(f"has code {short(repr(value))} at position {place}, which is not an integer")


def _from_base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        got = repr(short(value))
        raise NotCodesError(f"must be a list of codes or base64 of them, got {got}") from None


def _from_bytes(data: bytes, raw_dtype: np.dtype[Any]) -> Integers:
    if data.startswith(NPY_MAGIC):
        return _from_npy(data)
    if len(data) % raw_dtype.itemsize:
        raise NotCodesError(
            f"must be a list of codes, or codes of type {raw_dtype.name} in base64 or bytes, but "
            f"has {len(data)} bytes; set raw_dtype to their type"
        )
    return np.frombuffer(data, raw_dtype)


def _from_npy(data: bytes) -> Integers:
    try:
        return integers_in(data)
    except ValueError as error:
        raise ValueError(f"holds {error}") from None
