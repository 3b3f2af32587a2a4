"""WebDataset tars: pieces are byte ranges, lines are records.

    a.tar    1.txt 1.vision.npy │ 2.txt 2.vision.npy │ …                 neighbours of one key
    record   {"__key__": "1", "text": "a cat", "vision": array([754, 1512])}

`bundles` says which members are a record, `members` what their contents are.

All headers are read when a tar is cut, so that a key that appears again after other keys is an
error before any work is done.
"""

from __future__ import annotations

import io
import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.excerpts import excerpt_of_bytes
from dataprep.pipeline.ragged import IntegerLists, offsets_of
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import as_columns, empty_batch
from dataprep.pipeline.sources.bundles import Bundle, read_bundles
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys, tops_of
from dataprep.pipeline.sources.members import BundleDecoder
from dataprep.pipeline.sources.tars import PACKED_ENDINGS, open_tar
from dataprep.pipeline.types import Piece, Record, RecordError, Records, Source


class WebDataset(Format):
    """Pieces are byte ranges that begin with a record."""

    kind = "webdataset"
    endings = (".tar",)
    packed_endings = PACKED_ENDINGS
    unit = "record"
    holds_media = False  # `media` lists tars itself
    has_offsets = True

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        offsets, sizes, hashes = array("q"), array("q"), array("Q")
        tops = tops_of(keys)
        with open_tar(source.path) as file:
            for bundle in read_bundles(file, source.path):
                offsets.append(bundle.offset)
                sizes.append(bundle.num_bytes(tops))
                hashes.append(_hash(bundle.key))
            offsets.append(file.seek(0, io.SEEK_END))
            _check_keys(file, source.path, np.array(hashes, np.uint64))
        return [
            Cut(
                start=offsets[start] if start else 0,
                stop=offsets[stop],
                num_bytes=sum(sizes[start:stop]),
                first_line=start,
            )
            for start, stop in cuts.merge(sizes, target_bytes)
        ]

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        line = 0
        tops = tops_of(wanted.keys)
        with open_tar(source.path) as file:
            batch = _Batch(BundleDecoder(file, source.path, wanted), wanted)
            for bundle in read_bundles(file, source.path, piece.start, piece.stop):
                if line < wanted.from_line:
                    yield empty_batch(next_line=line + 1, num_bytes=bundle.num_bytes(tops))
                else:
                    batch.add(line, bundle)
                line += 1
                if batch.num_bytes >= wanted.batch_bytes:
                    yield batch.take(next_line=line)
        yield batch.take(next_line=line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        with open_tar(source.path) as file:
            bundles = read_bundles(file, source.path, piece.start, piece.stop)
            return sum(1 for _ in islice(bundles, stop_after))

    def lines_before(self, source: Source, starts: Sequence[int]) -> list[int]:
        with open_tar(source.path) as file:
            bundles = read_bundles(file, source.path, stop=starts[-1])
            offsets = array("q", (bundle.offset for bundle in bundles))
        return [bisect_left(offsets, start) for start in starts]


def _check_keys(file: Any, path: str, hashes: NDArray[np.uint64]) -> None:
    """Refuse a key that appears again. There may be millions: first compare the hashes u64[n]."""
    ordered = np.sort(hashes)
    suspects = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if not suspects:
        return
    seen: dict[str, str] = {}  # places by key
    for number, bundle in enumerate(read_bundles(file, path), 1):
        if _hash(bundle.key) not in suspects:
            continue
        place = f"record {number} (byte {bundle.offset})"
        if bundle.key in seen:
            raise InputError(
                f"key {bundle.key!r} of {seen[bundle.key]} of {path} appears again in {place}, "
                "after other keys; pack the tar again with the files of each key together: "
                "tar --sort=name"
            )
        seen[bundle.key] = place


def _hash(key: str) -> int:
    return xxhash.xxh3_64_intdigest(key.encode())


class _Batch:
    """Collects records and errors of neighbouring bundles until they are taken."""

    def __init__(self, decode: BundleDecoder, wanted: Wanted) -> None:
        self._decode = decode
        self._wanted = wanted
        self._tops = tops_of(wanted.keys)
        self._clear()

    def _clear(self) -> None:
        self._places: list[tuple[int, int]] = []  # (line, offset)
        self._rows: list[Record] = []
        self._errors: list[RecordError] = []
        self.num_bytes = 0

    def add(self, line: int, bundle: Bundle) -> None:
        self.num_bytes += bundle.num_bytes(self._tops)
        try:
            self._rows.append(self._decode(bundle))
            self._places.append((line, bundle.offset))
        except ValueError as error:
            self._errors.append(
                RecordError(
                    line=line,
                    offset=bundle.offset,
                    reason=str(error),
                    excerpt=excerpt_of_bytes(os.fsencode(bundle.key)),
                )
            )

    def take(self, *, next_line: int) -> Records:
        places = np.array(self._places, np.int64).reshape(-1, 2)
        columns = self._columns()
        records = Records(
            lines=places[:, 0],
            offsets=places[:, 1],
            next_line=next_line,
            num_bytes=self.num_bytes,
            columns=columns,
            rows=self._rows if columns is None else None,
            errors=tuple(self._errors),
        )
        self._clear()
        return records

    def _columns(self) -> dict[str, Sequence[Any]] | None:
        keys, held_by = self._wanted.keys, self._wanted.held_by
        columns = None if keys is None else as_columns(self._rows, keys)
        if columns is None:
            return None
        return {
            key: _integer_lists(column) if held_by(key) == "codes" else column
            for key, column in columns.items()
        }


def _integer_lists(column: Sequence[Any]) -> Sequence[Any]:
    """Join the lists of codes into one array, if all are flat and of compatible integer types."""
    if not column or not all(isinstance(v, np.ndarray) and v.ndim == 1 for v in column):
        return column
    if np.result_type(*{values.dtype for values in column}).kind not in "iu":
        return column
    return IntegerLists(np.concatenate(column), offsets_of([len(values) for values in column]))
