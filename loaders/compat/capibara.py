"""Capibara's data loader over datasets that dataprep made: change one import.

    from dataprep.loaders.compat.capibara import CapibaraDataLoader
    # was: from capibara_model.data.data_loader import CapibaraDataLoader

    loader = CapibaraDataLoader(config, tokenizer, dataset_name="wikitext", cache_dir="data")
    for batch in loader: ...        # data/wikitext; input_ids, attention_mask, labels, jnp arrays

Every loop is an epoch with an order of its own. Where Capibara is wrong, this is right: the mask is
0 over padding; epochs differ; `len` is the number of batches; data that cannot be loaded is an
error and not an empty loader; nothing is downloaded, unpacked or executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dataprep.loaders.compat.unheard import refuse_unheard
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.open import Data, Mix
from dataprep.loaders.packed import Batch, PackedDataset
from dataprep.loaders.schedule import Remainder, whole_number
from dataprep.pipeline.errors import ConfigError, ConflictError

_IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class DataLoaderConfig:
    """Capibara's settings, with its defaults; None of max_length: as the dataset has it."""

    batch_size: Any = 32  # or {step: rows}, ByTokens, …: whatever DataLoader takes
    shuffle: bool = True
    num_workers: int = 4  # 0: no batch is made ahead
    max_length: int | None = None
    dataset_name: Data | Mix = "wikitext"
    cache_dir: str | Path | None = None  # the folder that has datasets by name


class CapibaraDataLoader:
    """Batches of input_ids, attention_mask and labels (-100: no loss)."""

    def __init__(
        self,
        config: Any = None,
        tokenizer: Any = None,
        dataset_name: Data | Mix | None = None,
        batch_size: Any = None,
        shuffle: bool | None = None,
        num_workers: int | None = None,
        max_length: int | None = None,
        cache_dir: str | Path | None = None,
        *,
        seed: int = 0,
        remainder: Remainder = "drop",
    ) -> None:
        """What is given here counts more than what the config has, which any object may be."""
        told = {
            "batch_size": batch_size,
            "shuffle": shuffle,
            "num_workers": num_workers,
            "max_length": max_length,
            "dataset_name": dataset_name,
            "cache_dir": cache_dir,
        }
        self.config = settings_of(config, told)
        self.tokenizer = tokenizer
        whole_number("num_workers", self.config.num_workers, least=0)
        self._data = data_of(self.config)
        self._seed, self._remainder = whole_number("seed", seed), remainder
        self._epoch = 0
        self._loader = self._open()
        self._is_new = True
        self._check()

    def __len__(self) -> int:
        """Return how many batches an epoch has."""
        return len(self._loader)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Begin the next epoch; once after a state was set, go on where it was."""
        if not self._is_new:
            self.set_epoch(self._epoch + 1)
        self._is_new = False
        return self._data_generator()

    def _data_generator(self) -> Iterator[dict[str, Any]]:
        for batch in self._loader:
            names = [*batch]
            rows = zip(*batch.values(), strict=True)
            yield self._collate_fn([dict(zip(names, row, strict=True)) for row in rows])

    def _collate_fn(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
        """Return rows as a batch of jnp arrays; a class of your own may do otherwise."""
        import jax.numpy as jnp

        return {name: jnp.asarray(np.stack([row[name] for row in batch])) for name in batch[0]}

    def set_epoch(self, epoch: int) -> None:
        """Have the next loop be this epoch, in the order of seed + epoch."""
        self._epoch = whole_number("epoch", epoch, least=0)
        self._loader.close()
        self._loader, self._is_new = self._open(), True

    def get_state(self) -> dict[str, Any]:
        """Return where the loader is: plain values."""
        return {"epoch": self._epoch, "loader": dict(self._loader.get_state())}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Have the next loop go on from a state; one of other data or settings is an error."""
        try:
            epoch, found = state["epoch"], state["loader"]
        except (KeyError, TypeError):
            raise ConflictError(f"{state!r:.80} is not the state of a CapibaraDataLoader") from None
        self.set_epoch(epoch)
        self._loader.set_state(found)

    def close(self) -> None:
        self._loader.close()

    def _open(self) -> DataLoader:
        return DataLoader(
            self._data,
            batch_size=self.config.batch_size,
            shuffle=self.config.shuffle,
            seed=self._seed + self._epoch,
            epochs=1,
            view=as_capibara,
            remainder=self._remainder,
            prefetch=2 if self.config.num_workers else 0,
        )

    def _check(self) -> None:
        """Compare the dataset with the settings of how it should have been made."""
        refuse_unheard(self._loader.datasets.values(), "Capibara")
        length, found = self.config.max_length, self._loader.seq_len + 1
        is_packed = all(isinstance(one, PackedDataset) for one in self._loader.datasets.values())
        if length is not None and (length < found or (is_packed and length > found)):
            shorter = (
                f"pack with --seq-len {length - 1}"
                if is_packed
                else f"have batch_size make rows of at most {length - 1} columns"
            )
            raise ConfigError(
                f"max_length={length}, but the rows have {found} tokens; set it to {found}, or "
                f"{shorter}"
            )
        if not hasattr(self.tokenizer, "__len__"):
            return
        for name, dataset in self._loader.datasets.items():
            size = dataset.manifest["tokenizer"]["vocab_size"]
            if size > len(self.tokenizer):
                of = f" of {name}" if name else ""
                raise ConfigError(
                    f"the tokenizer has {len(self.tokenizer)} ids, the dataset{of} {size}: it was "
                    "made with another one"
                )


def as_capibara(rows: Batch) -> Batch:
    """Return all tokens of rows by Capibara's names; labels are not shifted."""
    tokens, segments = rows["tokens"], rows["segment_ids"]
    return {
        "input_ids": tokens,
        "attention_mask": (segments > 0).astype(np.int32),
        "labels": np.where(rows["loss_mask"], tokens, np.int32(_IGNORED)),
    }


def settings_of(config: Any, told: Mapping[str, Any]) -> DataLoaderConfig:
    """Return what was told, then what a config has, of an object or a mapping, then defaults."""
    found: dict[str, Any] = {}
    for field in fields(DataLoaderConfig):
        in_config = (
            config.get(field.name)
            if isinstance(config, Mapping)
            else getattr(config, field.name, None)
        )
        given = (one for one in (told[field.name], in_config, field.default) if one is not None)
        found[field.name] = next(given, None)
    return DataLoaderConfig(**found)


def data_of(config: DataLoaderConfig) -> Data | Mix:
    """Return the folder of a name; a mixture or an open dataset as it is."""
    name = config.dataset_name
    if not isinstance(name, str | Path):
        return name
    folder = Path(name) if config.cache_dir is None else Path(config.cache_dir) / name
    if not folder.exists():
        raise ConfigError(
            f"no dataset {folder}; make it with dataprep tokenize hf:{name} and dataprep pack, and "
            "set cache_dir to the folder that has it by this name"
        )
    return folder


__all__ = ["CapibaraDataLoader", "DataLoaderConfig"]
