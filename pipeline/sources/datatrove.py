"""Files of datatrove and nanotron: NAME.ds, with two others beside it. Pieces are documents.

NAME.ds          ids, of two or four bytes: as many as the index says
NAME.ds.index    u64: the end of each document, in ids
NAME.ds.loss     a byte for each id, whether it has loss; may be absent
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.blobs import check_known
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.stream import is_there, renamed
from dataprep.pipeline.sources.token_files import (
    IdFile,
    MaskFile,
    document_batches,
    open_ids,
    open_mask,
    read_ids,
)
from dataprep.pipeline.types import Offsets, Piece, Records, Source

DS = ".ds"
INDEX, LOSS = ".index", ".loss"  # after .ds
END = np.dtype("<u8")
TYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}  # by bytes


class Datatrove(Format):
    """Pieces are documents."""

    kind = "datatrove"
    endings = (DS,)
    unit = "document"
    knows_rows = True
    holds_media = False
    has_offsets = True

    def beside(self, path: str, options: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(filter(None, (_index_of(path), _loss_of(path))))

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        with _open(source) as opened:
            check_known(keys, opened.mask.keys, source.path)
            ends = opened.ends(0, opened.count) * opened.dtype.itemsize
        return cuts.at_ends(ends, target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        with _open(source) as opened:
            if opened.count < piece.stop:
                raise _broken(_index_of(source.path), f"document {piece.stop} no longer exists")
            yield from document_batches(piece, wanted, opened.batches)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """An open .ds with its index, and its mask if it has one."""

    path: str
    ids: Any
    index: Any
    dtype: np.dtype[Any]
    count: int  # of documents
    mask: MaskFile

    def ends(self, start: int, stop: int) -> Offsets:
        """Return where documents [start, stop) end, in ids."""
        place = _index_of(self.path)
        stored = read_ids(self.index, END, start * END.itemsize, stop - start, place)
        ends = stored.astype(np.int64)
        if (ends < 0).any() or (np.diff(ends) < 0).any():
            raise _broken(place, "the ends of its documents do not ascend")
        return ends

    def batches(self, start: int, stop: int, line: int, wanted: Wanted) -> Iterator[Records]:
        """Yield documents [start, stop), of which the first has this line."""
        offsets = self.ends(max(0, start - 1), stop)
        offsets = offsets if start else np.concatenate(([0], offsets))
        ids = IdFile(path=self.path, file=self.ids, dtype=self.dtype, mask=self.mask)
        yield from ids.batches(offsets, line, wanted)


@contextmanager
def _open(source: Source) -> Iterator[_Files]:
    path, place = source.path, _index_of(source.path)
    with open_ids(path) as (ids, size), open_ids(place) as (index, index_bytes):
        if index_bytes % END.itemsize:
            raise _broken(place, f"it has {index_bytes:,} bytes, which are no u64 numbers")
        count = index_bytes // END.itemsize
        last = read_ids(index, END, index_bytes - END.itemsize, 1, place) if count else [0]
        total = int(last[0])
        width = size // total if total else min(TYPES)
        if width not in TYPES or width * total != size:
            raise _broken(
                path, f"it has {size:,} bytes, but the {total:,} ids of its index have 2 or 4 each"
            )
        with open_mask(_loss_of(path), total, path) as mask:
            yield _Files(
                path=path, ids=ids, index=index, dtype=TYPES[width], count=count, mask=mask
            )


def _index_of(path: str) -> str:
    return renamed(path, lambda name: name + INDEX)


def _loss_of(path: str) -> str:
    """Return the file of the mask, '' if there is none."""
    place = renamed(path, lambda name: name + LOSS)
    return place if is_there(place) else ""


def _broken(path: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as a file of datatrove: {cause}; it is damaged, cut off or something "
        "else: copy or write it again"
    )
