"""TrainScale's builder of loaders of torch.

    DataLoaderBuilder().with_dataset(train).with_batch_size(32).with_distributed(0, 8).build()

Every loop over what it builds is an epoch with an order of its own, that of seed + epoch, as
torch's DistributedSampler has it; `set_epoch` says which one is next. Unlike TrainScale's, ranks of
a stream get different records, and as many batches each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import DistributedSampler, IterableDataset

from dataprep.loaders.compat.trainscale.arrays import Side
from dataprep.loaders.compat.trainscale.collate import IGNORED, create_collate_fn
from dataprep.loaders.compat.trainscale.datasets import StreamingPreprocessedDataset
from dataprep.loaders.compat.trainscale.shares import Share
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError

_OF_CONFIG = (
    *("batch_size", "num_workers", "pin_memory", "drop_last", "shuffle"),
    *("prefetch_factor", "persistent_workers"),
)


class EpochLoader(TorchLoader):  # type: ignore[misc]
    """A loader of torch whose loops are epochs."""

    next_epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Have the next loop be this epoch."""
        self.next_epoch = whole_number("epoch", epoch, least=0)

    def __iter__(self) -> Iterator[Any]:
        for one in (self.sampler, self.dataset):
            if hasattr(one, "set_epoch"):
                one.set_epoch(self.next_epoch)
        self.next_epoch += 1
        found: Iterator[Any] = super().__iter__()
        return found


@dataclass
class DataLoaderBuilder:
    """Settings of a loader, by name or by calls that return the builder."""

    dataset: Any = None
    batch_size: int = 8  # of a rank
    shuffle: bool = True
    num_workers: int = 4
    pin_memory: bool = True
    drop_last: bool = False
    prefetch_factor: int = 2
    persistent_workers: bool = True
    pad_token_id: int = 0
    label_pad_token_id: int = IGNORED
    padding_side: Side = "right"
    max_length: int | None = None
    distributed: bool = False
    rank: int = 0
    world_size: int = 1
    collate_fn: Callable[..., Any] | None = None
    sampler: Any = None
    output_schema: Any = None
    seed: int = 42

    def with_dataset(self, dataset: Any) -> Self:
        return self._set(dataset=dataset)

    def with_batch_size(self, batch_size: int) -> Self:
        return self._set(batch_size=batch_size)

    def with_shuffle(self, shuffle: bool) -> Self:
        return self._set(shuffle=shuffle)

    def with_workers(self, num: int, pin_memory: bool = True) -> Self:
        """As TrainScale documents it; its code has the next two."""
        return self._set(num_workers=num, pin_memory=pin_memory)

    def with_num_workers(self, num_workers: int) -> Self:
        return self._set(num_workers=num_workers)

    def with_pin_memory(self, pin_memory: bool) -> Self:
        return self._set(pin_memory=pin_memory)

    def with_drop_last(self, drop_last: bool) -> Self:
        return self._set(drop_last=drop_last)

    def with_padding(
        self,
        pad_token_id: int,
        label_pad_token_id: int = IGNORED,
        padding_side: Side = "right",
        max_length: int | None = None,
    ) -> Self:
        return self._set(
            pad_token_id=pad_token_id,
            label_pad_token_id=label_pad_token_id,
            padding_side=padding_side,
            max_length=max_length,
        )

    def with_distributed(self, rank: int, world_size: int) -> Self:
        return self._set(distributed=True, rank=rank, world_size=world_size)

    def with_collate_fn(self, collate_fn: Callable[..., Any]) -> Self:
        return self._set(collate_fn=collate_fn)

    def with_sampler(self, sampler: Any) -> Self:
        return self._set(sampler=sampler)

    def with_output_schema(self, schema: Any) -> Self:
        return self._set(output_schema=schema)

    def with_config(self, config: Any) -> Self:
        """Take what TrainScale's DataLoaderConfig has."""
        return self._set(**{name: getattr(config, name) for name in _OF_CONFIG})

    def with_seed(self, seed: int) -> Self:
        return self._set(seed=seed)

    def build(self) -> EpochLoader:
        """Return the loader."""
        if self.dataset is None:
            raise ConfigError("the builder has no dataset; call with_dataset(dataset)")
        whole_number("batch_size", self.batch_size, least=1)
        whole_number("world_size", self.world_size, least=1)
        if not 0 <= whole_number("rank", self.rank) < self.world_size:
            raise ConfigError(f"rank {self.rank} is not below world_size {self.world_size}")
        workers = whole_number("num_workers", self.num_workers, least=0)
        options: dict[str, Any] = self._of_dataset()
        if workers:
            options["prefetch_factor"] = self.prefetch_factor
            options["persistent_workers"] = self.persistent_workers
        return EpochLoader(
            batch_size=self.batch_size,
            collate_fn=self.collate_fn or self._collate(),
            num_workers=workers,
            pin_memory=self.pin_memory,
            drop_last=self.drop_last,
            **options,
        )

    def _of_dataset(self) -> dict[str, Any]:
        """Return the dataset, and what decides which of its examples come when."""
        if isinstance(self.dataset, IterableDataset):
            if self.sampler is not None:
                raise ConfigError(
                    f"a stream such as {shown(self.dataset)} has no numbers that a sampler could "
                    "choose; leave with_sampler out, and shuffle the dataset: "
                    "dataset.shuffle(buffer_size, seed)"
                )
            return {"dataset": self._shared()}
        sampler = (
            self.sampler
            if self.sampler is not None
            else DistributedSampler(
                self.dataset,
                num_replicas=self.world_size,
                rank=self.rank,
                shuffle=self.shuffle,
                seed=self.seed,
                drop_last=self.drop_last,
            )
        )
        return {"dataset": self.dataset, "sampler": sampler}

    def _shared(self) -> Any:
        if isinstance(self.dataset, StreamingPreprocessedDataset):
            share = Share(
                rank=self.rank,
                world_size=self.world_size,
                batch_size=self.batch_size,
                drop_last=self.drop_last,
            )
            return self.dataset.shared(share)
        if self.world_size > 1:
            raise ConfigError(
                f"every rank would read all of {shown(self.dataset)}; give a "
                "StreamingPreprocessedDataset, or share it out and leave with_distributed out"
            )
        return self.dataset

    def _collate(self) -> Callable[..., Any]:
        return create_collate_fn(
            pad_token_id=self.pad_token_id,
            label_pad_token_id=self.label_pad_token_id,
            padding_side=self.padding_side,
            max_length=self.max_length,
            output_schema=self.output_schema,
        )

    def _set(self, **settings: Any) -> Self:
        for name, value in settings.items():
            setattr(self, name, value)
        return self


def build_dataloader(
    dataset: Any, batch_size: int = 8, *, config: Any = None, **settings: Any
) -> EpochLoader:
    """Return a loader of these settings; those of a config count more."""
    builder = DataLoaderBuilder(dataset, batch_size, **settings)
    return (builder if config is None else builder.with_config(config)).build()


def build_distributed_dataloaders(
    dataset: Any, world_size: int, batch_size: int = 8, **settings: Any
) -> list[EpochLoader]:
    """Return the loaders of all ranks."""
    return [
        build_dataloader(
            dataset,
            batch_size=batch_size,
            distributed=True,
            rank=rank,
            world_size=world_size,
            **settings,
        )
        for rank in range(world_size)
    ]
