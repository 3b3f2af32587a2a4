"""Epochs of a loader that may be endless, placed on the mesh: what xlstm-jax's trainer iterates.

for batch in iterator: ...      iterator_length batches
for batch in iterator: ...      the next so many; with reset_after_epoch, the same again
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dataprep.loaders.loader import DataLoader
from dataprep.pipeline.errors import ConfigError, ConflictError


class MultiHostDataLoadIterator:
    """Batches of an iterable of host arrays, or of arrays that are on the mesh already.

    iterator_length     batches of an epoch; None: until the iterable ends
    dataset_size        what others may want to know
    reset_after_epoch   whether every epoch starts anew, or goes on
    pad_shapes          whether arrays of hosts are padded to the largest of all, with pad_value
    """

    def __init__(
        self,
        dataloader: Iterable[Any],
        global_mesh: Mesh,
        iterator_length: int | None = None,
        dataset_size: int | None = None,
        reset_after_epoch: bool = False,
        pad_shapes: bool = False,
        pad_value: int | float = 0,
    ) -> None:
        self.dataloader, self.global_mesh = dataloader, global_mesh
        self.iterator_length, self.dataset_size = iterator_length, dataset_size
        self.reset_after_epoch = reset_after_epoch
        self.pad_shapes, self.pad_value = pad_shapes, pad_value
        self.state_set, self.step_counter = False, 0
        self.local_iterator = iter(dataloader)

    def reset(self) -> None:
        self.step_counter = 0
        if self.reset_after_epoch:
            self.local_iterator = iter(self.dataloader)

    def get_state(self) -> dict[str, Any]:
        state = {"step": self.step_counter, "iterator_length": self.iterator_length}
        if hasattr(self.local_iterator, "get_state"):
            state["iterator"] = self.local_iterator.get_state()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        missing = [key for key in ("step", "iterator_length", "iterator") if key not in state]
        if missing:
            raise ConflictError(f"this is not the state of an iterator: it has no {missing[0]!r}")
        if state["iterator_length"] != self.iterator_length:
            raise ConflictError(
                f"the state has epochs of {state['iterator_length']} batches, this iterator has "
                f"{self.iterator_length}; set batch size and max_steps_per_epoch as they were"
            )
        if not hasattr(self.local_iterator, "set_state"):
            raise ConfigError(f"{type(self.local_iterator).__name__} has no set_state")
        self.local_iterator.set_state(state["iterator"])
        self.step_counter, self.state_set = int(state["step"]), True

    def __iter__(self) -> Self:
        is_over = self.iterator_length is not None and self.step_counter >= self.iterator_length
        if not self.state_set or is_over:
            self.reset()
        self.state_set = False
        return self

    def __len__(self) -> int:
        if self.iterator_length is None:
            raise TypeError("this iterator has no length: it goes on until its data ends")
        return self.iterator_length

    def __next__(self) -> Any:
        if self.iterator_length is not None and self.step_counter >= self.iterator_length:
            raise StopIteration
        batch = next(self.local_iterator)
        self.step_counter += 1
        if self.pad_shapes:
            batch = _padded(batch, self.pad_value)
        return jax.tree.map(lambda array: _placed(array, self.global_mesh), batch)


class CollatedBatches:
    """The batches of a loader as records, such as LLMBatch. A new iterator starts anew."""

    def __init__(self, loader: DataLoader, batch_class: Any, *, cut_last: bool = False) -> None:
        """`cut_last`: leave the rows out that the last batch was padded with."""
        self._loader, self._class, self._cut_last = loader, batch_class, cut_last
        self._keys = list(batch_class.__dataclass_fields__)

    def __iter__(self) -> CollatedIterator:
        self._loader.set_state(self._loader.state_at(0))
        return CollatedIterator(self, self._loader)

    def collate(self, batch: Mapping[str, Any], step: int) -> Any:
        if self._cut_last and not self._loader.has(step + 1):
            count = len(self._loader.rows_of(step))
            batch = {name: array[:count] for name, array in batch.items()}
        return self._class(**{key: batch[key] for key in self._keys if key in batch})


class CollatedIterator(Iterator[Any]):
    """Goes on where the loader is."""

    def __init__(self, batches: CollatedBatches, loader: DataLoader) -> None:
        self._batches, self._loader = batches, loader

    def __next__(self) -> Any:
        step = self._loader.get_state()["step"]
        return self._batches.collate(next(self._loader), step)

    def get_state(self) -> dict[str, Any]:
        return dict(self._loader.get_state())

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._loader.set_state(state)


def _placed(array: Any, mesh: Mesh) -> jax.Array:
    """Split the rows of this host over its devices."""
    if isinstance(array, jax.Array):
        return array
    devices = len(mesh.local_devices)
    if len(array) % devices:
        raise ConfigError(
            f"{len(array)} rows cannot be split over the {devices} devices of this host; "
            "set another batch size, drop the remainder, or pad"
        )
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    shape = (jax.process_count() * len(array), *array.shape[1:])
    return jax.make_array_from_process_local_data(sharding, array, shape)


def _padded(batch: Any, value: int | float) -> Any:
    """Return arrays padded at their ends to the largest of all hosts."""
    leaves, tree = jax.tree.flatten(batch)
    shapes = [np.array(leaf.shape) for leaf in leaves]
    if jax.process_count() > 1:
        shapes = [np.max(shape, axis=0) for shape in process_allgather(shapes)]
    wider = [
        np.pad(
            leaf,
            [(0, int(n) - m) for n, m in zip(to, leaf.shape, strict=True)],
            constant_values=value,
        )
        for leaf, to in zip(leaves, shapes, strict=True)
    ]
    return jax.tree.unflatten(tree, wider)
