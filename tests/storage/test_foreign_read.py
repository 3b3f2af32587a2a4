"""The formats of other trainers are decoded as their own libraries do it, or refused."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.storage.foreign import mds_read, megatron_read
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
from dataprep.pipeline.storage.foreign.varints import decode_varints, encode_varints
from support.foreign import example_bytes, example_class, mds_array, mds_shard, write_megatron

INTS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS32 = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(
    st.lists(INTS, max_size=5), st.lists(FLOATS32, max_size=5), st.lists(st.binary(), max_size=4)
)
RECORDS = st.dictionaries(st.text(max_size=6), VALUES, max_size=4)


def plain(features: dict[str, Feature]) -> dict[str, list[Any]]:
    """The values of decoded features, as Python has them."""
    numbers = {INTEGERS: integer_lists, FLOATS: float_lists}
    return {
        key: numbers[f.kind]([f])[0].tolist() if f.kind in numbers else list(f.parts)
        for key, f in features.items()
    }


def by_protobuf(data: bytes) -> dict[str, list[Any]] | None:
    """The same as protobuf reads it; None if it does not."""
    from google.protobuf.message import DecodeError

    example = example_class()()
    try:
        example.ParseFromString(data)
    except DecodeError:
        return None
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        if feature.WhichOneof("kind")
        else []
        for key, feature in example.features.feature.items()
    }


@settings(max_examples=150, deadline=None)
@given(record=RECORDS)
def test_examples_are_what_protobuf_wrote(record: dict[str, list[Any]]) -> None:
    data = example_bytes(record)
    assert plain(decode_example(data)) == record == by_protobuf(data)


def same_or_refused(data: bytes) -> None:
    expected = by_protobuf(data)
    try:
        found: dict[str, list[Any]] | None = plain(decode_example(data))
    except ValueError:
        found = None
    # Where either refuses the bytes, they are damaged: protobuf also looks into other fields.
    both = expected is not None and found is not None
    assert not both or found == expected or repr(found) == repr(expected)  # NaN is not itself


@settings(max_examples=150, deadline=None)
@given(record=RECORDS, data=st.data())
def test_a_damaged_example_is_read_as_protobuf_reads_it(
    record: dict[str, list[Any]], data: st.DataObject
) -> None:
    encoded = bytearray(example_bytes(record) or b"\n\0")
    place = data.draw(st.integers(0, len(encoded) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "insert"]))
    if how == "flip":
        encoded[place] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del encoded[place:]
    else:
        encoded[place:place] = data.draw(st.binary(max_size=3))
    same_or_refused(bytes(encoded))


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=40))
def test_any_bytes_are_an_example_or_refused(data: bytes) -> None:
    same_or_refused(data)


@settings(max_examples=60, deadline=None)
@given(ids=st.lists(INTS, max_size=300), key=st.text(min_size=1, max_size=20))
def test_a_record_with_one_key_is_told_by_its_first_bytes(ids: list[int], key: str) -> None:
    feature = decode_alone(example_bytes({key: ids}), key.encode())
    assert (feature is None) == (not ids)
    assert feature is None or plain({key: feature}) == {key: ids}
    assert decode_alone(example_bytes({key: ids, f"{key}.": [1]}), key.encode()) is None
    assert decode_alone(example_bytes({key: [b"abc"]}), key.encode()) is None


def test_lists_that_are_not_packed_and_parts_of_a_list_are_read() -> None:
    # {"a": [5, 300]}, each number by itself; then 7, packed, in another part of the list
    numbers = b"\x08\x05\x08\xac\x02"
    lists = b"\x1a" + bytes([len(numbers)]) + numbers + b"\x1a\x03\x0a\x01\x07"
    entry = b"\x0a\x01a\x12" + bytes([len(lists)]) + lists
    data = b"\x0a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
    assert plain(decode_example(data)) == by_protobuf(data) == {"a": [5, 300, 7]}
    assert decode_example(b"") == {}


def test_integers_of_many_features_are_decoded_together() -> None:
    features = [
        Feature(INTEGERS, (b"\x05", b"\xac\x02")),
        Feature(NONE, ()),
        Feature(3, (b"\x00",)),
    ]
    assert [ids.tolist() for ids in integer_lists(features)] == [[5, 300], [], [0]]
    with pytest.raises(ValueError, match="ends within"):
        integer_lists([Feature(INTEGERS, (b"\x85",)), Feature(INTEGERS, (b"\x01",))])
    with pytest.raises(ValueError, match="more than 64 bits"):
        decode_varints(b"\xff" * 10 + b"\x01")
    assert decode_varints(b"\xff" * 9 + b"\x01")[0].tolist() == [-1]
    assert decode_example(example_bytes({"a": [b"x"]})) == {"a": Feature(BYTES, (b"x",))}


@settings(max_examples=50, deadline=None)
@given(numbers=st.lists(st.integers(0, (1 << 63) - 1)))
def test_varints_are_the_numbers_that_were_encoded(numbers: list[int]) -> None:
    data, _ = encode_varints(np.array(numbers, np.int64))
    assert decode_varints(data.tobytes())[0].tolist() == numbers


# --- Megatron ---


def index_of(data: bytes) -> megatron_read.MegatronIndex:
    return megatron_read.read_index(io.BytesIO(data), len(data))


def test_an_index_of_megatron_is_read_in_ranges(tmp_path: Any) -> None:
    idx = write_megatron(tmp_path / "a", [[[1, 2], [3]], [], [[4, 5, 6]]]).read_bytes()
    index = index_of(idx)
    assert (index.dtype.name, index.num_sequences, index.num_documents) == ("uint16", 3, 3)
    file = io.BytesIO(idx)
    assert index.read(file, "lengths", 1, 3).tolist() == [1, 3]
    assert index.read(file, "places", 0, 3).tolist() == [0, 4, 6]
    assert index.read(file, "documents", 0, 4).tolist() == [0, 2, 2, 3]
    assert index_of(idx + b"\0\0\1").has_modes


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda idx: b"X" + idx[1:], "does not begin like"),
        (lambda idx: idx[:20], "does not begin like"),
        (lambda idx: idx[:9] + b"\2" + idx[10:], "version 2"),
        (lambda idx: idx[:17] + b"\11" + idx[18:], "the type 9"),
        (lambda idx: idx[:17] + b"\6" + idx[18:], "float64 numbers"),
        (lambda idx: idx[:-1], "it has 73 bytes, but 2 sequences and 1 documents need 74"),
        (lambda idx: idx[:26] + bytes(8) + idx[34:], "list of documents is empty"),
        (lambda idx: idx[:18] + b"\xff" * 16 + idx[34:], "it has 74 bytes"),
    ],
)
def test_a_damaged_index_of_megatron_is_refused(change: Any, reason: str, tmp_path: Any) -> None:
    idx = write_megatron(tmp_path / "a", [[[1, 2], [3]]]).read_bytes()
    with pytest.raises(ValueError, match=reason):
        index_of(change(idx))


# --- MDS ---


def test_a_shard_of_mds_is_cut_into_columns() -> None:
    columns = {"tokens": "ndarray:int32", "n": "int", "name": "str"}
    samples = [[mds_array([5, 6]), np.int64(i).tobytes(), f"ä{i}".encode()] for i in range(3)]
    data = mds_shard(samples, columns)
    head = mds_read.read_head(data, len(data))
    assert head.num_samples == 3
    body = data[int(head.places[0]) :]
    cut = mds_read.cut_columns(body, head.places - head.places[0], head)
    assert cut["name"] == [b"\xc3\xa40", b"\xc3\xa41", b"\xc3\xa42"]
    assert [mds_read.value_of_mds(value, "int") for value in cut["n"]] == [0, 1, 2]
    lists = mds_read.number_lists(cut["tokens"], "ndarray:int32")
    assert lists is not None
    assert [ids.tolist() for ids in lists] == [[5, 6]] * 3
    assert mds_read.value_of_mds(cut["tokens"][0], "ndarray:int32").tolist() == [5, 6]


@pytest.mark.parametrize(
    ("data", "encoding", "value"),
    [
        (b"\x10\x05\x01\x00\x07\x00", "ndarray", [7]),
        (b"\x07\x00\x08\x00", "ndarray:uint16:2", [7, 8]),
        (b"\x08\x02\x02\x01\x02\x03\x04", "ndarray:uint8", [[1, 2], [3, 4]]),
        (b"\x07\x00", "uint16", 7),
        (b'{"a": [1]}', "json", {"a": [1]}),
        (b"12", "str_int", 12),
        (b"\xff\xd8", "jpeg", b"\xff\xd8"),
    ],
)
def test_values_of_mds_are_decoded(data: bytes, encoding: str, value: Any) -> None:
    found = mds_read.value_of_mds(data, encoding)
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == value


@pytest.mark.parametrize(
    ("data", "encoding", "reason"),
    [
        (b"x", "pkl", "'pkl', which is not read"),
        (b"\xff", "str", "is not UTF-8"),
        (b"x", "str_int", "is no value of the encoding"),
        (b"\x07", "uint16", "must have 2 bytes"),
        (b"", "ndarray", "unknown type"),
        (b"\x63", "ndarray", "unknown type"),
        (b"\x10", "ndarray", "without a shape"),
        (b"\x10\x05\x01", "ndarray", "ends within its shape"),
        (b"\x10\x05\x01\x00\x07", "ndarray", "ends within a number"),
        (b"\x10\x05\x02\x00\x07\x00", "ndarray", "does not have its shape"),
        (b"\x07", "ndarray:object", "which is not read"),
    ],
)
def test_values_that_mds_cannot_have_are_refused(data: bytes, encoding: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        mds_read.value_of_mds(data, encoding)


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, 400), value=st.integers(0, 255))
def test_a_damaged_shard_of_mds_is_refused_or_another(place: int, value: int) -> None:
    columns = {"tokens": "ndarray:int32", "n": "int", "name": "str"}
    samples = [[mds_array([5, 6]), np.int64(i).tobytes(), b"name"] for i in range(3)]
    data = bytearray(mds_shard(samples, columns))
    data[place % len(data)] = value
    try:
        head = mds_read.read_head(bytes(data), len(data))
        body = bytes(data[int(head.places[0]) :])
        cut = mds_read.cut_columns(body, head.places - head.places[0], head)
        for column in head.columns:
            mds_read.number_lists(cut[column.name], column.encoding)
            for each in cut[column.name]:
                mds_read.value_of_mds(each, column.encoding)
    except ValueError:
        pass
