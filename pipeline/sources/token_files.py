"""Files of nothing but token ids: their records have the key `tokens`, and maybe `loss_mask`.

    open_ids      a file and its size
    read_ids      the ids between two places
    open_mask     the file of a byte for each id, whether it has loss
    id_records    a batch of lists of ids, as records

What a document is in such a file is for the formats: `flat`, `megatron`, `datatrove`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.sources.batches import empty_batch, too_long_batch
from dataprep.pipeline.sources.blobs import TOKENS
from dataprep.pipeline.sources.format import Wanted
from dataprep.pipeline.sources.stream import naming, open_file
from dataprep.pipeline.sources.tables import cut_rows
from dataprep.pipeline.storage.foreign.megatron_read import read_exactly
from dataprep.pipeline.types import Offsets, Piece, Records


@contextmanager
def open_ids(path: str) -> Iterator[tuple[Any, int]]:
    """Open a file; yield it with its size in bytes."""
    with closing(open_file(path)) as file:
        with naming(path):
            size = int(file.seek(0, io.SEEK_END))
            file.seek(0)
        yield file, size


def read_ids(
    file: BinaryIO, dtype: np.dtype[Any], place: int, count: int, path: str
) -> NDArray[Any]:
    """Return `count` ids from byte `place` on."""
    size = count * dtype.itemsize
    with naming(path):
        file.seek(place)
        data = read_exactly(file, size)
    if len(data) < size:
        raise InputError(f"{path} was cut short while it was read; run again when it is complete")
    return np.frombuffer(data, dtype)


LOSS_MASK = "loss_mask"  # the key of what a file of masks says of each id
FLAG = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFile:
    """An open file of a byte for each id of another; without a path, there is none."""

    path: str = ""
    file: Any = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the records."""
        return (TOKENS, LOSS_MASK) if self.path else (TOKENS,)

    def lists(self, first: int, offsets: Offsets) -> dict[str, IntegerLists]:
        """Return the column of documents whose ids lie at these offsets from id `first` on."""
        if not self.path:
            return {}
        start, count = first + int(offsets[0]), int(offsets[-1] - offsets[0])
        flags = read_ids(self.file, FLAG, start, count, self.path)
        return {LOSS_MASK: IntegerLists(flags, offsets - offsets[0])}


@contextmanager
def open_mask(path: str, count: int, ids: str) -> Iterator[MaskFile]:
    """Open the mask of a file `ids` of so many ids; '': it has none."""
    if not path:
        yield MaskFile()
        return
    with open_ids(path) as (file, size):
        if size != count:
            raise InputError(
                f"{path} has {size:,} bytes, but a loss mask has one for each of the {count:,} ids "
                f"of {ids}; one of the two is damaged or cut off, or they do not belong together"
            )
        yield MaskFile(path=path, file=file)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdFile:
    """An open file of ids, whose documents are known by their places."""

    path: str
    file: Any
    dtype: np.dtype[Any]
    position: int = 0  # of the id at offset 0, in bytes
    mask: MaskFile = MaskFile()  # of ids from the same offset on

    def batches(self, offsets: Offsets, line: int, wanted: Wanted) -> Iterator[Records]:
        """Yield documents that lie between these offsets, of which the first has this line."""
        item = self.dtype.itemsize
        sizes = np.diff(offsets) * item
        for a, b in cut_rows(sizes.astype(np.float64), wanted):
            size, own = int(sizes[a:b].sum()), offsets[a : b + 1]
            if sizes[a] > wanted.max_record_bytes:
                yield too_long_batch(line + a, size, wanted.max_record_bytes)
                continue
            places = self.position + own[:-1] * item
            ids = read_ids(self.file, self.dtype, int(places[0]), size // item, self.path)
            yield id_records(
                IntegerLists(ids, own - own[0]),
                places,
                line=line + a,
                num_bytes=size,
                more=self.mask.lists(0, own),
            )


_AT_ONCE = 1 << 16  # documents whose places are read together


def document_batches(
    piece: Piece, wanted: Wanted, batches: Callable[[int, int, int, Wanted], Iterator[Records]]
) -> Iterator[Records]:
    """Yield the records of a piece whose unit are documents; `batches` yields those between two
    numbers, of which the first has a line."""
    num_lines = piece.stop - piece.start
    line = min(wanted.from_line, num_lines)
    yield empty_batch(next_line=line)
    while line < num_lines:
        first = piece.start + line
        stop = min(first + _AT_ONCE, piece.stop)
        yield from batches(first, stop, line, wanted)
        line += stop - first
    yield empty_batch(next_line=line)


def id_records(
    ids: IntegerLists,
    places: Offsets,
    *,
    line: int,
    num_bytes: int,
    more: Mapping[str, IntegerLists] = MappingProxyType({}),
) -> Records:
    """Return lists of ids as records, which start at these bytes of their file; `more`: their
    other columns."""
    count = len(ids)
    return Records(
        lines=np.arange(line, line + count),
        offsets=places,
        next_line=line + count,
        num_bytes=num_bytes,
        columns={TOKENS: ids, **more},
    )
