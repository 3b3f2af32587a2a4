"""The files of Megatron-LM's IndexedDataset, as its own builder writes them.

    NAME.bin    ids, one document after another       uint16 if the vocabulary is below 65,500
    NAME.idx    "MMIDIDX" 0 0                         9 bytes
                u64  1                                version
                u8   8 | 4                            type of the ids: uint16 | int32
                u64  n                                sequences: here, documents
                u64  n + 1                            entries of the last array
                i32[n]      lengths                   5 3
                i64[n]      where each starts, bytes  0 10
                i64[n + 1]  documents: 0 … n          0 1 2

All numbers are little-endian.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Offsets

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEAD = struct.Struct("<9sQBQQ")
CODES: dict[str, int] = {"uint16": 8, "int32": 4}
SMALL_VOCABULARY = 65_500  # below which ids are uint16


def token_type(num_ids: int) -> np.dtype[Any]:
    """Return the type of ids in a .bin, by how many different ones there may be.

    >>> token_type(50_257), token_type(65_500)
    (dtype('uint16'), dtype('int32'))
    """
    return np.dtype("<u2" if num_ids < SMALL_VOCABULARY else "<i4")


def encode_index(lengths: Offsets, dtype: np.dtype[Any]) -> bytes:
    """Return the bytes of the .idx of documents with these lengths."""
    count = len(lengths)
    head = HEAD.pack(MAGIC, VERSION, CODES[dtype.name], count, count + 1)
    places = offsets_of(lengths)[:-1] * dtype.itemsize
    arrays = (lengths.astype("<i4"), places.astype("<i8"), np.arange(count + 1, dtype="<i8"))
    return head + b"".join(array.tobytes() for array in arrays)
