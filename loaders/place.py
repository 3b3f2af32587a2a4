"""Host arrays -> `jax.Array` on the user's mesh.

A sharding says which rows and columns each device holds. A host reads those of its own devices and
no others, each once however many devices hold a copy. With a mesh of data 2 × seq 2, where host 0
has the devices of data 0, host 0 reads two groups:

    columns 0 … S/2   rows 0 … B/2
    columns S/2 … S   rows 0 … B/2

Nothing is ever sent from host to host.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dataprep.loaders.packed import Batch
from dataprep.loaders.schedule import shown
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Offsets

Index = tuple[slice, ...]
ReadPart = Callable[[tuple[int, int], Offsets], Batch]  # (columns, rows) -> host arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that a host needs the same columns of."""

    columns: tuple[int, int]
    ranges: tuple[tuple[int, int], ...]  # of rows, ascending

    @property
    def rows(self) -> Offsets:
        return np.concatenate([np.arange(start, stop) for start, stop in self.ranges])

    def offset(self, row: int) -> int:
        """Return where the range that starts at `row` begins among the rows of the group."""
        return sum(stop - start for start, stop in self.ranges if start < row)


def needed(indices: Iterable[Index | None], shape: tuple[int, int]) -> tuple[Group, ...]:
    """Return what a host reads, given the part of the batch that each of its devices holds."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for index in indices:
        rows, columns = _bounds(index, shape)
        found.setdefault(columns, set()).add(rows)
    return tuple(
        Group(columns=columns, ranges=tuple(sorted(found[columns]))) for columns in sorted(found)
    )


def _bounds(index: Index | None, shape: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    whole = (*(index or ()), slice(None), slice(None))[:2]
    (a, b, _), (c, d, _) = (s.indices(n) for s, n in zip(whole, shape, strict=True))
    return (a, b), (c, d)


class Placement:
    """A mesh, and how batches are split over it."""

    def __init__(self, mesh: Mesh, spec: PartitionSpec | None, *, is_placed: bool = True) -> None:
        """`is_placed`: whether batches are put on devices, or left on the host that has them."""
        if not isinstance(mesh, Mesh):
            raise ConfigError(f"mesh must be a jax.sharding.Mesh, got {shown(mesh)}")
        if spec is None:
            spec = PartitionSpec(tuple(mesh.axis_names))
        if not isinstance(spec, PartitionSpec):
            raise ConfigError(f"spec must be a jax.sharding.PartitionSpec, got {shown(spec)}")
        if len(spec) > 2:
            raise ConfigError(f"spec {spec} has {len(spec)} axes, a batch has rows and columns")
        self.mesh, self.spec, self.is_placed = mesh, spec, is_placed
        self._process = os.getpid()
        self._check_spec()
        self.groups = lru_cache(maxsize=256)(self._groups)

    @property
    def splits_columns(self) -> bool:
        """Return whether a device may hold some columns of a row without the others."""
        return self._num_parts(1) > 1

    @property
    def row_parts(self) -> int:
        """Return into how many parts the rows of a batch are split."""
        return self._num_parts(0)

    def _num_parts(self, axis: int) -> int:
        """Return into how many parts an axis of a batch is split."""
        axes = self.spec[axis] if len(self.spec) > axis else None
        names = axes if isinstance(axes, tuple) else (axes,)
        return math.prod(self.mesh.shape[name] for name in names if name is not None)

    def sharding(self, ndim: int = 2) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*self.spec[:ndim]))

    def spec_of(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=self.sharding(len(shape)))

    def _check_spec(self) -> None:
        axes = [
            axis for part in self.spec for axis in (part if isinstance(part, tuple) else (part,))
        ]
        axes = [axis for axis in axes if axis is not None]
        if len({*axes}) != len(axes) or not {*axes} <= {*self.mesh.axis_names}:
            raise ConfigError(
                f"spec {self.spec} must name axes of the mesh ({', '.join(self.mesh.axis_names)}), "
                "each at most once"
            )

    def check(self, shape: tuple[int, ...], what: str = "") -> None:
        """Raise a ConfigError unless every device gets equally much."""
        try:
            self.sharding(len(shape)).shard_shape(shape)
        except ValueError:
            rows, columns = (self._num_parts(axis) for axis in (0, 1))
            raise ConfigError(
                f"{what}a batch of {shape[0]} rows of {shape[1]} tokens cannot be split evenly by "
                f"{self.spec} on a mesh of {dict(self.mesh.shape)}: rows must be a multiple of "
                f"{rows}, tokens of {columns}"
            ) from None

    def block(self, shape: tuple[int, int]) -> tuple[tuple[int, int], Offsets]:
        """Return the columns and the rows that the devices of this host hold; a ConfigError unless
        they hold the same columns of every row, one after another."""
        groups = self.groups(shape)
        follow = all(a.columns[1] == b.columns[0] for a, b in pairwise(groups))
        if not follow or len({group.ranges for group in groups}) != 1:
            raise ConfigError(
                f"the devices of this host do not hold a block of a batch by {self.spec} on a mesh "
                f"of {dict(self.mesh.shape)}; leave out placed=False, or order the mesh otherwise"
            )
        return (groups[0].columns[0], groups[-1].columns[1]), groups[0].rows

    def place(self, shape: tuple[int, int], read: ReadPart) -> dict[str, jax.Array]:
        """Read what this host needs of a batch, and put it on the host's devices."""
        self._check_process()
        groups = self.groups(shape)
        parts = {group.columns: read(group.columns, group.rows) for group in groups}
        by_columns = {group.columns: group for group in groups}
        names = next(iter(parts.values()))
        return {name: self._assemble(name, shape, by_columns, parts) for name in names}

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ConfigError(
                "a loader that places batches on a mesh cannot be used in a forked process: jax "
                "does not work there; start the process by spawn, and make the loader in it"
            )

    def place_whole(self, shape: tuple[int, int], read: ReadPart) -> dict[str, jax.Array]:
        """Read whole rows, though devices may hold parts of them, and place what each holds.

        For views whose columns are not those of the rows: their arrays have widths of their own.
        """
        self._check_process()
        group = Group(columns=(0, shape[1]), ranges=self._ranges(shape[0]))
        parts = read(group.columns, group.rows)
        return {name: self._cut(name, shape[0], group, part) for name, part in parts.items()}

    def _cut(self, name: str, num_rows: int, group: Group, part: np.ndarray[Any, Any]) -> jax.Array:
        whole = (num_rows, *part.shape[1:])
        self.check(whole, f"{name} of ")

        def part_of(index: Index | None) -> np.ndarray[Any, Any]:
            rows, *columns = index or (slice(None),)
            first, stop, _ = rows.indices(num_rows)
            start = group.offset(first)
            return part[(slice(start, start + stop - first), *columns)]

        return jax.make_array_from_callback(whole, self.sharding(len(whole)), part_of)

    def _assemble(
        self,
        name: str,
        shape: tuple[int, int],
        groups: dict[tuple[int, int], Group],
        parts: dict[tuple[int, int], Batch],
    ) -> jax.Array:
        any_part = next(iter(parts.values()))[name]
        whole = global_shape(name, any_part, shape, next(iter(groups)), self.spec)

        def part_of(index: Index | None) -> np.ndarray[Any, Any]:
            rows, columns = _bounds(index, shape)
            start = groups[columns].offset(rows[0])
            return parts[columns][name][start : start + rows[1] - rows[0]]

        return jax.make_array_from_callback(whole, self.sharding(len(whole)), part_of)

    def rows(self, num_rows: int) -> Offsets:
        """Return the rows of a batch that the devices of this host hold, or columns of."""
        ranges = self._ranges(num_rows)
        return np.unique(np.concatenate([np.arange(start, stop) for start, stop in ranges]))

    def _ranges(self, num_rows: int) -> tuple[tuple[int, int], ...]:
        groups = self.groups((num_rows, self._num_parts(1)))  # of whatever columns
        return tuple(sorted({rows for group in groups for rows in group.ranges}))

    def _groups(self, shape: tuple[int, int]) -> tuple[Group, ...]:
        return needed(self.sharding().addressable_devices_indices_map(shape).values(), shape)


def global_shape(
    name: str,
    part: np.ndarray[Any, Any],
    shape: tuple[int, int],
    columns: tuple[int, int],
    spec: PartitionSpec,
) -> tuple[int, ...]:
    """Return the shape of the whole array, of which a host has `part`.

    The second axis need not be the columns: a view may add axes or leave them out.
    """
    if part.ndim >= 2 and part.shape[1] == columns[1] - columns[0]:
        return (*shape, *part.shape[2:])
    if columns == (0, shape[1]) and part.ndim >= 1:
        return (shape[0], *part.shape[1:])
    raise ConfigError(
        f"the view gives {name!r} of shape {part.shape} for columns {columns[0]} to {columns[1]}; "
        f"on a mesh that splits the sequence ({spec}) its second axis must be those columns"
    )
