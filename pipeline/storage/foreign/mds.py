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
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import Offsets

VERSION = 2
MOST_BYTES = (1 << 32) - 1  # of a shard: places are u32
INDEX = "index.json"


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


def encode_samples(columns: Sequence[tuple[NDArray[Any], Offsets]]) -> tuple[bytes, Offsets]:
    """Return samples of these columns, sorted by their names, one after another, and their sizes.

    Sample i has of each column the values [offsets[i], offsets[i + 1]), which must not be none.
    """
    shapes = [_shapes(np.diff(offsets)) for _, offsets in columns]
    widths = [shape.sizes for shape in shapes]
    sizes = [
        width + np.diff(offsets) * values.dtype.itemsize
        for (values, offsets), width in zip(columns, widths, strict=True)
    ]
    fixed = np.stack(sizes, axis=1).astype("<u4").view(np.uint8)
    parts: list[Iterable[bytes | memoryview]] = []
    for (values, offsets), shape in zip(columns, shapes, strict=True):
        data = np.ascontiguousarray(values).view(np.uint8).data
        places = (offsets * values.dtype.itemsize).tolist()
        heads = np.concatenate((fixed, shape.data), axis=1)
        parts.append(_cut(heads, fixed.shape[1] + shape.sizes))
        parts.append([data[a:b] for a, b in pairwise(places)])
        fixed = fixed[:, :0]  # they stand before the first column alone
    joined = b"".join(chain.from_iterable(zip(*parts, strict=True)))
    return joined, np.sum(sizes, axis=0) + 4 * len(columns)


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


class _Shapes(NamedTuple):
    data: NDArray[np.uint8]  # u8[n, 5]
    sizes: Offsets  # i64[n]: how many bytes of each count


def _shapes(lengths: Offsets) -> _Shapes:
    """Return what stands before the numbers of arrays of these lengths."""
    data = np.zeros((len(lengths), 5), np.uint8)
    code = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
    data[:, 0] = 1 << 2 | code
    data[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return _Shapes(data, 1 + (1 << code))


def _cut(rows: NDArray[np.uint8], sizes: Offsets) -> list[bytes]:
    """Return the first bytes of each row."""
    data, width = rows.tobytes(), rows.shape[1]
    stops = (np.arange(len(rows)) * width + sizes).tolist()
    return [data[a:b] for a, b in zip(range(0, len(data), width), stops, strict=True)]


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
