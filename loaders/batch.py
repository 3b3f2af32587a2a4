"""Step -> host arrays: which rows a batch has, and its columns of them as a view names them.

Everything here is a function of the datasets, the order and the step; a host asks for the part of
a batch that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from dataprep.loaders.buffers import ALIGNMENT, Buffers
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.mixture import Mixture
from dataprep.loaders.packed import Batch, PackedDataset
from dataprep.loaders.schedule import BatchSizes
from dataprep.loaders.views import View
from dataprep.loaders.watch import DiskWatch
from dataprep.pipeline.types import Offsets

PADDING = -1  # in place of a dataset: a row that is not there
_BLOCK_ROWS = 4096  # whose order is worked out at once


class BatchReader:
    """Reads any part of any batch; holds no position."""

    def __init__(
        self,
        datasets: Sequence[PackedDataset],
        mixture: Mixture,
        sizes: BatchSizes,
        view: View,
    ) -> None:
        self._datasets, self._mixture, self._sizes, self._view = datasets, mixture, sizes, view
        self._buffers = Buffers()
        self._watch = DiskWatch()
        self._order = lru_cache(maxsize=8)(mixture.locate)
        self._request = lru_cache(maxsize=64)(view.request)

    def rows(self, step: int) -> tuple[Offsets, Offsets]:
        """The dataset (or PADDING) and the row in it, for each row of a batch."""
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
        """Start to read rows, if reads have come from the disk of late."""
        if not self._watch.reads():
            return
        datasets, rows = self._wanted(step, wanted)
        for number, dataset in enumerate(self._datasets):
            mine = rows[datasets == number]
            if len(mine):
                dataset.will_need(mine)

    def read(self, step: int, columns: tuple[int, int], wanted: Offsets | None = None) -> Batch:
        """Columns start ≤ c < stop of the wanted rows of a batch (ascending; None: all)."""
        datasets, rows = self._wanted(step, wanted)
        start, width = columns[0], columns[1] - columns[0]
        requests = [self._request(start, width, dataset.masks) for dataset in self._datasets]
        out = self._allocate(requests[0], len(rows))
        for number, dataset in enumerate(self._datasets):
            places = np.flatnonzero(datasets == number)
            if len(places):
                dataset.read(rows[places], requests[number], out, places)
        missing = np.flatnonzero(datasets == PADDING)
        if len(missing):
            out.tokens[:, missing] = self._datasets[0].pad
            for array in (out.segments, out.positions, out.masks):
                array[:, missing] = 0
        return self._view.name(out)

    def _wanted(self, step: int, wanted: Offsets | None) -> tuple[Offsets, Offsets]:
        datasets, rows = self.rows(step)
        return (datasets, rows) if wanted is None else (datasets[wanted], rows[wanted])

    def _allocate(self, request: Request, num_rows: int) -> Arrays:
        """All arrays of a batch in one buffer."""
        *parts, total = _layout(request, num_rows)
        buffer = self._buffers.take(total)
        arrays = (
            buffer[start:stop].view(kind).reshape(shape) for start, stop, kind, shape in parts
        )
        tokens, segments, positions, masks = arrays
        return Arrays(tokens=tokens, segments=segments, positions=positions, masks=masks)


@lru_cache(maxsize=64)
def _layout(request: Request, num_rows: int) -> tuple[Any, ...]:
    """(first byte, last byte, dtype, shape) of each kind of array, and the size of all."""
    kinds = (
        (len(request.tokens), np.int32),
        (len(request.segments), np.int32),
        (len(request.positions), np.int32),
        (len(request.masks), np.bool_),
    )
    parts: list[Any] = []
    start = 0
    for count, kind in kinds:
        shape = (count, num_rows, request.width)
        stop = start + prod(shape) * np.dtype(kind).itemsize
        parts.append((start, stop, kind, shape))
        start = stop + -stop % ALIGNMENT
    return *parts, start
