"""Files in the formats of other trainers, written by hand or by the libraries that define them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module


def write_array_record(path: Path, records: Sequence[bytes], options: str = "group_size:1") -> Path:
    writer = array_record_module.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    return path


def write_megatron(
    stem: Path, documents: Sequence[Sequence[Sequence[int]]], dtype: str = "<u2", code: int = 8
) -> Path:
    """Documents of sequences of ids; gives the .idx."""
    sequences = [ids for document in documents for ids in document]
    sizes = np.array([len(ids) for ids in sequences], "<i4")
    places = (np.concatenate(([0], np.cumsum(sizes)))[:-1] * np.dtype(dtype).itemsize).astype("<i8")
    ends = np.cumsum([0, *map(len, documents)]).astype("<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, len(sizes), len(ends))
    idx = stem.with_suffix(".idx")
    idx.write_bytes(head + sizes.tobytes() + places.tobytes() + ends.tobytes())
    values = np.array([i for ids in sequences for i in ids], dtype)
    stem.with_suffix(".bin").write_bytes(values.tobytes())
    return idx


def write_datatrove(path: Path, documents: Sequence[Sequence[int]], dtype: str = "<u2") -> Path:
    """A .ds with its .ds.index."""
    path.write_bytes(np.array([i for ids in documents for i in ids], dtype).tobytes())
    ends = np.cumsum([len(ids) for ids in documents]).astype("<u8")
    path.with_name(f"{path.name}.index").write_bytes(ends.tobytes())
    return path


def mds_shard(samples: Sequence[Sequence[bytes]], columns: Mapping[str, str]) -> bytes:
    """The bytes of a shard; samples have the encoded values of their columns."""
    told = {
        "column_names": list(columns),
        "column_encodings": list(columns.values()),
        "column_sizes": [8 if encoding == "int" else None for encoding in columns.values()],
        "version": 2,
        "format": "mds",
    }
    varying = [encoding != "int" for encoding in columns.values()]
    encoded = [
        np.array(
            [len(v) for v, sized in zip(values, varying, strict=True) if sized], "<u4"
        ).tobytes()
        + b"".join(values)
        for values in samples
    ]
    text = json.dumps(told, sort_keys=True).encode()
    places = np.concatenate(([0], np.cumsum([len(each) for each in encoded])))
    places = places + 4 * (len(samples) + 2) + len(text)
    count = np.uint32(len(samples)).tobytes()
    return count + places.astype("<u4").tobytes() + text + b"".join(encoded)


def mds_array(ids: Sequence[int], dtype: str = "<i4") -> bytes:
    """An array of a column `ndarray:TYPE`: one axis, its length in two bytes."""
    return bytes([(1 << 2) | 1]) + struct.pack("<H", len(ids)) + np.array(ids, dtype).tobytes()


@cache
def example_class() -> Any:
    """tf.train.Example, as protobuf itself makes it of its description."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="e.proto", package="e", syntax="proto3")
    kinds = {"BytesList": 12, "FloatList": 2, "Int64List": 3}
    for name, kind in kinds.items():
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=3)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(kinds, 1):
        field = name.replace("List", "").lower() + "_list"
        feature.field.add(
            name=field, number=number, type=11, label=1, type_name=f".e.{name}", oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=11, label=1, type_name=".e.Feature")
    features.field.add(
        name="feature", number=1, type=11, label=3, type_name=".e.Features.FeatureEntry"
    )
    file.message_type.add(name="Example").field.add(
        name="features", number=1, type=11, label=1, type_name=".e.Features"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("e.Example"))


def example_bytes(record: Mapping[str, Any]) -> bytes:
    """A record as a tf.train.Example: lists of ints, floats or bytes."""
    example = example_class()()
    for key, values in record.items():
        feature = example.features.feature[key]
        kind = next((type(value) for value in values), int)
        lists = {int: feature.int64_list, float: feature.float_list, bytes: feature.bytes_list}
        lists[kind].value.extend(values)
        lists[kind].SetInParent()
    data: bytes = example.SerializeToString(deterministic=True)
    return data
