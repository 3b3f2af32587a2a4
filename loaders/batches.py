"""Step -> batch, as host arrays or on the user's mesh.

    step 7  ─►  which rows: (dataset, row) of each           `BatchReader.rows`
            ─►  one buffer for all arrays of the batch       `buffers`
            ─►  tokens, segments, positions, masks           `packed`, one read for each dataset
            ─►  {"inputs": …, "targets": …}                  `views`
            ─►  the same as jax arrays, if there is a mesh   `BatchMaker`, `place`; or, not placed,
                                                             as the host arrays of this host

Every batch is a function of the datasets, the order and the step; a host reads only the rows and
columns that its own devices hold.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dataprep.loaders.buffers import ALIGNMENT, Buffers
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.generations import MixedDataset
from dataprep.loaders.mixture import Mixture
from dataprep.loaders.packed import Batch
from dataprep.loaders.paging import DiskWatch
from dataprep.loaders.schedule import BatchSizes
from dataprep.loaders.views import View
from dataprep.pipeline.errors import ConfigError, ResourceError
from dataprep.pipeline.types import Offsets

if TYPE_CHECKING:
    from jax.sharding import Mesh, PartitionSpec

    from dataprep.loaders.place import Placement

AnyBatch = dict[str, Any]  # of numpy arrays, or of jax arrays on a mesh

PADDING = -1  # in place of the number of a dataset: there is no row, fill with padding
_BLOCK_ROWS = 4096  # rows whose order is computed at once
_PLACE_BYTES, _TOKEN_BYTES = 16, 4  # of a row's dataset and number; of a token


class ArraySpec(NamedTuple):
    """What `DataLoader.element_spec` says of an array where there is no mesh."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class BatchReader:
    """Reads any part of any batch; holds no position."""

    def __init__(
        self,
        members: Sequence[MixedDataset],
        mixture: Mixture,
        sizes: BatchSizes,
        view: View,
    ) -> None:
        self._members, self._mixture, self._sizes, self._view = members, mixture, sizes, view
        self._buffers = Buffers()
        self._watch = DiskWatch()
        self._order = lru_cache(maxsize=8)(mixture.locate)
        self._request = lru_cache(maxsize=64)(view.request)

    def rows(self, step: int) -> tuple[Offsets, Offsets]:
        """Return the dataset (or PADDING) and the row in it, for each row of a batch."""
        start, size = self._sizes.first_row(step), self._sizes.size(step)
        limit = self._mixture.num_rows
        stop = start + size if limit is None else min(start + size, limit)
        datasets = np.full(size, PADDING, np.int64)
        rows = np.zeros(size, np.int64)
        while start < stop:
            first = start - start % _BLOCK_ROWS
            last = first + _BLOCK_ROWS if limit is None else min(first + _BLOCK_ROWS, limit)
            until = min(stop, last)
            place = start - self._sizes.first_row(step)
            for target, part in zip((datasets, rows), self._order(first, last), strict=True):
                target[place : place + until - start] = part[start - first : until - first]
            start = until
        return datasets, rows

    def will_need(self, step: int, wanted: Offsets | None = None) -> None:
        """Start to read the wanted rows of a batch, if reads have come from the disk of late."""
        if not self._watch.reads():
            return
        datasets, rows = self._wanted(step, wanted)
        for number, member in enumerate(self._members):
            mine = rows[datasets == number]
            if len(mine):
                member.at(step).will_need(mine)

    def read(self, step: int, columns: tuple[int, int], wanted: Offsets | None = None) -> Batch:
        """Return columns [start, stop) of the wanted rows of a batch (ascending; None: all)."""
        datasets, rows = self._wanted(step, wanted)
        start, width = columns[0], columns[1] - columns[0]
        opened = [member.at(step) for member in self._members]
        requests = [self._request(start, width, dataset.masks) for dataset in opened]
        out = self._allocate(requests[0], len(rows))
        for number, dataset in enumerate(opened):
            places = np.flatnonzero(datasets == number)
            if len(places):
                dataset.read(rows[places], requests[number], out, places)
        missing = np.flatnonzero(datasets == PADDING)
        if len(missing):
            out.tokens[:, missing] = opened[0].pad
            for array in (out.segments, out.positions, out.masks, out.weights):
                array[:, missing] = 0
        return self._view.name(out, start)

    def _wanted(self, step: int, wanted: Offsets | None) -> tuple[Offsets, Offsets]:
        datasets, rows = self.rows(step)
        return (datasets, rows) if wanted is None else (datasets[wanted], rows[wanted])

    def _allocate(self, request: Request, num_rows: int) -> Arrays:
        """Return arrays for a batch, all in one buffer."""
        *parts, total = _layout(request, num_rows)
        try:
            buffer = self._buffers.take(total)
        except MemoryError:
            raise ResourceError(
                f"there is no memory for a batch of {num_rows:,} rows, {total / 1e9:,.1f} GB; "
                "set a smaller batch_size, or prefetch less"
            ) from None
        arrays = (
            buffer[start:stop].view(kind).reshape(shape) for start, stop, kind, shape in parts
        )
        tokens, segments, positions, masks, weights = arrays
        return Arrays(
            tokens=tokens, segments=segments, positions=positions, masks=masks, weights=weights
        )


