r"""Decode tf.train.Example, the records of MaxText and TFDS, without TensorFlow or protobuf.

    Example      0a len Features
    Features     0a len entry, for each key           entry: 0a len key, 12 len Feature
    Feature      0a len BytesList | 12 len FloatList | 1a len Int64List
    Int64List    0a len varints one after another     or 08 varint, again and again

    {"text": [5, 300]}    0a 0f 0a 0d 0a 04 t e x t 12 05 1a 03 0a 03 … 05 ac 02

Records are followed key by key; the numbers in them are decoded together, of all records at once.
What protobuf writes is read as it reads it: fields of other numbers are skipped, lists may be in
parts, and of a key that comes twice the last counts. A ValueError says where bytes are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.storage.foreign.tfexample import head_of
from dataprep.pipeline.storage.foreign.varints import MOST_BYTES, decode_varints

NONE, BYTES, FLOATS, INTEGERS = 0, 1, 2, 3  # the numbers of the lists in a Feature
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # how a field is stored
_LEAST_HEAD, _MOST_HEAD = 10, 26  # bytes of tags and sizes before the integers of a record
_DEEPEST = 99  # groups inside each other, which nobody writes any more


class Feature(NamedTuple):
    """The list under one key: texts, or numbers as they are stored, in parts."""

    kind: int
    parts: tuple[bytes, ...]


_EMPTY = Feature(NONE, ())


def decode_example(data: bytes) -> dict[str, Feature]:
    """Return the features of one record; ValueError says why it is no tf.train.Example."""
    entries: list[tuple[int, int]] = []
    for number, _, start, stop in _delimited(data, 0, len(data)):
        if number == 1:
            entries += [
                (first, last) for n, _, first, last in _delimited(data, start, stop) if n == 1
            ]
    features: dict[str, Feature] = {}
    for start, stop in entries:
        key, feature = b"", _EMPTY
        for number, wire, first, last in _fields(data, start, stop):
            if wire != _DELIMITED or number > 2:  # protobuf drops such an entry without a word
                raise ValueError(f"no key or value at byte {first}")
            if number == 1:
                key = data[first:last]
            else:
                feature = _feature(data, first, last, feature)
        try:
            features[key.decode("utf-8")] = feature
        except UnicodeDecodeError:
            raise ValueError(f"a key at byte {start} is not UTF-8") from None
    return features


def decode_alone(data: bytes, key: bytes) -> Feature | None:
    """Return the only feature of a record, if that has integers under this key and nothing else.

    As protobuf writes it, what stands before the integers follows from the size of the record, so
    that one comparison tells: a fifth of the time.
    """
    head = _head_alone(key, len(data))
    return Feature(INTEGERS, (data[len(head) :],)) if head and data.startswith(head) else None


@lru_cache(maxsize=1 << 16)
def _head_alone(key: bytes, size: int) -> bytes:
    """Return how a record of so many bytes begins that has only integers under this key; b"": no
    record of this size does."""
    for length in range(len(key) + 2 + _LEAST_HEAD, len(key) + 2 + _MOST_HEAD):
        if length < size and len(head := head_of(key, size - length)) == length:
            return head
    return b""


def _feature(data: bytes, start: int, stop: int, found: Feature) -> Feature:
    """Return a feature, merged with what was found of it before."""
    for kind, _, first, last in _delimited(data, start, stop):
        if kind not in (BYTES, FLOATS, INTEGERS):
            continue
        before = found.parts if found.kind == kind else ()
        found = Feature(kind, (*before, *_values(data, first, last, kind)))
    return found


def _values(data: bytes, start: int, stop: int, kind: int) -> list[bytes]:
    """Return the texts of a list, or its numbers as they are stored."""
    wanted = {BYTES: (_DELIMITED,), FLOATS: (_DELIMITED, _FIXED32)}
    stored = wanted.get(kind, (_DELIMITED, _VARINT))
    found = [
        data[first:last]
        for number, wire, first, last in _fields(data, start, stop)
        if number == 1 and wire in stored
    ]
    if kind == FLOATS and any(len(part) % 4 for part in found):
        raise ValueError(f"a list of floats at byte {start} ends within one")
    return found


Place = tuple[int, int, int, int]  # of a field: its number, how it is stored, where it is


def _delimited(data: bytes, start: int, stop: int) -> list[Place]:
    return [field for field in _fields(data, start, stop) if field[1] == _DELIMITED]


def _fields(data: bytes, place: int, stop: int) -> list[Place]:
    """Return the fields of the message between two places."""
    found: list[Place] = []
    while place < stop:
        tag, first = _varint(data, place, stop)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ValueError(f"no field at byte {place}")
        if wire == _DELIMITED:
            size, first = _varint(data, first, stop)
            last = first + size
        elif wire == _VARINT:
            _, last = _varint(data, first, stop)
        elif wire in (_FIXED64, _FIXED32):
            last = first + (8 if wire == _FIXED64 else 4)
        else:
            last = _after_group(data, place, stop)
        if last > stop:
            raise ValueError(f"the field at byte {place} ends after what holds it")
        found.append((number, wire, first, last))
        place = last
    return found


def _after_group(data: bytes, place: int, stop: int) -> int:
    """Return the place after a group, which begins with a tag of its own and ends with another."""
    begun: list[int] = []
    while place < stop:
        tag, first = _varint(data, place, stop)
        number, wire = tag >> 3, tag & 7
        if wire == 3:
            begun.append(number)
            place = first
        elif wire == 4:
            if not begun or begun.pop() != number:
                break
            place = first
        elif wire == _DELIMITED:
            size, first = _varint(data, first, stop)
            place = first + size
        elif wire == _VARINT:
            _, place = _varint(data, first, stop)
        elif wire in (_FIXED64, _FIXED32) and number:
            place = first + (8 if wire == _FIXED64 else 4)
        else:
            break
        if not begun:
            return place
        if len(begun) > _DEEPEST:
            break
    raise ValueError(f"no field at byte {place}")


def _varint(data: bytes, place: int, stop: int) -> tuple[int, int]:
    """Return a number of up to 64 bits, and the place after it."""
    value = shift = 0
    first = place
    while place < stop:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
        if shift == 7 * MOST_BYTES:
            break
    raise ValueError(f"no number at byte {first}")


# --- numbers of many features ---


def integer_lists(features: Sequence[Feature]) -> IntegerLists:
    """Return the integers of features as int64; ValueError if one ends within a number."""
    stored = [b"".join(feature.parts) for feature in features]
    values, ends = decode_varints(b"".join(stored))
    bounds = offsets_of([len(each) for each in stored])
    places = np.searchsorted(ends, bounds, side="left")
    # Behind the last number of each feature its bytes must end, too.
    stops = np.concatenate(([0], ends + 1))[places]
    if not np.array_equal(stops, bounds):
        raise ValueError("a list of integers ends within one")
    return IntegerLists(values, places.astype(np.int64))


def float_lists(features: Sequence[Feature]) -> IntegerLists:
    """Return the floats of features."""
    stored = [b"".join(feature.parts) for feature in features]
    sizes = [len(each) // 4 for each in stored]
    return IntegerLists(np.frombuffer(b"".join(stored), "<f4"), offsets_of(sizes))
