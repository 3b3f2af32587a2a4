"""Step -> host arrays: which rows a batch has, and its columns of them as a view names them.

Everything here is a function of the datasets, the order and the step; a host asks for the part of
a batch that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.buffers import ALIGNMENT, Buffers
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.mixture import Mixture
from dataprep.loaders.packed import Batch, PackedDataset
from dataprep.loaders.schedule import BatchSizes
from dataprep.loaders.views import View
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
        self._order = lru_cache(maxsize=8)(self._mixture.locate)

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
        datasets, rows = self._wanted(step, wanted)
        for number, dataset in enumerate(self._datasets):
            mine = rows[datasets == number]
            if len(mine):
                dataset.will_need(mine)

    def read(self, step: int, columns: tuple[int, int], wanted: Offsets | None = None) -> Batch:
        """Columns start ≤ c < stop of the wanted rows of a batch (ascending; None: all)."""
        datasets, rows = self._wanted(step, wanted)
        requests = [self._request(*columns, dataset.masks) for dataset in self._datasets]
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

    def _request(self, start: int, stop: int, masks: tuple[str, ...]) -> Request:
        return self._view.request(start, stop - start, masks)

    def _allocate(self, request: Request, num_rows: int) -> Arrays:
        """All arrays of a batch in one buffer."""
        shape = (num_rows, request.width)
        kinds = {
            "tokens": (len(request.tokens), np.dtype(np.int32)),
            "segments": (len(request.segments), np.dtype(np.int32)),
            "positions": (len(request.positions), np.dtype(np.int32)),
            "masks": (len(request.masks), np.dtype(np.bool_)),
        }
        sizes = [n * num_rows * request.width * dtype.itemsize for n, dtype in kinds.values()]
        starts = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]).tolist()
        buffer = self._buffers.take(starts[-1])
        arrays: dict[str, NDArray[Any]] = {
            name: buffer[start : start + size].view(dtype).reshape(n, *shape)
            for (name, (n, dtype)), start, size in zip(
                kinds.items(), starts[:-1], sizes, strict=True
            )
        }
        return Arrays(**arrays)
