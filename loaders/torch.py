"""Packed datasets for torch: rows by their number, or whole batches in the loader's order.

    from torch.utils.data import DataLoader

    DataLoader(PackedRows("data/packed"), batch_size=8, shuffle=True)
    DataLoader(PackedBatches("data/packed", batch_size=8, seed=0), batch_size=None, num_workers=4)
    DataLoader(PackedStream("data/packed", batch_size=8, seed=0), batch_size=8, num_workers=4)

The last two give the same batches; the last is for trainers that make batches of rows themselves.
Batches come in the order of `dataprep.loaders.DataLoader`, whatever the number of workers; with
`rank` and `world_size` each process gets its part of every batch. Ids are int64, as torch expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

try:
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"dataprep.loaders.torch needs torch ({error}); pip install torch", name=error.name
    ) from None

from dataprep.loaders.generations import Generation
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.open import Data, Mix, open_packed
from dataprep.loaders.packed import Batch, empty_arrays
from dataprep.loaders.schedule import shown, whole_number
from dataprep.loaders.views import UserView, ViewName, make_view
from dataprep.loaders.whole import Verify, check_verify
from dataprep.pipeline.errors import ConflictError

TensorBatch = dict[str, Any]  # name -> tensor


class PackedRows(Dataset):  # type: ignore[misc]
    """A map-style dataset: row i as tensors, named by a view; `verify` as `DataLoader` has it, and
    `generation`, which stays the same."""

    def __init__(
        self,
        data: Data,
        view: ViewName | UserView = "default",
        *,
        generation: Generation | None = None,
        verify: Verify = "lazy",
    ) -> None:
        check_verify(verify)
        self._dataset = open_packed(data, verify, generation)
        self._view = view

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> TensorBatch:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[TensorBatch]:
        """Return many rows, read at once; torch calls this for a batch."""
        dataset = self._dataset
        view = make_view(self._view, [dataset.about])
        request = view.request(0, dataset.seq_len + view.more_columns, dataset.masks)
        out = empty_arrays(request, len(rows))
        dataset.read(dataset.checked(rows), request, out, np.arange(len(rows)))
        tensors = _tensors(view.name(out, 0))
        return [{name: tensor[i] for name, tensor in tensors.items()} for i in range(len(rows))]


class PackedBatches(IterableDataset):  # type: ignore[misc]
    """Batches from `start_step` on; takes the options of `DataLoader` except mesh and prefetch."""

    def __init__(
        self,
        data: Data | Mix,
        *,
        start_step: int = 0,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self._data, self._options = data, {**options, "prefetch": 0}
        self._start, self._rank, self._world = start_step, rank, world_size
        self._seed, self._epoch = whole_number("seed", seed), 0
        self._loader: DataLoader | None = None
        # Of the iterator that came last: how many steps it takes at a time, and its next step.
        self._stride, self._next = 1, start_step
        self._found: Mapping[str, Any] | None = None  # a state that the next iterator goes on from
        len(self._opened.datasets)  # opened now, so that errors are raised here

    def __len__(self) -> int:
        return max(0, len(self._opened) - self._start)

    def __iter__(self) -> Iterator[TensorBatch]:
        worker = get_worker_info()
        number, self._stride = (worker.id, worker.num_workers) if worker else (0, 1)
        # Torch takes a batch of each worker in turn, so this gives the steps in order.
        self._next, self._found = self._first(number), None
        return self._rest()

    def _rest(self) -> Iterator[TensorBatch]:
        while self._opened.has(self._next):
            batch = _tensors(self._opened.part(self._next, self._rank, self._world))
            self._next += self._stride
            yield batch

    @property
    def goes_on(self) -> bool:
        """Return whether the next iterator goes on from a state."""
        return self._found is not None

    def set_epoch(self, epoch: int) -> bool:
        """Have the next iterator begin an epoch, in an order of its own: that of seed + epoch, as
        torch's DistributedSampler has it; return whether it is another. Trainers call this; epoch 0
        is the order of the seed."""
        number = whole_number("epoch", epoch, least=0)
        is_new = number != self._epoch
        if is_new:
            self._epoch, self._loader = number, None
            self._next, self._found = self._start, None
        return is_new

    def state_dict(self) -> dict[str, Any]:
        """Return where the last iterator is; in a worker, where the iterator of that worker is."""
        if self._found is not None:
            return dict(self._found)
        state = dict(self._opened.state_at(self._next))
        return {"epoch": self._epoch, "workers": self._stride, "loader": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next iterator go on from a state; one of other data or another order is an
        error."""
        try:
            epoch, workers, loader = (state[key] for key in ("epoch", "workers", "loader"))
        except (KeyError, TypeError):
            raise ConflictError(f"{shown(state)} is not the state of a PackedBatches") from None
        self.set_epoch(epoch)
        self._opened.set_state(loader)
        self._stride, self._next = whole_number("workers", workers, least=1), loader["step"]
        self._found = dict(state)

    def _first(self, number: int) -> int:
        """Return the first step of a worker, of as many as there are now."""
        if self._found is None:
            return self._start + number
        step: int = self._found["loader"]["step"]
        saved: int = self._found["workers"]
        if saved == 1:
            return step + number
        if saved != self._stride:
            raise ConflictError(
                f"the state is that of one of {saved} workers, there are {self._stride} now; set "
                "num_workers as it was"
            )
        return step

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}

    @property
    def _opened(self) -> DataLoader:
        if self._loader is None:
            seed = self._seed + self._epoch
            self._loader = DataLoader(self._data, seed=seed, **self._options)
        return self._loader


class PackedStream(IterableDataset):  # type: ignore[misc]
    """The rows of `PackedBatches`, one by one, for trainers that make batches themselves, such as
    that of transformers. Give it the `batch_size` that they have: a worker gives so many rows in
    turn, so that any number of workers keeps the order."""

    def __init__(self, data: Data | Mix, *, batch_size: int, **options: Any) -> None:
        batch_size = whole_number("batch_size of a stream of rows", batch_size, least=1)
        self._batches = PackedBatches(data, batch_size=batch_size, **options)
        self._size: int = batch_size // options.get("world_size", 1)
        # Of the iterator that came last: where it was before its batch, and the rows given since.
        self._before, self._given = self._batches.state_dict(), 0

    def __len__(self) -> int:
        return len(self._batches) * self._size

    def __iter__(self) -> Iterator[TensorBatch]:
        self._given = self._given if self._batches.goes_on else 0
        batches = iter(self._batches)
        self._before = self._batches.state_dict()
        return self._rest(batches)

    def _rest(self, batches: Iterator[TensorBatch]) -> Iterator[TensorBatch]:
        for batch in batches:
            while self._given < self._size:
                row = {name: tensor[self._given] for name, tensor in batch.items()}
                self._given += 1
                yield row
            self._before, self._given = self._batches.state_dict(), 0

    def set_epoch(self, epoch: int) -> None:
        """Have the next iterator begin an epoch: see `PackedBatches`."""
        if self._batches.set_epoch(epoch):
            self._before, self._given = self._batches.state_dict(), 0

    def state_dict(self) -> dict[str, Any]:
        """Return where the last iterator is; in a worker, where the iterator of that worker is."""
        return {**self._before, "rows": self._given}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next iterator go on from a state; one of other data is an error."""
        self._batches.load_state_dict(state)
        self._before = self._batches.state_dict()
        self._given = whole_number("rows", state.get("rows", 0), least=0)


def _tensors(batch: Batch) -> TensorBatch:
    found = {name: torch.from_numpy(array) for name, array in batch.items()}
    return {name: t.long() if t.dtype == torch.int32 else t for name, t in found.items()}
