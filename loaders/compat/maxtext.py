"""MaxText's input pipeline over packed datasets: change one import, and the paths.

    from dataprep.loaders.compat.maxtext import create_data_iterator
    # was: from maxtext.input_pipeline.input_pipeline_interface import create_data_iterator

    grain_train_files=data/packed                       # or data/web,0.7;data/code,0.3
    max_target_length=4096                              # what it was packed with, --seq-len

`next` gives the six arrays on the mesh, split over all of its axes; `reset` and `iter` start anew;
checkpoints save and restore `local_iterator`, as for an iterator of grain (dataset_type=grain).

Where MaxText is wrong, this is right: all hosts read files in one order; documents of a row do not
predict each other's first tokens; an EOS has loss where the pad id is the same; weights of a
mixture are exact; evaluations pad their last batch, on all hosts. A run may go on with another
number of hosts: with fewer, set expansion_factor_real_data as MaxText asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from dataprep.loaders.compat.unheard import refuse_unheard
from dataprep.loaders.iterator import LoaderIterator
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.open import Data, Mix
from dataprep.pipeline.errors import ConfigError


class MaxTextIterator:
    """What MaxText's trainer and its checkpoints hold."""

    def __init__(self, loader: DataLoader, *, generate_padding_batch: bool = False) -> None:
        """`generate_padding_batch`: go on with empty batches after the last one."""
        self.dataloader = loader
        self.local_iterator: LoaderIterator = iter(loader)
        self.generate_padding_batch = generate_padding_batch
        self._empty: dict[str, Any] | None = None

    def reset(self) -> None:
        self.local_iterator = iter(self.dataloader)

    def __iter__(self) -> Self:
        self.reset()
        return self

    def __next__(self) -> dict[str, Any]:
        try:
            batch = next(self.local_iterator)
        except StopIteration:
            if self._empty is None:
                raise
            return self._empty
        if self.generate_padding_batch and self._empty is None:
            self._empty = _zeros(batch)
        return batch


def create_data_iterator(config: Any, mesh: Any) -> tuple[Any, Any]:
    """Return the iterators of training and of evaluation; None where there is none."""
    processes = list(range(_process_count()))
    train = make_grain_train_iterator(config, mesh, processes)
    if config.eval_interval <= 0:
        return train, None
    return train, make_grain_eval_iterator(config, mesh, processes)


def make_grain_train_iterator(config: Any, global_mesh: Any, process_indices: Any) -> Any:
    """Return the iterator of training; a list of it where MaxText restores with fewer hosts."""
    data = _data(config.grain_train_files, getattr(config, "grain_train_mixture_config_path", ""))
    loader = _loader(
        config,
        data,
        global_mesh,
        batch_size=config.global_batch_size_to_load,
        shuffle=bool(config.enable_data_shuffling),
        epochs=config.num_epoch,
    )
    padding = bool(getattr(config, "generate_padding_batch_train", False))
    iterator = MaxTextIterator(loader, generate_padding_batch=padding)
    factor = getattr(config, "expansion_factor_real_data", -1)
    if factor > 1:
        raise ConfigError(
            f"expansion_factor_real_data={factor}: every host reads the rows of its own devices; "
            "leave it out"
        )
    return [iterator] * round(1 / factor) if 0 < factor < 1 else iterator


def make_grain_eval_iterator(
    config: Any, global_mesh: Any, process_indices: Any
) -> MaxTextIterator:
    """Return the iterator of evaluation: in order, once, the last batch padded."""
    loader = _loader(
        config,
        _data(config.grain_eval_files, ""),
        global_mesh,
        batch_size=config.global_batch_size_to_load_eval,
        shuffle=False,
        epochs=1,
        remainder="pad",
    )
    padding = bool(getattr(config, "generate_padding_batch_eval", False))
    return MaxTextIterator(loader, generate_padding_batch=padding)


def _loader(config: Any, data: Data | Mix, mesh: Any, **options: Any) -> DataLoader:
    loader = DataLoader(
        data, mesh=mesh, view="maxtext", seed=getattr(config, "data_shuffle_seed", 0), **options
    )
    refuse_unheard(loader.datasets.values(), "MaxText")
    if loader.seq_len != config.max_target_length:
        raise ConfigError(
            f"max_target_length={config.max_target_length}, but {loader!r} has rows of "
            f"{loader.seq_len} tokens; set it to {loader.seq_len}, or pack with --seq-len "
            f"{config.max_target_length}"
        )
    return loader


def _data(files: str, mixture: str) -> Data | Mix:
    """Return a folder, or a mixture as MaxText writes one."""
    if mixture:
        return _mixture_in(Path(mixture))
    if not files or any(mark in files for mark in "*?["):
        raise ConfigError(
            f"grain_train_files or grain_eval_files is {files!r}: give the folder of a packed "
            "dataset (dataprep pack), or FOLDER,WEIGHT;FOLDER,WEIGHT; without evaluation, set "
            "eval_interval=-1"
        )
    if ";" not in files:
        return files
    return {f"{i:04d}": pair for i, pair in enumerate(_pairs(files))}


def _mixture_in(path: Path) -> Mix:
    """
    {"web": {"path": "data/web", "weight": 0.7}, …}
    """
    try:
        named = json.loads(path.read_text(encoding="utf-8"))
        return {name: (one["path"], one["weight"]) for name, one in named.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        kind = type(error).__name__
        raise ConfigError(
            f"{path} is not a mixture ({kind}: {error}); write "
            '{"NAME": {"path": FOLDER, "weight": NUMBER}, …}'
        ) from None


def _pairs(files: str) -> Iterator[tuple[str, str]]:
    """
    >>> list(_pairs("data/web,0.7;data/code,0.3"))
    [('data/web', '0.7'), ('data/code', '0.3')]
    """
    for part in files.split(";"):
        folder, comma, weight = part.rpartition(",")
        if not comma:
            raise ConfigError(f"{part!r} of grain_train_files has no weight: write {part},WEIGHT")
        yield folder, weight


def _zeros(batch: dict[str, Any]) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    return {name: jax.jit(jnp.zeros_like)(array) for name, array in batch.items()}


def _process_count() -> int:
    import jax

    return int(jax.process_count())
