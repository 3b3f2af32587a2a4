"""Random access over the rows of a packed dataset, singly or many at once.

    dataset = open_dataset("data/packed")
    dataset[7]              {"tokens": i32[S + 1], "loss_mask": bool[S + 1], "segment_ids": …,
                             "positions": …, "vision_mask": …, "loss_weights": f32[S + 1] …}
    dataset[[3, 9, 4]]      the same, stacked: [3, S + 1]; dataset[3:9] too
    dataset.select([3, 9])  a dataset of these two rows
    dataset.draw(2, seed=0) two of them, a function of the seed

It is also a `RandomAccessDataSource` of grain, which reads many rows at once where it can.
`shards` finds the bytes, `expand` makes the arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.expand import ABSENT, Arrays, Request
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.prefetch import stop_if_closed
from dataprep.loaders.selection import Chosen, Numbers, drawn, selected
from dataprep.loaders.shards import Shards, open_shards
from dataprep.loaders.whole import Verify
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.entries import Json
from dataprep.pipeline.storage.manifest import PackedManifest, json_of
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.threads.exits import stopped_at_exit
from dataprep.pipeline.types import Offsets

Expand = Callable[[RowBytes, RowLayout, Request, Arrays, Offsets], None]
Batch = dict[str, NDArray[Any]]


class PackedDataset:
    """The rows of a packed dataset, in the order they were packed in."""

    def __init__(
        self,
        folder: Path,
        about: PackedManifest,
        verify: Verify = "lazy",
        shards: Shards | None = None,
        chosen: Chosen | None = None,
    ) -> None:
        """`shards`: what reads rows, if it is not the files that the manifest lists; `chosen`:
        which rows it has; None: all."""
        self.folder = folder
        self._verify = verify
        self.about = about
        self.layout = RowLayout.of_manifest(about)
        self.seq_len = about.seq_len
        self.masks = about.masks
        self.pad = about.pad
        self.chosen = chosen
        own = about.fingerprint
        self.fingerprint = own if chosen is None else chosen.fingerprint(own)
        self._starts = offsets_of([shard.num_records for shard in about.shards])
        self._shards = shards or open_shards(folder, about, self.layout.tail_start, verify)

    @property
    def manifest(self) -> Json:
        """The manifest of the generation that is open, as it stands in its file."""
        return json_of(self.about)

    def __len__(self) -> int:
        return int(self._starts[-1]) if self.chosen is None else len(self.chosen)

    def __repr__(self) -> str:
        # Grain compares this with the one in a checkpoint: it must say what the data is, and not
        # where, since a dataset may move. `str` says where.
        return f"PackedDataset({self.fingerprint!r}, {self._sizes()})"

    def __str__(self) -> str:
        return f"<PackedDataset {self.folder}: {self._sizes()}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedDataset, (self.folder, self.about, self._verify, None, self.chosen)

    @stopped_at_exit
    def __getitem__(self, key: int | slice | Sequence[int] | NDArray[Any]) -> Batch:
        if isinstance(key, slice):
            return self._rows(range(len(self))[key])
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
        found = self._shards.fetch(self._in_shards(rows))
        stop_if_closed()
        try:
            fastest_expand()(found, self.layout, request, out, places)
        except CorruptError as error:
            self._shards.check()
            raise CorruptError(f"{self._first_bad(rows, found)}: {error}") from None
        self._shards.check()

    def prepare(self) -> None:
        """Load and compile what reads rows. A thread that did so would hold locks of importing and
        compiling, which a fork must not meet."""
        none, request = np.zeros(0, np.int64), self._everything()
        found, out = self._shards.fetch(none), empty_arrays(request, 0)
        fastest_expand()(found, self.layout, request, out, none)

    def prove(self) -> None:
        """Raise a CorruptError unless every shard is as it was written."""
        self._shards.prove_all()

    def stored(self, rows: Offsets) -> tuple[Shards, Offsets]:
        """Return what reads these rows, and their numbers there."""
        return self._shards, self._in_shards(rows)

    def will_need(self, rows: Offsets) -> None:
        """Start to read rows that are needed soon."""
        self._shards.will_need(self._in_shards(rows))

    def select(self, which: Numbers) -> PackedDataset:
        """Return a dataset of some of the rows, which reads the same files: see `selection`."""
        chosen = selected(which, len(self), self.chosen)
        return PackedDataset(self.folder, self.about, self._verify, self._shards, chosen)

    def draw(self, count: int, *, seed: int, start: int = 0) -> Batch:
        """Return so many rows in the order of a seed, from its place `start` on."""
        return self[drawn(count, len(self), seed=seed, start=start)]

    def locate(self, row: int) -> tuple[int, int]:
        """Return the number of the shard that holds a row, and its place there."""
        number = int(self._in_shards(np.array([row]))[0])
        shard = int(np.searchsorted(self._starts, number, side="right")) - 1
        return shard, number - int(self._starts[shard])

    def _in_shards(self, rows: Offsets) -> Offsets:
        """Return which rows of the shards these are."""
        return rows if self.chosen is None else self.chosen.of(rows)

    def checked(self, keys: Sequence[int] | NDArray[Any]) -> Offsets:
        """Return numbers of rows, negative keys counted from the end; IndexError if outside."""
        rows = [operator.index(key) for key in keys]
        for row in rows:
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} of a dataset of {len(self)}")
        return np.array(rows, np.int64) % max(1, len(self))

    def _sizes(self) -> str:
        grown = f", generation={self.about.generation}" if self.about.parts else ""
        return f"rows={len(self)}, seq_len={self.seq_len}{grown}"

    def _rows(self, keys: Sequence[int] | NDArray[Any]) -> Batch:
        request = self._everything()
        out = empty_arrays(request, len(keys))
        self.read(self.checked(keys), request, out, np.arange(len(keys)))
        return name_all(out, self.masks)

    def _everything(self) -> Request:
        return all_of_a_row(0, self.seq_len + 1, self.masks, self.masks)

    def _first_bad(self, rows: Offsets, found: RowBytes) -> str:
        """Return the shard and record of the first bad row; asked once something is wrong."""
        request = self._everything()
        for i, number in enumerate(rows.tolist()):
            try:
                out = empty_arrays(request, 1)
                place = np.zeros(1, np.int64)
                fastest_expand()(found.part(slice(i, i + 1)), self.layout, request, out, place)
            except CorruptError:
                shard, record = self.locate(number)
                return f"record {record} of {self.folder / self.about.shards[shard].path}"
        return f"a row of {self.folder}"


def all_of_a_row(start: int, width: int, wanted: Sequence[str], own: Sequence[str]) -> Request:
    """Ask a dataset that has the masks `own` for all arrays and for the wanted masks."""
    return Request(
        start=start,
        width=width,
        tokens=(0,),
        segments=(0,),
        positions=(0,),
        masks=tuple((number_of(m, own), 0) for m in wanted if not MASKS[m].is_weight),
        weights=tuple((number_of(m, own), 0) for m in wanted if MASKS[m].is_weight),
    )


def number_of(mask: str, own: Sequence[str]) -> int:
    return own.index(mask) if mask in own else ABSENT


def name_all(arrays: Arrays, masks: Sequence[str]) -> Batch:
    """Return what `all_of_a_row` asked for, by name."""
    loss, *rest = (MASKS[mask].array for mask in masks if not MASKS[mask].is_weight)
    batch = {
        "tokens": arrays.tokens[0],
        loss: arrays.masks[0],
        "segment_ids": arrays.segments[0],
        "positions": arrays.positions[0],
        **dict(zip(rest, arrays.masks[1:], strict=True)),
    }
    for mask in masks:
        if MASKS[mask].is_weight:
            batch[MASKS[mask].array] = arrays.weights[0] * arrays.masks[0]
    return batch


def empty_arrays(request: Request, num_rows: int) -> Arrays:
    """Return memory for what a request asks for."""

    def ints(shifts: tuple[int, ...]) -> NDArray[np.int32]:
        return np.empty((len(shifts), num_rows, request.width), np.int32)

    return Arrays(
        tokens=ints(request.tokens),
        segments=ints(request.segments),
        positions=ints(request.positions),
        masks=np.empty((len(request.masks), num_rows, request.width), np.bool_),
        weights=np.empty((len(request.weights), num_rows, request.width), np.float32),
    )


@cache
def fastest_expand() -> Expand:
    """Return numba's `expand`, or NumPy's where numba is missing; they agree to the bit."""
    try:
        from dataprep.loaders.expand_numba import expand
    except ImportError:
        from dataprep.loaders.expand import expand
    return expand
