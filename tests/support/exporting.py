"""Export inside the test's own process, and read what was written by plain means.

Readers here know the formats from their documentation alone: `struct`, NumPy, pyarrow, ArrayRecord.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python import array_record_module
from numpy.typing import NDArray

from dataprep.configs.export import ExportConfig
from dataprep.pipeline.export import export
from dataprep.pipeline.jobs.recipes import Outcome
from dataprep.pipeline.storage.manifest import ExportedManifest
from support.killable import without_processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Folders of datasets; each is of several shards."""

    plain: Path  # every token has loss but BOS
    masked: Path  # questions have no loss
    rich: Path  # weights and blocks of pictures, too
    packed: Path  # of plain
    packed_masked: Path
    packed_rich: Path


def export_here(out: Path, dataset: Path, to: str, **config: Any) -> Outcome:
    """Export without processes."""
    values = {**config, "dataset": str(dataset), "to": to, "out": str(out)}
    overwrite = bool(values.pop("overwrite", False))
    with without_processes():
        return export(ExportConfig.model_validate(values), overwrite=overwrite)


def manifest_of(outcome: Outcome) -> ExportedManifest:
    assert isinstance(outcome.manifest, ExportedManifest)
    return outcome.manifest


def records_in(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        reader = array_record_module.ArrayRecordReader(str(file))
        yield from reader.read_all()
        reader.close()


def megatron_documents(prefix: Path) -> list[list[int]]:
    """The documents of a pair of .bin and .idx."""
    data = prefix.with_name(prefix.name + ".idx").read_bytes()
    assert data[:9] == b"MMIDIDX\0\0"
    version, code, count, entries = struct.unpack_from("<QBQQ", data, 9)
    assert (version, entries) == (1, count + 1)
    dtype = {8: "<u2", 4: "<i4"}[code]
    lengths = np.frombuffer(data, "<i4", count, 34)
    places = np.frombuffer(data, "<i8", count, 34 + 4 * count)
    documents = np.frombuffer(data, "<i8", count + 1, 34 + 12 * count)
    assert documents.tolist() == list(range(count + 1))
    assert len(data) == 34 + 20 * count + 8
    tokens = prefix.with_name(prefix.name + ".bin").read_bytes()
    assert len(tokens) == int(lengths.sum()) * np.dtype(dtype).itemsize
    return [
        np.frombuffer(tokens, dtype, int(n), int(p)).tolist()
        for n, p in zip(lengths, places, strict=True)
    ]


def ids_of_example(data: bytes, key: str) -> list[int]:
    """The numbers of the only feature of a tf.train.Example, by walking its bytes."""
    features = _only_field(data, 1)
    entry = _only_field(features, 1)
    fields = dict(_fields(entry))
    assert fields[1] == key.encode()
    numbers = _only_field(_only_field(fields[2], 3), 1)
    found, place = [], 0
    while place < len(numbers):
        value, place = _varint(numbers, place)
        found.append(value)
    return found


def _only_field(data: bytes, number: int) -> bytes:
    ((found, value),) = _fields(data)
    assert found == number
    return value


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        assert tag & 7 == 2
        size, place = _varint(data, place)
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def mds_samples(folder: Path, shard: dict[str, Any]) -> list[dict[str, NDArray[Any]]]:
    """The samples of a shard of MDS, by what its index says of it."""
    data = (folder / shard["raw_data"]["basename"]).read_bytes()
    assert len(data) == shard["raw_data"]["bytes"]
    (count,) = struct.unpack_from("<I", data)
    assert count == shard["samples"]
    places = struct.unpack_from(f"<{count + 1}I", data, 4)
    assert places[-1] == len(data)
    found = []
    for start in places[:-1]:
        sizes = struct.unpack_from(f"<{len(shard['column_names'])}I", data, start)
        place = start + 4 * len(sizes)
        sample = {}
        columns = zip(shard["column_names"], shard["column_encodings"], sizes, strict=True)
        for name, encoding, size in columns:
            width = 1 << (data[place] & 3)
            assert data[place] >> 2 == 1
            length = int.from_bytes(data[place + 1 : place + 1 + width], "little")
            dtype = np.dtype(encoding.removeprefix("ndarray:"))
            assert size == 1 + width + length * dtype.itemsize
            sample[name] = np.frombuffer(data, dtype, length, place + 1 + width)
            place += size
        found.append(sample)
    return found
