"""Step -> batch, as host arrays or on the user's mesh.

    step 7  ─►  which rows: (dataset, row) of each           `plans`
            ─►  one buffer for all arrays of the batch       `buffers`
            ─►  tokens, segments, positions, masks           `packed` or `document_rows`, one read
                                                             for each dataset
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

from dataprep.loaders.batching import raised
from dataprep.loaders.buffers import ALIGNMENT, Buffers
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.generations import MixedDataset
from dataprep.loaders.packed import Batch
from dataprep.loaders.paging import DiskWatch
from dataprep.loaders.plans import PADDING, Plan, Shape
from dataprep.loaders.schedule import whole_number
from dataprep.loaders.sources import described
from dataprep.loaders.views import UserView, View, ViewName, make_view
from dataprep.pipeline.errors import ConfigError, ResourceError
from dataprep.pipeline.types import Offsets

if TYPE_CHECKING:
    from jax.sharding import Mesh, PartitionSpec

    from dataprep.loaders.fetching import Fetching
    from dataprep.loaders.place import Placement

AnyBatch = dict[str, Any]  # of numpy arrays, or of jax arrays on a mesh

_PLACE_BYTES, _TOKEN_BYTES = 16, 4  # of a row's dataset and number; of a token
_NO_ROW = np.array([1 << 62])  # behind the last of any batch: it is empty


class ArraySpec(NamedTuple):
    """What `DataLoader.element_spec` says of an array where there is no mesh."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class BatchReader:
    """Reads any part of any batch; holds no position."""

    def __init__(self, members: Sequence[MixedDataset], plan: Plan, view: View) -> None:
        self._members, self._plan, self._view = members, plan, view
        self._buffers = Buffers()
        self._watch = DiskWatch()
        self._request = lru_cache(maxsize=64)(view.request)

    def will_need(self, step: int, wanted: Offsets | None = None) -> None:
        """Start to read the wanted rows of a batch, if reads have come from the disk of late."""
        if not self._watch.reads():
            return
        datasets, rows = self.wanted(step, wanted)
        for number, member in enumerate(self._members):
            mine = rows[datasets == number]
            if len(mine):
                member.at(step).will_need(mine)

    def read(self, step: int, columns: tuple[int, int], wanted: Offsets | None = None) -> Batch:
        """Return columns [start, stop) of the wanted rows of a batch (ascending; None: all)."""
        datasets, rows = self.wanted(step, wanted)
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

    def wanted(self, step: int, wanted: Offsets | None) -> tuple[Offsets, Offsets]:
        """Return the dataset and the row for each of the wanted rows; those behind the last are
        empty."""
        datasets, rows = self._plan.rows(step)
        if wanted is None:
            return datasets, rows
        inside = np.minimum(wanted, len(rows) - 1)
        return np.where(wanted < len(rows), datasets[inside], PADDING), rows[inside]

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
        plan: Plan,
        placement: Placement | None,
        *,
        whole_rows: bool = False,
    ) -> None:
        self.reader, self.plan, self._placement = reader, plan, placement
        self._cuts = whole_rows and placement is not None and placement.splits_columns
        self._announced = -1
        self.fetching: Fetching | None = None  # what fetches shards ahead of the batches

    def __call__(self, step: int) -> AnyBatch:
        if self.fetching is not None:
            self.fetching.at(step)
        if step != self._announced:
            self._announce(step)
        self._announce(step + 1)  # so that the disk is read while this batch is made
        if self._placement is None:
            return self.read(step)
        if not self._placement.is_placed:
            return self.reader.read(step, *self._placement.block(self.shape(step)))
        place = self._placement.place_whole if self._cuts else self._placement.place
        return place(self.shape(step), lambda columns, rows: self.reader.read(step, columns, rows))

    def read(self, step: int, wanted: Offsets | None = None) -> Batch:
        """Return all columns of the wanted rows of a batch (ascending; None: all), on no mesh."""
        return self.reader.read(step, (0, self.plan.shape(step)[1]), wanted)

    def part(self, step: int, index: Any, count: Any) -> Batch:
        """Return one of `count` equal parts of the rows of a batch, on no mesh."""
        index, count = whole_number("index", index), whole_number("count", count, least=1)
        if self.fetching is not None:
            self.fetching.at(step)
        rows = self.plan.shape(step)[0]
        size, rest = divmod(raised(rows, count if self.plan.adds_rows else 1), count)
        if rest or not 0 <= index < count:
            raise ConfigError(
                f"part {index} of {count} of a batch of {rows} rows: the parts must be equal"
            )
        return self.read(step, np.arange(index * size, (index + 1) * size))

    def check(self) -> None:
        """Raise a ConfigError if a batch of any size cannot be split evenly over the mesh, or is
        larger than the memory of this machine."""
        if self._cuts and self._placement is not None and not self._placement.is_placed:
            raise ConfigError(
                "this view makes arrays of whole rows, and the mesh splits them "
                f"({self._placement.spec}): leave out placed=False, or split only rows"
            )
        for step, planned in self.plan.shapes():
            size, width = self._split(planned)
            if self._placement is not None and not self._placement.is_placed:
                self._placement.check((size, width))
                self._placement.block((size, width))
            elif self._cuts:
                self._spec_of(self.reader.read(step, (0, width), _NO_ROW), size)
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
            columns, rows = self._placement.block(self.shape(step))
            part = self.reader.read(step, columns, rows[:1])
            return {n: ArraySpec((len(rows), *a.shape[1:]), a.dtype) for n, a in part.items()}
        return self._spec_of(self.read(step, np.zeros(1, np.int64)), self.shape(step)[0])

    def _spec_of(self, row: Batch, num_rows: int) -> dict[str, Any]:
        """Return the spec of a batch of so many rows like this one."""
        shapes = {name: (num_rows, *a.shape[1:]) for name, a in row.items()}
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

    def wanted(self, step: int) -> tuple[Offsets, Offsets]:
        """Return the dataset and the row for each row of a batch that this host reads."""
        return self.reader.wanted(step, self._rows(step))

    def _rows(self, step: int) -> Offsets | None:
        """Return the rows of a batch that this host reads; None: all."""
        if self._placement is None:
            return None
        return self._placement.rows(self.shape(step)[0])

    def shapes(self) -> list[Shape]:
        """Return all shapes that batches may have."""
        return list(dict.fromkeys(self._split(shape) for _, shape in self.plan.shapes()))

    def shape(self, step: int) -> Shape:
        """Return the rows and columns of a batch."""
        return self._split(self.plan.shape(step))

    def _split(self, shape: Shape) -> Shape:
        """Return the shape of a batch with the empty rows that are needed to split it evenly."""
        if self._placement is None or not self.plan.adds_rows:
            return shape
        return raised(shape[0], self._placement.row_parts), shape[1]


def make_batches(
    members: Sequence[MixedDataset],
    plan: Plan,
    view: ViewName | UserView,
    placement: Placement | None,
) -> BatchMaker:
    """Return what makes batches; a ConfigError if the mesh cannot hold one of them."""
    named = make_view(view, [described(one) for member in members for one in member.datasets])
    reader = BatchReader(members, plan, named)
    maker = BatchMaker(reader, plan, placement, whole_rows=named.whole_rows)
    maker.check()
    return maker


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
