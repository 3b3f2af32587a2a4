"""MDS, the shards of mosaicml-streaming, as its own writer encodes them.

    u32        n samples
    u32[n + 1] where each sample begins in the file, and the end
    JSON       what the columns are, keys sorted
    samples    u32 size of each column │ its bytes, columns sorted by name

A column of numbers, `ndarray:int32`, has 1 byte for the number of dimensions (one) and the width of
the length, the length, and the numbers:

    [5, 300]   04  02  05000000 2C010000       04: one dimension, its length in one byte

`index.json` beside the shards lists them all. All numbers are little-endian.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import Offsets

VERSION = 2
MOST_BYTES = (1 << 32) - 1  # of a shard: places are u32
INDEX = "index.json"
_WIDTHS = ((1 << 8, 0, "<u1"), (1 << 16, 1, "<u2"), (1 << 32, 2, "<u4"))


def settings_of(columns: Mapping[str, str]) -> dict[str, Any]:
    """Return what a shard and the index say of its columns, given by name and encoding."""
    names = sorted(columns)
    return {
        "version": VERSION,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": None,
        "column_names": names,
        "column_encodings": [columns[name] for name in names],
        "column_sizes": [None] * len(names),
    }


def head_size(count: int, settings: Mapping[str, Any]) -> int:
    """Return how many bytes stand before the samples of a shard."""
    return 4 + 4 * (count + 1) + len(_text(settings).encode())


def encode_head(sizes: Offsets, settings: Mapping[str, Any]) -> bytes:
    """Return what stands before samples of these sizes."""
    places = np.concatenate(([0], np.cumsum(sizes))) + head_size(len(sizes), settings)
    count = np.array([len(sizes)], "<u4")
    return count.tobytes() + places.astype("<u4").tobytes() + _text(settings).encode()


def encode_samples(columns: Sequence[tuple[NDArray[Any], Offsets]]) -> list[bytes]:
    """Return samples of these columns, sorted by their names; sample i has of each the values
    [offsets[i], offsets[i + 1]), which must not be none."""
    parts = []
    for values, offsets in columns:
        data = memoryview(np.ascontiguousarray(values).tobytes())
        width = values.dtype.itemsize
        cuts = offsets.tolist()
        parts.append([(_shape(b - a), data[a * width : b * width]) for a, b in pairwise(cuts)])
    return [_sample(sample) for sample in zip(*parts, strict=True)]


def encode_index(shards: Sequence[tuple[str, int, int]], settings: Mapping[str, Any]) -> str:
    """Return the text of index.json; of each shard its name, bytes and samples."""
    listed = [
        {
            "samples": samples,
            "raw_data": {"basename": name, "bytes": size, "hashes": {}},
            "zip_data": None,
            **settings,
        }
        for name, size, samples in shards
    ]
    return json.dumps({"version": VERSION, "shards": listed}, sort_keys=True)


def _sample(columns: Sequence[tuple[bytes, memoryview]]) -> bytes:
    sizes = np.array([len(shape) + len(data) for shape, data in columns], "<u4")
    return b"".join((sizes.tobytes(), *(part for column in columns for part in column)))


def _shape(length: int) -> bytes:
    code, dtype = next((code, dtype) for limit, code, dtype in _WIDTHS if length < limit)
    return bytes([1 << 2 | code]) + np.array([length], dtype).tobytes()


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
