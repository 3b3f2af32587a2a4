"""Samples by number, in batches of jax arrays.

    class Own(BaseDataset):             __len__, and __getitem__ or __iter__, are enough
    Own(config, "train", rngs=7).get_batch(32)            32 samples, drawn with replacement
    for batch in create_data_loader(dataset, 32): ...     every sample once, in a shuffled order

Numbers are stacked; anything else, such as texts, is a list. `rngs` is a seed, or has `sample()`
that returns a key of jax, as nnx.Rngs has. `split` is for a class of your own to
choose its data by; of a packed dataset it is the folder in which the split is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dataprep.loaders.compat.artifex.texts import TextModality
from dataprep.loaders.open import Data, open_packed
from dataprep.loaders.schedule import whole_number
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.manifest import MANIFEST

Sample = Mapping[str, Any]


class BaseDataset:
    """What all datasets do, once they have `__len__` and `__getitem__`."""

    def __init__(self, config: Any = None, split: str = "train", *, rngs: Any = 0) -> None:
        self.config, self.split, self.rngs = config, split, rngs
        self._drawn = 0

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def __getitem__(self, number: int) -> Sample:
        return self._samples[number]

    @cached_property
    def _samples(self) -> list[Sample]:
        """The samples of a class that has no numbers for them, once they were gone through."""
        if type(self).__iter__ is BaseDataset.__iter__:
            raise NotImplementedError(f"{type(self).__name__} has neither __getitem__ nor __iter__")
        return list(self)

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number in range(len(self)))

    def get_batch(self, batch_size: int) -> dict[str, Any]:
        """Return so many random samples; the next call returns others."""
        size = whole_number("batch_size", batch_size, least=1)
        if not len(self):
            raise ConfigError(f"{type(self).__name__} is empty: no sample can be drawn")
        numbers = jax.random.randint(self._key(), (size,), 0, len(self))
        return self.gather(np.asarray(numbers).tolist())

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Return these samples as a batch."""
        samples = [self[number] for number in numbers]
        return {name: _stacked([one[name] for one in samples]) for name in samples[0]}

    def _key(self) -> jax.Array:
        if hasattr(self.rngs, "sample"):
            key: jax.Array = self.rngs.sample()
            return key
        self._drawn += 1
        seed = jax.random.key(whole_number("rngs", self.rngs))
        return jax.random.fold_in(seed, self._drawn)


class SimpleTextDataset(BaseDataset):
    """Texts, and their tokens as a modality of text makes them."""

    def __init__(
        self, config: Any, texts: Sequence[str], split: str = "train", *, rngs: Any = 0
    ) -> None:
        super().__init__(config, split, rngs=rngs)
        self._texts, self._modality = list(texts), TextModality(config)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: int) -> Sample:
        text = self._texts[number]
        return {"text": text, "text_tokens": self._modality.tokenize(text)}

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        return text_batch([self[number] for number in numbers])


def text_batch(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return a batch of texts and their tokens, under Artifex's names."""
    return {
        "text_tokens": jnp.stack([one["text_tokens"] for one in samples]),
        "texts": [one["text"] for one in samples],
    }


class PackedSamples(BaseDataset):
    """The rows of a packed dataset: tokens, loss_mask, segment_ids, positions.

    `data` is its folder, or one that has a folder by the name of the split.
    """

    def __init__(self, data: Data, config: Any = None, split: str = "train", *, rngs: Any = 0):
        super().__init__(config, split, rngs=rngs)
        self._rows = open_packed(_of_split(data, split), "lazy")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> Sample:
        return self._rows[number]

    def gather(self, numbers: Sequence[int]) -> dict[str, Any]:
        return {name: jnp.asarray(array) for name, array in self._rows[list(numbers)].items()}


def create_data_loader(
    dataset: BaseDataset,
    batch_size: int,
    shuffle: bool = True,
    drop_last: bool = False,
    *,
    seed: int = 0,
    epoch: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yield every sample once; the order follows from the seed and the epoch."""
    size = whole_number("batch_size", batch_size, least=1)
    numbers = np.arange(len(dataset))
    if shuffle:
        key = jax.random.fold_in(jax.random.key(seed), whole_number("epoch", epoch, least=0))
        numbers = np.asarray(jax.random.permutation(key, len(dataset)))
    stop = len(dataset) // size * size if drop_last else len(dataset)
    for start in range(0, stop, size):
        yield dataset.gather(numbers[start : start + size].tolist())


def _of_split(data: Data, split: str) -> Data:
    if isinstance(data, str | Path) and not (Path(data) / MANIFEST).exists():
        own = Path(data) / split
        return own if own.is_dir() else data
    return data


def _stacked(values: list[Any]) -> Any:
    is_text = any(isinstance(value, str | bytes) for value in values)
    return values if is_text else jnp.stack([jnp.asarray(value) for value in values])
