"""Bytes of other formats: equal to what their own libraries write, whatever the documents."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.pipeline.export.bridge import _columns as bridge_columns
from dataprep.pipeline.export.pieces import cut, num_cut, pieces_of
from dataprep.pipeline.export.sequences import Sequences
from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.storage.foreign import mds, megatron
from dataprep.pipeline.storage.foreign.tfexample import encode_examples
from dataprep.pipeline.storage.foreign.varints import encode_varints, varint

NUMBERS = st.lists(st.integers(0, (1 << 31) - 1) | st.integers(0, 300), max_size=40)
LISTS = st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=30), max_size=12)


@given(NUMBERS | st.lists(st.integers(0, (1 << 63) - 1), max_size=9))
def test_varints_of_many_are_those_of_each(values: list[int]) -> None:
    data, offsets = encode_varints(np.array(values, np.uint64))
    found = [data[a:b].tobytes() for a, b in pairwise(offsets)]
    assert found == [varint(value) for value in values]


@pytest.fixture(scope="module")
def example_class() -> Any:
    """tf.train.Example as protobuf makes it from its description."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pb = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", package="t", syntax="proto3")
    numbers = file.message_type.add(name="Int64List")
    numbers.field.add(name="value", number=1, type=pb.TYPE_INT64, label=pb.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.field.add(
        name="int64_list",
        number=3,
        type=pb.TYPE_MESSAGE,
        label=pb.LABEL_OPTIONAL,
        type_name=".t.Int64List",
    )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=pb.TYPE_STRING, label=pb.LABEL_OPTIONAL)
    entry.field.add(
        name="value",
        number=2,
        type=pb.TYPE_MESSAGE,
        label=pb.LABEL_OPTIONAL,
        type_name=".t.Feature",
    )
    features.field.add(
        name="feature",
        number=1,
        type=pb.TYPE_MESSAGE,
        label=pb.LABEL_REPEATED,
        type_name=".t.Features.FeatureEntry",
    )
    example = file.message_type.add(name="Example")
    example.field.add(
        name="features",
        number=1,
        type=pb.TYPE_MESSAGE,
        label=pb.LABEL_OPTIONAL,
        type_name=".t.Features",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


@settings(deadline=None)
@given(LISTS | st.lists(st.lists(st.integers(0, (1 << 31) - 1)), max_size=5))
def test_examples_are_byte_by_byte_those_of_protobuf(
    example_class: Any, lists: list[list[int]]
) -> None:
    flat = np.array([value for one in lists for value in one], np.uint32)
    found = encode_examples("text", flat, offsets_of([len(one) for one in lists]))
    for data, one in zip(found, lists, strict=True):
        example = example_class()
        example.features.feature["text"].int64_list.value.extend(one)
        assert data == example.SerializeToString(deterministic=True)


def test_long_documents_are_too(example_class: Any) -> None:
    ids = np.arange(300_000, dtype=np.uint32) * 7 % 60_000
    example = example_class()
    example.features.feature["text"].int64_list.value.extend(ids.tolist())
    assert encode_examples("text", ids, np.array([0, len(ids)])) == [example.SerializeToString()]


@given(st.lists(st.integers(1, 1000), max_size=20), st.sampled_from(["<u2", "<i4"]))
def test_the_index_of_megatron_says_where_documents_are(lengths: list[int], dtype: str) -> None:
    data = megatron.encode_index(np.array(lengths, np.int64), np.dtype(dtype))
    count, width = len(lengths), np.dtype(dtype).itemsize
    assert struct.unpack_from("<9sQBQQ", data) == (
        *(b"MMIDIDX\0\0", 1, 8 if width == 2 else 4, count, count + 1),
    )
    places = [width * sum(lengths[:i]) for i in range(count)]
    wanted = struct.pack(f"<{count}i{count}q{count + 1}q", *lengths, *places, *range(count + 1))
    assert data[34:] == wanted


@given(LISTS)
def test_samples_of_mds_are_columns_with_their_sizes(lists: list[list[int]]) -> None:
    flat = np.array([value for one in lists for value in one], "<i4")
    offsets = offsets_of([len(one) for one in lists])
    column = mds.settings_of({"tokens": "ndarray:int32"})
    samples, sizes = mds.encode_samples([(flat, offsets)])
    bodies = [b"\x04" + bytes([len(one)]) + struct.pack(f"<{len(one)}i", *one) for one in lists]
    wanted = [struct.pack("<I", len(body)) + body for body in bodies]
    assert samples == b"".join(wanted)
    assert sizes.tolist() == list(map(len, wanted))
    head = mds.encode_head(sizes, column)
    places = struct.unpack_from(f"<{len(lists) + 1}I", head, 4)
    whole = head + samples
    assert places[0] == len(head)
    assert places[-1] == len(whole)
    assert json.loads(head[4 * (len(lists) + 2) :])["column_names"] == ["tokens"]


def test_lengths_of_mds_are_as_wide_as_they_need() -> None:
    for length, head in ((255, b"\x04\xff"), (256, b"\x05\x00\x01"), (1 << 16, b"\x06\0\0\x01\0")):
        sample, _ = mds.encode_samples([(np.zeros(length, "<u1"), np.array([0, length]))])
        assert sample[4 : 4 + len(head)] == head


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 60))
def test_pieces_are_documents_cut_after_so_many_tokens(lengths: list[int], most: int) -> None:
    wanted = [min(most, n - start) for n in lengths for start in range(0, n, most)]
    assert np.diff(cut(offsets_of(lengths), most)).tolist() == wanted
    assert num_cut(np.array(lengths, np.int64), most) == sum(n > most for n in lengths)


@given(LISTS, st.integers(1, 9), st.data())
def test_pieces_leave_out_the_last_token_of_some_documents(
    lists: list[list[int]], most: int, data: st.DataObject
) -> None:
    flat = [value for one in lists for value in one]
    goes = data.draw(st.lists(st.booleans(), min_size=len(lists), max_size=len(lists)))
    offsets = offsets_of([len(one) for one in lists])
    lengths = np.diff(offsets) - np.array(goes, bool)
    starts, stops = pieces_of(offsets[:-1], lengths, most)
    left = [one[:-1] if gone else one for one, gone in zip(lists, goes, strict=True)]
    wanted = [one[i : i + most] for one in left for i in range(0, len(one), most)]
    assert [flat[a:b] for a, b in zip(starts, stops, strict=True)] == wanted


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1), st.data())
def test_bridge_has_the_loss_of_the_next_token(rows: list[list[int]], data: st.DataObject) -> None:
    total = sum(map(sum, rows))
    loss = np.array(data.draw(st.lists(st.booleans(), min_size=total, max_size=total)))
    flat = np.array([n for row in rows for n in row], np.int64)
    sequences = Sequences(
        tokens=np.arange(total, dtype=np.uint16),
        offsets=offsets_of([sum(row) for row in rows]),
        masks={"loss": loss},
        lengths=IntegerLists(flat, offsets_of([len(row) for row in rows])),
    )
    columns = {name: array.to_pylist() for name, array in bridge_columns(sequences).items()}
    place = 0
    for number, row in enumerate(rows):
        assert columns["seq_start_id"][number] == [sum(row[:i]) for i in range(len(row))]
        wanted = []
        for length in row:
            wanted += [*loss[place + 1 : place + length].astype(int).tolist(), 0]
            place += length
        assert columns["loss_mask"][number] == wanted
