"""Read the .idx of Megatron-LM's IndexedDataset: where its sequences and documents are.

    "MMIDIDX" 0 0 | u64 1 | u8 type | u64 n | u64 d + 1            the head, 34 bytes
    i32[n] lengths | i64[n] where each starts, bytes | i64[d + 1] sequences before each document
    i8[n] modes                                                    of multimodal datasets only

    lengths    5 3 2      places  0 10 16      documents  0 2 3       of uint16 ids
    document 0 is sequences 0 and 1: ids 0 to 8

Only ranges of the arrays are read, so that memory does not depend on the number of documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.storage.foreign.megatron import HEAD, MAGIC, VERSION

TYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronIndex:
    """The head of an .idx: how many of what its arrays have."""

    dtype: np.dtype[Any]  # of the ids
    num_sequences: int
    num_documents: int
    has_modes: bool

    def _place(self, array: str) -> tuple[int, str, int]:
        """Return where an array starts, its type, and how many numbers it has."""
        n = self.num_sequences
        lengths, places = HEAD.size, HEAD.size + 4 * n
        documents = places + 8 * n
        return {
            "lengths": (lengths, "<i4", n),
            "places": (places, "<i8", n),
            "documents": (documents, "<i8", self.num_documents + 1),
            "modes": (documents + 8 * (self.num_documents + 1), "i1", n if self.has_modes else 0),
        }[array]

    @property
    def num_bytes(self) -> int:
        start, _, count = self._place("modes")
        return start + count

    def read(self, file: BinaryIO, array: str, start: int, stop: int) -> NDArray[np.int64]:
        """Return the numbers of an array between two places; ValueError if they are not there."""
        first, kind, count = self._place(array)
        assert 0 <= start <= stop <= count
        dtype = np.dtype(kind)
        file.seek(first + start * dtype.itemsize)
        size = (stop - start) * dtype.itemsize
        data = read_exactly(file, size)
        if len(data) < size:
            raise ValueError("it was cut short while it was read")
        return np.frombuffer(data, dtype).astype(np.int64)


def read_exactly(file: BinaryIO, size: int) -> bytes:
    """Return so many bytes, or all there are."""
    chunks: list[bytes] = []
    while size > 0:
        chunk = file.read(min(size, 1 << 26))
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def read_index(file: BinaryIO, num_bytes: int) -> MegatronIndex:
    """Return the head of an .idx of so many bytes; ValueError says what is wrong with it."""
    head = read_exactly(file, HEAD.size)
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise ValueError("it does not begin like an index of Megatron-LM (MMIDIDX)")
    _, version, code, num_sequences, count = HEAD.unpack(head)
    if version != VERSION:
        raise ValueError(f"it has version {version}; only version {VERSION} is known")
    if code not in TYPES:
        raise ValueError(f"its ids have the type {code}; known are 1 to {max(TYPES)}")
    dtype = np.dtype(TYPES[code])
    if dtype.kind not in "iu":
        raise ValueError(f"it holds {dtype.name} numbers, but token ids are whole numbers")
    if count == 0:
        raise ValueError("its list of documents is empty; even without documents it has a 0")
    for has_modes in (False, True):
        index = MegatronIndex(
            dtype=dtype,
            num_sequences=num_sequences,
            num_documents=count - 1,
            has_modes=has_modes,
        )
        if index.num_bytes == num_bytes:
            return index
    raise ValueError(
        f"it has {num_bytes:,} bytes, but {num_sequences:,} sequences and {count - 1:,} documents "
        f"need {num_bytes_of(num_sequences, count):,}"
    )


def num_bytes_of(num_sequences: int, count: int) -> int:
    return HEAD.size + 12 * num_sequences + 8 * count
