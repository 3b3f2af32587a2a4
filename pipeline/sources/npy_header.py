"""Read .npy files without trusting them: nothing is unpickled, no stated size is allocated."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

NPY_MAGIC = b"\x93NUMPY"
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NpyHeader:
    """Describes an array of integers in C order."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    position: int  # of the first value in the file

    @property
    def num_bytes(self) -> int:
        """Size of the whole file."""
        return self.position + math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(file: BinaryIO) -> NpyHeader:
    """Read the header; ValueError says why the array cannot be codes, an OSError is passed on."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _READERS:
            raise ValueError(f"version {version}")  # arrays of integers need no newer version
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            shape, is_fortran, dtype = _READERS[version](file)
        if any(length < 0 for length in shape):
            raise ValueError(f"shape {shape}")
    except OSError:
        raise
    except Exception:  # a header is a Python literal: bad ones fail in many ways
        raise ValueError("its header is damaged or missing") from None
    if dtype.kind not in "iu":
        raise ValueError(
            f"it holds {dtype}, but codes are integers; save it with .astype(np.int32)"
        )
    if is_fortran and len(shape) > 1:
        raise ValueError(
            "it is in Fortran order, so the codes of a row are not stored together; "
            "save it with np.save(path, np.ascontiguousarray(array))"
        )
    return NpyHeader(shape=shape, dtype=dtype, position=file.tell())


def integers_in(data: bytes) -> NDArray[Any]:
    """Return the array of a whole .npy, in its shape; ValueError says what is wrong with it."""
    try:
        header = read_npy_header(io.BytesIO(data))
    except ValueError as error:
        raise ValueError(f"an unusable .npy: {error}") from None
    if len(data) != header.num_bytes:
        raise ValueError(
            f"an .npy of {len(data)} bytes, but an array of {header.shape} has "
            f"{header.num_bytes}; it was cut off, or more bytes follow the array"
        )
    values = np.frombuffer(data, header.dtype, offset=header.position)
    return values.astype(header.dtype.newbyteorder("="), copy=False).reshape(header.shape)