class BatchMaker:
    """Makes the batch of a step; the thread that reads ahead calls it.

    It holds no position, but for the last step whose rows it told the system to read.
    """

    def __init__(
        self,
        reader: BatchReader,
        sizes: BatchSizes,
        width: int,
        placement: Placement | None,
        *,
        whole_rows: bool = False,
    ) -> None:
        self.reader, self._sizes, self._width = reader, sizes, width
        self._placement = placement
        self._cuts = whole_rows and placement is not None and placement.splits_columns
        self._announced = -1

    def __call__(self, step: int) -> AnyBatch:
        if step != self._announced:
            self._announce(step)
        self._announce(step + 1)  # so that the disk is read while this batch is made
        if self._placement is None:
            return self.read(step)
        if not self._placement.is_placed:
            return self.reader.read(step, *self._placement.block(self._shape(step)))
        place = self._placement.place_whole if self._cuts else self._placement.place
        return place(self._shape(step), lambda columns, rows: self.reader.read(step, columns, rows))

    def read(self, step: int, wanted: Offsets | None = None) -> Batch:
        """Return all columns of the wanted rows of a batch (ascending; None: all), on no mesh."""
        return self.reader.read(step, (0, self._width), wanted)

    def check(self) -> None:
        """Raise a ConfigError if a batch of any size cannot be split evenly over the mesh, or is
        larger than the memory of this machine."""
        if self._cuts and self._placement is not None and not self._placement.is_placed:
            raise ConfigError(
                "this view makes arrays of whole rows, and the mesh splits them "
                f"({self._placement.spec}): leave out placed=False, or split only rows"
            )
        for step in self._sizes.steps:
            size, width = self._shape(step)
            if self._placement is not None and not self._placement.is_placed:
                self._placement.check((size, width))
                self._placement.block((size, width))
            elif self._cuts:
                self.spec(step)
            elif self._placement is not None:
                self._placement.check((size, width))
            # A host of a mesh may hold a small part of the tokens, but knows where each row is.
            num_bytes = size * (_PLACE_BYTES + (0 if self._placement else width * _TOKEN_BYTES))
            if num_bytes > _memory():
                raise ConfigError(
                    f"a batch of {size:,} rows takes at least {num_bytes / 1e9:,.0f} GB, this "
                    f"machine has {_memory() / 1e9:,.0f}; set a smaller batch_size"
                )

    def spec(self, step: int) -> dict[str, Any]:
        """Return shape and dtype (on a mesh, sharding too) of each array of a batch."""
        if self._placement is not None and not self._placement.is_placed:
            columns, rows = self._placement.block(self._shape(step))
            part = self.reader.read(step, columns, rows[:1])
            return {n: ArraySpec((len(rows), *a.shape[1:]), a.dtype) for n, a in part.items()}
        row = self.read(step, np.zeros(1, np.int64))
        shapes = {name: (self._sizes.size(step), *a.shape[1:]) for name, a in row.items()}
        if self._placement is None:
            return {name: ArraySpec(shapes[name], array.dtype) for name, array in row.items()}
        for name, shape in shapes.items() if self._cuts else ():
            self._placement.check(shape, f"{name} of ")
        return {
            name: self._placement.spec_of(shapes[name], array.dtype) for name, array in row.items()
        }

    def _announce(self, step: int) -> None:
        self.reader.will_need(step, self._rows(step))
        self._announced = step

    def _rows(self, step: int) -> Offsets | None:
        """Return the rows of a batch that this host reads; None: all."""
        if self._placement is None:
            return None
        groups = self._placement.groups(self._shape(step))
        return np.unique(np.concatenate([group.rows for group in groups]))

    def _shape(self, step: int) -> tuple[int, int]:
        return self._sizes.size(step), self._width


def make_placement(
    mesh: Mesh | None, spec: PartitionSpec | None, *, placed: bool = True
) -> Placement | None:
    """Return how batches are placed on a mesh; None where there is no mesh."""
    if mesh is None:
        if spec is not None or not placed:
            given = "placed=False" if spec is None else f"spec {spec}"
            raise ConfigError(f"{given} needs a mesh")
        return None
    from dataprep.loaders.place import Placement  # without a mesh, jax need not be there

    return Placement(mesh, spec, is_placed=placed)


def _memory() -> int:
    """Return how many bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@lru_cache(maxsize=64)
def _layout(request: Request, num_rows: int) -> tuple[Any, ...]:
    """Return (first byte, last byte, dtype, shape) of each kind of array, then the size of all."""
    kinds = (
        (len(request.tokens), np.int32),
        (len(request.segments), np.int32),
        (len(request.positions), np.int32),
        (len(request.masks), np.bool_),
        (len(request.weights), np.float32),
    )
    parts: list[Any] = []
    start = 0
    for count, kind in kinds:
        shape = (count, num_rows, request.width)
        stop = start + prod(shape) * np.dtype(kind).itemsize
        parts.append((start, stop, kind, shape))
        start = stop + -stop % ALIGNMENT
    return *parts, start
