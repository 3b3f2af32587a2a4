"""tf.train.Example with lists of whole numbers, as protobuf itself encodes it, without protobuf.

    Example    0A size  Features
    Features   0A size  entry, one for each key, sorted          {"text": [5, 300]}
    entry      0A size  key     12 size  Feature
    Feature    1A size  Int64List
    Int64List  0A size  varints, packed

    0A 11 0A 0F 0A 04 "text" 12 07 1A 05 0A 03 05 AC 02

Many examples at once: their numbers become varints together, and what stands before the varints
follows from how many bytes these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from dataprep.pipeline.storage.foreign.varints import KERNELS, encode_varints, varint
from dataprep.pipeline.types import Offsets

LIST = b"\x0a"  # field 1, of a length: Example, Features, key, the values of an Int64List
VALUE = b"\x12"  # field 2: the value of an entry
INT64 = b"\x1a"  # field 3: the Int64List of a Feature


def encode_examples(key: str, values: NDArray[Any], offsets: Offsets) -> list[bytes]:
    """Return an Example for each list of numbers; list i is values[offsets[i]:offsets[i + 1]].

    >>> import numpy as np
    >>> encode_examples("text", np.array([5, 300], np.uint32), np.array([0, 2]))[0].hex()
    '0a110a0f0a047465787412071a050a0305ac02'
    """
    kernels = KERNELS.after(len(values))
    if kernels is not None and values.dtype in kernels.ID_TYPES:
        prefix = LIST + varint(len(key.encode())) + key.encode()
        whole, starts = kernels.encode_examples(prefix, values, offsets)
        return [whole[a:b] for a, b in pairwise(starts.tolist())]
    data, places = encode_varints(values)
    cuts: Sequence[int] = places[offsets].tolist()
    view = memoryview(data.tobytes())
    name = key.encode()
    return [b"".join((head_of(name, b - a), view[a:b])) for a, b in pairwise(cuts)]


@lru_cache(maxsize=1 << 16)
def head_of(name: bytes, size: int) -> bytes:
    """Return what stands before the varints of the only feature of an Example."""
    found = LIST + varint(size) if size else b""  # protobuf leaves out an empty list of values
    for tag in (INT64, VALUE):
        found = tag + varint(len(found) + size) + found
    found = LIST + varint(len(name)) + name + found
    for tag in (LIST, LIST):
        found = tag + varint(len(found) + size) + found
    return found
