"""What the records of a file are that has no schema: token ids, text or tf.train.Examples.

    05 00 00 00 2c 01 00 00       token ids, as xlstm-jax stores them       {"tokens": [5, 300]}
    4f 6e 63 65                   UTF-8 text                                {"text": "Once"}
    0a 0f 0a 0d 0a 04 …           tf.train.Example, as MaxText and TFDS     {"text": [5, 300]}

The form is told by several records, unless the config names it. Ids below 2^24 have a NUL in every
number, texts have none, and Examples fit their own lengths to the last byte: no two forms fit one
record, but for an empty one, which fits all. Ids of 64 bits look like ids of 32 bits with zeros
between them, so such records are told by the config alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import HeldBy, Holds, IntegerLists, offsets_of
from dataprep.pipeline.sources.blobs import TOKENS, Decode, DecodedBlobs, check_known
from dataprep.pipeline.sources.flat_hints import refuse_halves
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.reasons import invalid_utf8_reason
from dataprep.pipeline.storage.foreign.tfexample_read import (
    BYTES,
    FLOATS,
    INTEGERS,
    NONE,
    Feature,
    decode_alone,
    decode_example,
    float_lists,
    integer_lists,
)
from dataprep.pipeline.types import ABSENT, Record

TEXT, EXAMPLE = "text", "example"
ID_TYPES = {
    f"tokens_{name}": np.dtype(name).newbyteorder("<")
    for name in ("uint16", "int32", "uint32", "int64")
}
FORMS = (TEXT, EXAMPLE, *ID_TYPES)
TOLD = "tokens_int32"  # the only type of ids that is told by the bytes
_MOST_ID = 1 << 24


def form_told(records: Sequence[bytes], path: str) -> str:
    """Return the form of all these records; an InputError if none fits, or nothing tells."""
    filled = [record for record in records if record]
    fits = [name for name, is_one in _LOOKS_LIKE.items() if all(map(is_one, filled))]
    if fits[:1] == [TOLD] and may_be_wide(filled):
        raise InputError(
            f"the records of {path} may be int64 numbers, or int32 of which every second is 0; say "
            "what they are: --set records=tokens_int64 or --set records=tokens_int32"
        )
    if filled and fits:
        return fits[0]
    cause = "fit none of the known forms" if filled else "are all empty, so that nothing tells"
    raise InputError(
        f"the records of {path} {cause}; say what they are: --set records=FORM, one of "
        f"{', '.join(FORMS)}"
    )


def _is_example(record: bytes) -> bool:
    try:
        return bool(decode_example(record))
    except ValueError:
        return False


def _is_ids(record: bytes) -> bool:
    dtype = ID_TYPES[TOLD]
    if len(record) % dtype.itemsize:
        return False
    ids = np.frombuffer(record, dtype)
    return bool((ids >= 0).all() and (ids < _MOST_ID).all())


def may_be_wide(records: Sequence[bytes]) -> bool:
    """Return whether int32 ids may as well be int64 ones, whose upper halves are 0."""
    filled = [record for record in records if record]
    return bool(filled) and all(
        len(record) % 8 == 0 and not np.frombuffer(record, ID_TYPES[TOLD])[1::2].any()
        for record in filled
    )


def _is_text(record: bytes) -> bool:
    try:
        return "\0" not in record.decode("utf-8")
    except UnicodeDecodeError:
        return False


_LOOKS_LIKE: Mapping[str, Callable[[bytes], bool]] = {
    EXAMPLE: _is_example,
    TOLD: _is_ids,
    TEXT: _is_text,
}


def decoder_of(form: str, wanted: Wanted, path: str) -> Decode:
    """Return the function that decodes records of a form; an InputError if a key is not there."""
    check_keys(form, wanted.keys, path)
    if form in ID_TYPES:
        return partial(_ids, dtype=ID_TYPES[form], path=path)
    if form == TEXT:
        return _texts
    return partial(_examples, keys=wanted.keys, held_by=wanted.held_by)


def check_keys(form: str, keys: Keys | None, path: str) -> None:
    """Raise an InputError if records of this form never have a key that is needed."""
    if form != EXAMPLE:
        check_known(keys, [TEXT if form == TEXT else TOKENS], path)


def _ids(records: Sequence[bytes], dtype: np.dtype[Any], path: str) -> DecodedBlobs:
    reasons = {
        i: f"has {len(record)} bytes, which are no {dtype.name} numbers"
        for i, record in enumerate(records)
        if len(record) % dtype.itemsize
    }
    good = [record for i, record in enumerate(records) if i not in reasons] if reasons else records
    values = np.frombuffer(b"".join(good), dtype)
    lists = IntegerLists(values, offsets_of([len(r) // dtype.itemsize for r in good]))
    if dtype != ID_TYPES[TOLD]:  # which is said if `form_told` asks
        refuse_halves(lists, path)
    return DecodedBlobs(reasons=reasons, columns={TOKENS: lists})


def _texts(records: Sequence[bytes]) -> DecodedBlobs:
    texts: list[str] = []
    reasons: dict[int, str] = {}
    for i, record in enumerate(records):
        try:
            texts.append(record.decode("utf-8"))
        except UnicodeDecodeError as fault:
            reasons[i] = invalid_utf8_reason(fault, "it")
    return DecodedBlobs(reasons=reasons, columns={TEXT: texts})


# --- examples ---


def _examples(records: Sequence[bytes], keys: Keys | None, held_by: HeldBy) -> DecodedBlobs:
    parsed: list[dict[str, Feature]] = []
    reasons: dict[int, str] = {}
    alone = next(iter(keys.names)).encode() if keys and len(keys.names) == 1 else b""
    for i, record in enumerate(records):
        feature = decode_alone(record, alone) if alone else None
        if feature is not None:
            parsed.append({alone.decode(): feature})
            continue
        try:
            parsed.append(decode_example(record))
        except ValueError as error:
            reasons[i] = f"is no tf.train.Example: {error}"
    try:
        if keys is not None and not any(map(keys.lacking, parsed)):
            tops = [key for key in sorted(keys.tops) if any(key in found for found in parsed)]
            columns = {key: _column([f.get(key) for f in parsed], held_by(key)) for key in tops}
            return DecodedBlobs(reasons=reasons, columns=columns)
        return DecodedBlobs(reasons=reasons, rows=[_row(found, held_by) for found in parsed])
    except ValueError:
        if len(records) > 1:
            return _one_by_one(records, keys, held_by)
        return DecodedBlobs(
            reasons={0: "is no tf.train.Example: a list ends within a number"}, rows=[]
        )


def _one_by_one(records: Sequence[bytes], keys: Keys | None, held_by: HeldBy) -> DecodedBlobs:
    """Return the same as rows, if one of the records has a list that cannot be decoded."""
    rows: list[Record] = []
    reasons: dict[int, str] = {}
    for i, record in enumerate(records):
        one = _examples([record], None, held_by)
        rows += one.rows or ()
        if one.reasons:
            reasons[i] = one.reasons[0]
    return DecodedBlobs(reasons=reasons, rows=rows)


def _row(features: Mapping[str, Feature], held_by: HeldBy) -> Record:
    return {key: _value(feature, held_by(key)) for key, feature in features.items()}


_NUMBERS: Mapping[int, Callable[[Sequence[Feature]], IntegerLists]] = {
    INTEGERS: integer_lists,
    FLOATS: float_lists,
}


def _column(features: Sequence[Feature | None], holds: Holds) -> Sequence[Any]:
    """Return the values of a key, ABSENT where a record lacks it."""
    there = [feature for feature in features if feature is not None]
    kinds = {feature.kind for feature in there} - {NONE}
    (kind,) = kinds if len(kinds) == 1 else (INTEGERS,) if not kinds else (BYTES,)
    if holds and kind in _NUMBERS and len(there) == len(features):
        return _NUMBERS[kind](there)
    return [ABSENT if feature is None else _value(feature, holds) for feature in features]


def _value(feature: Feature, holds: Holds) -> Any:
    """Return one value: an array if the key holds numbers, else a list, or what alone is in it."""
    if feature.kind in _NUMBERS:
        numbers = _NUMBERS[feature.kind]([feature])[0]
        if holds:
            return numbers
        values: list[Any] = numbers.tolist()
    else:
        values = [_text(part) for part in feature.parts]
    return values[0] if len(values) == 1 and not holds else values


def _text(part: bytes) -> str | bytes:
    try:
        return part.decode("utf-8")
    except UnicodeDecodeError:
        return part
