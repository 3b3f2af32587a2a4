"""Random access over the rows of a packed dataset, singly or many at once.

    dataset = open_dataset("data/packed")
    dataset[7]              {"tokens": i32[S + 1], "loss_mask": bool[S + 1], "segment_ids": …,
                             "positions": …, "vision_mask": …}
    dataset[[3, 9, 4]]      the same, stacked: [3, S + 1]

It is also a `RandomAccessDataSource` of grain, which reads many rows at once where it can.
`shards` finds the bytes, `expand` makes the arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.shards import open_shards
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.types import Offsets

Expand = Callable[[RowBytes, RowLayout, Request, Arrays, Offsets], None]
Batch = dict[str, NDArray[Any]]


class PackedDataset:
    """The rows of a packed dataset, in the order they were packed in."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        try:
            self.layout = RowLayout.of_manifest(manifest)
            self.seq_len: int = manifest["seq_len"]
            self.masks: tuple[str, ...] = tuple(manifest["masks"])
            self.pad: int = manifest["pad"]
            self.fingerprint: str = manifest["fingerprint"]
            self._starts = offsets_of([shard["num_records"] for shard in manifest["shards"]])
            self._shards = open_shards(folder, manifest, self.layout.tail_start)
        except KeyError as error:
            raise CorruptError(
                f"{folder}/manifest.json lacks {error}, or does not know it"
            ) from None

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        # Grain compares this with the one in a checkpoint: it must say what the data is.
        return f"PackedDataset({self.fingerprint!r}, rows={len(self)}, seq_len={self.seq_len})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedDataset, (self.folder, self.manifest)

    def __getitem__(self, key: int | Sequence[int] | NDArray[Any]) -> Batch:
        if isinstance(key, (Sequence, np.ndarray)):
            return self._rows(key)
        return {name: array[0] for name, array in self._rows([key]).items()}

    def __getitems__(self, keys: Sequence[int]) -> list[Batch]:
        """Return one dict for each row; torch and grain call this."""
        stacked = self[list(keys)]
        return [{name: array[i] for name, array in stacked.items()} for i in range(len(keys))]

    _getitems = __getitems__

    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        """Write row rows[i] of the dataset into row places[i] of `out`; both must be in range."""
        if not len(rows):
            return
        found = self._shards.fetch(rows)
        try:
            fastest_expand()(found, self.layout, request, out, places)
        except CorruptError as error:
            raise CorruptError(f"{self._first_bad(rows, found)}: {error}") from None

    def will_need(self, rows: Offsets) -> None:
        """Start to read rows that are needed soon."""
        self._shards.will_need(rows)

    def locate(self, row: int) -> tuple[int, int]:
        """Return the number of the shard that holds a row, and its place there."""
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        return shard, row - int(self._starts[shard])

    def checked(self, keys: Sequence[int] | NDArray[Any]) -> Offsets:
        """Return numbers of rows, negative keys counted from the end; IndexError if outside."""
        rows = np.array([operator.index(key) for key in keys], np.int64)
        wrong = rows[(rows < -len(self)) | (rows >= len(self))]
        if len(wrong):
            raise IndexError(f"row {wrong[0]} of a dataset of {len(self)}")
        return rows % max(1, len(self))

    def _rows(self, keys: Sequence[int] | NDArray[Any]) -> Batch:
        request = self._everything()
        out = empty_arrays(request, len(keys))
        self.read(self.checked(keys), request, out, np.arange(len(keys)))
        return name_all(out, self.masks)

    def _everything(self) -> Request:
        masks = tuple((number, 0) for number in range(len(self.masks)))
        return replace(all_of_a_row(0, self.seq_len + 1), masks=masks)

    def _first_bad(self, rows: Offsets, found: RowBytes) -> str:
        """Return the shard and record of the first bad row; asked once something is wrong."""
        request = self._everything()
        for i, number in enumerate(rows.tolist()):
            try:
                out = empty_arrays(request, 1)
                place = np.zeros(1, np.int64)
                fastest_expand()(found.part(i, i + 1), self.layout, request, out, place)
            except CorruptError:
                shard, record = self.locate(number)
                return f"record {record} of {self.folder / self.manifest['shards'][shard]['path']}"
        return f"a row of {self.folder}"


def all_of_a_row(start: int, width: int) -> Request:
    """Ask for all arrays but the masks."""
    return Request(start=start, width=width, tokens=(0,), segments=(0,), positions=(0,))


def name_all(arrays: Arrays, masks: Sequence[str]) -> Batch:
    """Return what `all_of_a_row` asked for, with the masks, by name."""
    loss, *rest = (f"{mask}_mask" for mask in masks)
    return {
        "tokens": arrays.tokens[0],
        loss: arrays.masks[0],
        "segment_ids": arrays.segments[0],
        "positions": arrays.positions[0],
        **dict(zip(rest, arrays.masks[1:], strict=True)),
    }


def empty_arrays(request: Request, num_rows: int) -> Arrays:
    """Return memory for what a request asks for."""

    def ints(shifts: tuple[int, ...]) -> NDArray[np.int32]:
        return np.empty((len(shifts), num_rows, request.width), np.int32)

    return Arrays(
        tokens=ints(request.tokens),
        segments=ints(request.segments),
        positions=ints(request.positions),
        masks=np.empty((len(request.masks), num_rows, request.width), np.bool_),
    )


@cache
def fastest_expand() -> Expand:
    """Return numba's `expand`, or NumPy's where numba is missing; they agree to the bit."""
    try:
        from dataprep.loaders.expand_numba import expand
    except ImportError:
        from dataprep.loaders.expand import expand
    return expand
