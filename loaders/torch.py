"""Packed datasets for torch: rows by their number, or whole batches in the loader's order.

    from torch.utils.data import DataLoader

    DataLoader(PackedRows("data/packed"), batch_size=8, shuffle=True)
    DataLoader(PackedBatches("data/packed", batch_size=8, seed=0), batch_size=None, num_workers=4)

Batches come in the order of `dataprep.loaders.DataLoader`, whatever the number of workers; with
`rank` and `world_size` each process gets its part of every batch. Ids are int64, as torch expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
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
from dataprep.loaders.views import UserView, ViewName, make_view
from dataprep.loaders.whole import Verify, check_verify

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
        **options: Any,
    ) -> None:
        self._data, self._options = data, {**options, "prefetch": 0}
        self._start, self._rank, self._world = start_step, rank, world_size
        len(self._loader.datasets)  # opened now, so that errors are raised here

    def __len__(self) -> int:
        return max(0, len(self._loader) - self._start)

    def __iter__(self) -> Iterator[TensorBatch]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        # Torch takes a batch of each worker in turn, so this gives the steps in order.
        for step in count(self._start + number, workers):
            if not self._loader.has(step):
                return
            yield _tensors(self._loader.part(step, self._rank, self._world))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_loader"}

    @cached_property
    def _loader(self) -> DataLoader:
        return DataLoader(self._data, **self._options)


def _tensors(batch: Batch) -> TensorBatch:
    found = {name: torch.from_numpy(array) for name, array in batch.items()}
    return {name: t.long() if t.dtype == torch.int32 else t for name, t in found.items()}
