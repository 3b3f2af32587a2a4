"""Look up the values of a record's fields; a ValueError says what is wrong with which field."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.documents.codes import NotCodesError, integers_of
from dataprep.pipeline.errors import counted, short
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.types import MODALITIES, Ids, Record

SEGMENT_KEYS = frozenset(("type", "text", "codes", "loss", *MODALITIES))


def value_of(record: Record, key: str, flag: str = "--fields") -> Any:
    try:
        return record[key]
    except KeyError:
        joined = ", and note that + joins only texts" if "+" in key else ""
        raise ValueError(
            f"field {key!r} is missing (keys: {_some(record)}); set {flag}{joined}"
        ) from None


def text_of(record: Record, key: str) -> str:
    value = value_of(record, key)
    if isinstance(value, str):
        return value
    if isinstance(value, list | np.ndarray):
        # Only its length: some readers give lists of codes as arrays, which print otherwise.
        values = counted(len(value), "value")
        got = f"a list of {values}; if they are codes, name the field vision or audio"
    else:
        got = f"{type(value).__name__} {short(repr(value))}"
    raise ValueError(f"field {key!r} must be text, got {got}")


def codes_of(record: Record, key: str, block: Block, hint: str) -> NDArray[Any]:
    """Return the codes of one block, frame by frame; `hint` helps if the value is not codes."""
    value = value_of(record, key)
    try:
        return block.flatten(integers_of(value, block.raw_dtype, may_nest=block.may_nest))
    except NotCodesError as error:
        raise ValueError(f"field {key!r} {error}{hint}") from None
    except ValueError as error:
        # A list or a broken .npy was meant as codes, so no hint.
        raise ValueError(f"field {key!r} {error}") from None


def base64_ids(record: Record, key: str, vocab_size: int) -> Ids:
    value = value_of(record, key)
    try:
        ids = np.frombuffer(base64.b64decode(value, validate=True), "<i4")
    except (TypeError, ValueError, binascii.Error):
        raise ValueError(f"field {key!r} must be base64 of little-endian i32 ids") from None
    if len(ids) and (ids.min() < 0 or ids.max() >= vocab_size):
        bad = ids[(ids < 0) | (ids >= vocab_size)][0]
        raise ValueError(f"field {key!r} has id {bad}, outside the vocabulary of {vocab_size}")
    return ids.astype(np.uint32)


def segments_of(record: Record, key: str) -> list[tuple[str, bool, Any]]:
    """Return (text or a modality, loss, value) of each segment.

    In a table every segment has every key, so a null counts as a missing key.
    """
    value = value_of(record, key)
    if not isinstance(value, list):
        raise ValueError(
            f"field {key!r} must be a list of segments, got {type(value).__name__} "
            f"{short(repr(value))}; set modalities.segments if it is something else"
        )
    return [_segment(item, f"field '{key}[{i}]'") for i, item in enumerate(value)]


def _segment(item: Any, label: str) -> tuple[str, bool, Any]:
    if not isinstance(item, dict):
        raise ValueError(f"{label} must be an object with a type, got {short(repr(item))}")
    given = {name: value for name, value in item.items() if value is not None}
    if not given.keys() <= SEGMENT_KEYS:
        name = next(name for name in given if name not in SEGMENT_KEYS)
        raise ValueError(f"{label} has an unknown key {name!r}; known: type, text, codes, loss")
    kind, loss = given.pop("type", None), given.pop("loss", True)
    if kind not in ("text", *MODALITIES):
        known = ", ".join(("text", *MODALITIES))
        raise ValueError(f"{label} has type {short(repr(kind))}; use {known}")
    if not isinstance(loss, bool):
        raise ValueError(f"{label} has loss {short(repr(loss))}; use true or false")
    names = ("text",) if kind == "text" else ("codes", kind)
    if len(given) != 1 or not given.keys() <= set(names):
        found = ", ".join(given) or "nothing"
        raise ValueError(f"{label} is {kind}, so it needs {names[0]!r} and no more; it has {found}")
    (value,) = given.values()
    return kind, loss, value


def _some(record: Record) -> str:
    """Return the first keys of a record, each cut to 40 characters."""
    names = [key if key.isprintable() and len(key) <= 40 else repr(key)[:40] for key in record]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more or "none"
