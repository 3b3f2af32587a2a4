"""Step -> batch, on the user's mesh if there is one. What the thread that reads ahead runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dataprep.loaders.batch import BatchReader
from dataprep.loaders.schedule import BatchSizes
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Offsets

if TYPE_CHECKING:
    from jax.sharding import Mesh, PartitionSpec

    from dataprep.loaders.place import Placement

AnyBatch = dict[str, Any]  # of numpy arrays, or of jax arrays on a mesh


class ArraySpec(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Maker:
    """Holds no position, but for what it last told the system to read."""

    def __init__(
        self, reader: BatchReader, sizes: BatchSizes, seq_len: int, placement: Placement | None
    ) -> None:
        self.reader, self._sizes, self._seq_len = reader, sizes, seq_len
        self._placement = placement
        self._announced = -1

    def __call__(self, step: int) -> AnyBatch:
        if step != self._announced:
            self._announce(step)
        self._announce(step + 1)  # so that the disk is read while this batch is made
        if self._placement is None:
            return self.reader.read(step, (0, self._seq_len))
        return self._placement.place(
            self._shape(step), lambda columns, rows: self.reader.read(step, columns, rows)
        )

    def check(self) -> None:
        for step in self._sizes.steps if self._placement else ():
            assert self._placement is not None
            self._placement.check(self._shape(step))

    def spec(self, step: int) -> dict[str, Any]:
        row = self.reader.read(step, (0, self._seq_len), np.zeros(1, np.int64))
        shapes = {name: (self._sizes.size(step), *a.shape[1:]) for name, a in row.items()}
        if self._placement is None:
            return {name: ArraySpec(shapes[name], array.dtype) for name, array in row.items()}
        return {
            name: self._placement.spec_of(shapes[name], array.dtype) for name, array in row.items()
        }

    def _announce(self, step: int) -> None:
        self.reader.will_need(step, self._rows(step))
        self._announced = step

    def _rows(self, step: int) -> Offsets | None:
        if self._placement is None:
            return None
        groups = self._placement.groups(self._shape(step))
        return np.unique(np.concatenate([group.rows for group in groups]))

    def _shape(self, step: int) -> tuple[int, int]:
        return self._sizes.size(step), self._seq_len


def make_placement(mesh: Mesh | None, spec: PartitionSpec | None) -> Placement | None:
    if mesh is None:
        if spec is not None:
            raise ConfigError(f"spec {spec} needs a mesh")
        return None
    from dataprep.loaders.place import Placement  # without a mesh, jax need not be there

    return Placement(mesh, spec)
