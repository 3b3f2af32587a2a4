"""Some rows of a dataset, one after another, and empty rows after its last.

10 rows, from 4 up to 12     4 5 6 7 8 9 · ·
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.selection import Chosen, Numbers, selected
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.types import Offsets


class RowRange(PackedDataset):
    """Rows [start, stop) of a dataset; what it does not have is padding."""

    def __init__(self, rows: PackedDataset, start: int, stop: int) -> None:
        super().__init__(rows.folder, rows.about, shards=rows._shards)
        self._inner, self._first, self._count = rows, start, stop - start
        self.fingerprint = fingerprint({"of": rows.fingerprint, "rows": [start, stop]})

    def __reduce__(self) -> tuple[Any, ...]:
        return RowRange, (self._inner, self._first, self._first + self._count)

    def __len__(self) -> int:
        return self._count

    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        is_there = self._first + rows < len(self._inner)
        self._inner.read(self._first + rows[is_there], request, out, places[is_there])
        empty = places[~is_there]
        if len(empty):
            out.tokens[:, empty] = self.pad
            for array in (out.segments, out.positions, out.masks, out.weights):
                array[:, empty] = 0

    def select(self, which: Numbers) -> PackedDataset:
        """Return a dataset of some of these rows; padding cannot be selected."""
        own = Chosen(numbers=range(self._first, self._first + self._count))
        return self._inner.select(selected(which, self._count, own).numbers)

    def will_need(self, rows: Offsets) -> None:
        wanted = self._first + rows
        self._inner.will_need(wanted[wanted < len(self._inner)])

    def prepare(self) -> None:
        self._inner.prepare()


def share_of(count: int, index: int, hosts: int) -> tuple[int, int]:
    """Return the part of so many elements that a host has; the first hosts have one more.

    >>> [share_of(10, host, 3) for host in range(3)]
    [(0, 4), (4, 7), (7, 10)]
    """
    if not 0 <= index < hosts:
        raise ConfigError(f"host {index} is not among {hosts}, which are counted from 0")
    edges = np.cumsum([0, *(count // hosts + (host < count % hosts) for host in range(hosts))])
    return int(edges[index]), int(edges[index + 1])
