"""Arrays of codes that numpy.save wrote: pieces are ranges of rows, lines are rows.

    [N, n]     N records of n codes
    [n]        one record of n codes
    [N, ...]   N records, each an array of that shape: frames by rows, or codebooks

A record has no key of its own: its codes are given under the one key that is wanted. Only the
header is read before the rows, and nothing is ever unpickled.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.sources import cuts
from dataprep.pipeline.sources.batches import empty_batch, too_long_batch
from dataprep.pipeline.sources.flat import FlatTokens
from dataprep.pipeline.sources.format import Cut, Format, Wanted
from dataprep.pipeline.sources.keys import Keys
from dataprep.pipeline.sources.npy_header import read_npy_header
from dataprep.pipeline.sources.stream import naming, open_file
from dataprep.pipeline.types import Piece, Records, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    dtype: np.dtype[Any]
    count: int
    shape: tuple[int, ...]  # of each row
    position: int  # of the first row in the file

    @property
    def num_bytes(self) -> int:
        """Size of one row."""
        return math.prod(self.shape) * self.dtype.itemsize


class Npy(Format):
    """Pieces are rows."""

    kind = "npy"
    knows_rows = True
    endings = (".npy",)
    is_found_in_folders = False  # an array may be anything

    def kind_for(self, options: Mapping[str, str]) -> str:
        """Return the kind of flat token ids if documents end at a token, or it has no header."""
        is_flat = any(name in options for name in FlatTokens.options)
        return FlatTokens.kind if is_flat else self.kind

    def split(self, source: Source, target_bytes: int, keys: Keys | None) -> list[Cut]:
        _check_keys(keys, source.path)
        with _open(source.path) as (_, rows):
            return cuts.rows(rows.count, rows.num_bytes, target_bytes)

    def read(self, source: Source, piece: Piece, wanted: Wanted) -> Iterator[Records]:
        path = source.path
        keys = _check_keys(wanted.keys, path)
        num_lines = piece.stop - piece.start
        line = min(wanted.from_line, num_lines)
        with _open(path) as (file, rows):
            if rows.count < piece.stop:
                raise _broken(path, f"row {piece.stop - 1} no longer exists")
            yield empty_batch(next_line=line, num_bytes=line * rows.num_bytes)
            step = max(1, wanted.batch_bytes // max(1, rows.num_bytes))
            if rows.num_bytes > wanted.max_record_bytes:
                for bad in range(line, num_lines):
                    yield too_long_batch(bad, rows.num_bytes, wanted.max_record_bytes)
                line = num_lines
            while line < num_lines:
                stop = min(line + step, num_lines)
                lists = _read_rows(file, rows, piece.start + line, piece.start + stop, path)
                yield Records(
                    lines=np.arange(line, stop),
                    offsets=np.full(stop - line, -1, np.int64),
                    next_line=stop,
                    num_bytes=(stop - line) * rows.num_bytes,
                    columns=dict.fromkeys(keys, lists),
                )
                line = stop
        yield empty_batch(next_line=line)

    def count(self, source: Source, piece: Piece, stop_after: int) -> int:
        return piece.stop - piece.start

    def row_shape(self, source: Source) -> tuple[int, ...]:
        with _open(source.path) as (_, rows):
            return rows.shape


def _check_keys(keys: Keys | None, path: str) -> frozenset[str]:
    """Return the needed keys if they are at most one, else raise an InputError."""
    if keys is not None and (len(keys.needed) == 1 or not keys.names):
        return keys.needed
    asked = "whole records" if keys is None else f"the fields {', '.join(sorted(keys.needed))}"
    if keys is not None and not keys.needed:
        asked = "fields that may be absent"
    raise InputError(
        f"{path} holds only codes, but {asked} are wanted from it; use one field, as in --fields"
        " vision, or write records with all fields to .jsonl or .parquet"
    )


def _read_rows(file: Any, rows: _Rows, start: int, stop: int, path: str) -> Sequence[Any]:
    size = (stop - start) * rows.num_bytes
    chunks: list[bytes] = []
    with naming(path):
        file.seek(rows.position + start * rows.num_bytes)
        while size:
            chunk = file.read(size)
            if not chunk:
                raise _broken(path, f"it ends within rows {start} to {stop - 1}")
            chunks.append(chunk)
            size -= len(chunk)
    data = b"".join(chunks)
    values = np.frombuffer(data, rows.dtype).astype(rows.dtype.newbyteorder("="), copy=False)
    if len(rows.shape) == 1:
        return IntegerLists(values, np.arange(stop - start + 1) * rows.shape[0])
    return list(values.reshape(stop - start, *rows.shape))


@contextmanager
def _open(path: str) -> Iterator[tuple[Any, _Rows]]:
    with closing(open_file(path)) as file:
        with naming(path):
            try:
                header = read_npy_header(file)
            except ValueError as error:
                raise InputError(
                    f"cannot read {path} as .npy: {error}; if it is raw token ids, as OLMo has "
                    "them, set records to their type, and document_end"
                ) from None
            size = int(file.seek(0, io.SEEK_END))
        shape = header.shape
        if not shape:
            raise InputError(f"{path} is a single number; save an array with one row per record")
        if 0 in shape[1:]:
            raise InputError(f"{path} is an array of {shape}: its rows hold no codes; leave it out")
        if size < header.num_bytes:
            needed = f"an array of {shape} needs {header.num_bytes}"
            raise _broken(path, f"it has {size} bytes, but {needed}")
        if size > header.num_bytes:
            raise InputError(
                f"{path} has more bytes after its array of {shape} ({size} instead of "
                f"{header.num_bytes}); save each array in its own file"
            )
        count, row_shape = (shape[0], shape[1:]) if len(shape) > 1 else (1, shape)
        rows = _Rows(dtype=header.dtype, count=count, shape=row_shape, position=header.position)
        yield file, rows


def _broken(path: str, cause: str) -> InputError:
    return InputError(
        f"cannot read {path} as .npy: {cause}; the file is damaged, cut off or not .npy at all:"
        " copy or write it again"
    )
