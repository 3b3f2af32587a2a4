"""xlstm-jax's functions from datasets to iterators, with its arguments.

    make_grain_iterator(configs, mesh, processes)        datasets on disk ─► one order ─► the mesh
    make_grain_multihost_iterator([rows, …], …)          parts of a host, mixed ─► the mesh

The first reads one order of all rows, whatever the number of hosts. The second takes the parts of
its own host that `rows` has made. Arguments that only matter for workers have no effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from dataprep.loaders.compat.xlstm.batch import LLMBatch
from dataprep.loaders.compat.xlstm.iterator import CollatedBatches, MultiHostDataLoadIterator
from dataprep.loaders.compat.xlstm.ranges import RowRange
from dataprep.loaders.compat.xlstm.records import RecordRows
from dataprep.loaders.compat.xlstm.rows import (
    HostRows,
    check_ids,
    check_packed,
    make_grain_llm_dataset,
    with_eod_of,
)
from dataprep.loaders.compat.xlstm.sources import RecordFiles, load_array_record_dataset
from dataprep.loaders.loader import DataLoader
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import whole_number
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.manifest import kind_of

# Settings of batches, which a mixture has only one of.
_OF_THE_FIRST = (
    *("global_batch_size", "max_target_length", "drop_remainder", "batch_rampup_factors"),
    *("worker_count", "worker_buffer_size"),
)


def make_grain_multihost_iterator(
    grain_datasets: HostRows | Sequence[HostRows],
    dataset_lengths: int | Sequence[int],
    global_mesh: Mesh,
    global_batch_size: int,
    dataloading_host_count: int,
    dataset_weights: Sequence[Any] | None = None,
    worker_count: int = 1,
    worker_buffer_size: int = 1,
    drop_remainder: bool = True,
    batch_class: Any = LLMBatch,
    reset_after_epoch: bool = False,
    use_thread_prefetch: bool = False,
    batch_rampup_factors: Mapping[Any, float] | None = None,
    *,
    is_global: bool = False,
) -> MultiHostDataLoadIterator:
    """Return the iterator over the rows of a host, or with `is_global` over those of all hosts."""
    parts = [grain_datasets] if isinstance(grain_datasets, HostRows) else list(grain_datasets)
    lengths = [dataset_lengths] if isinstance(dataset_lengths, int) else list(dataset_lengths)
    weights = _weights(dataset_weights, len(parts))
    if not len(parts) == len(lengths) == len(weights):
        raise ConfigError(
            f"{len(parts)} datasets, {len(lengths)} lengths and {len(weights)} weights: there must "
            "be one of each"
        )
    first = parts[0]
    for one in parts[1:]:
        # The order of each follows from the seed and its place among them.
        if replace(one, rows=first.rows, seed=first.seed) != first:
            raise ConfigError(
                f"datasets of a mixture must be shuffled and limited alike: {one} and {first}"
            )
    local = global_batch_size if is_global else global_batch_size // dataloading_host_count
    is_cut = not drop_remainder and first.epochs is not None
    mix = {f"{i:04d}": (one.rows, w) for i, (one, w) in enumerate(zip(parts, weights, strict=True))}
    loader = DataLoader(
        mix if len(parts) > 1 else first.rows,
        batch_size=_sizes(local, batch_rampup_factors),
        shuffle=first.shuffle,
        seed=first.seed,
        epochs=first.epochs,
        max_steps_per_epoch=first.max_steps_per_epoch,
        view=first.view,
        remainder="pad" if is_cut else "drop",
        prefetch=max(1, worker_buffer_size * max(1, worker_count)),
        mesh=global_mesh if is_global else None,
    )
    total = sum(weights)
    size = max(int(n * total / w) for n, w in zip(lengths, weights, strict=True) if w)
    steps = size // global_batch_size if drop_remainder else ceil(size / global_batch_size)
    if steps < 1:
        raise ConfigError(
            f"an epoch of {size} rows has no batch of {global_batch_size}; set a smaller "
            "global_batch_size, or drop_remainder=False"
        )
    return MultiHostDataLoadIterator(
        CollatedBatches(loader, batch_class, cut_last=is_cut and not is_global),
        global_mesh,
        iterator_length=steps,
        dataset_size=size,
        reset_after_epoch=reset_after_epoch,
    )


def _weights(weights: Sequence[Any] | None, count: int) -> list[Fraction]:
    """Return the weights as fractions; without any, all are the same."""
    if weights is None or (count == 1 and len(weights) == 1):
        return [Fraction(1)] * count
    return [Fraction(str(weight)) for weight in weights]


def _sizes(size: int, factors: Mapping[Any, float] | None) -> dict[int, int]:
    """Return batch sizes by step: each factor is of the full size.

    >>> _sizes(32, {0: 0.25, 5: 0.5, 10: 1.0})
    {0: 8, 5: 16, 10: 32}
    """
    ramp = {int(step): int(size * factor) for step, factor in (factors or {}).items()}
    return {0: size} | ramp


def make_grain_llm_iterator(
    dataloading_host_index: int,
    dataloading_host_count: int,
    global_mesh: Mesh,
    dataset: Any,
    global_batch_size: int,
    max_target_length: int,
    shuffle: bool,
    data_shuffle_seed: int,
    num_epochs: int | None = None,
    operations: Sequence[Any] | None = None,
    grain_packing: bool = False,
    grain_packing_bin_count: int | None = None,
    shift: bool = True,
    shift_target: bool = True,
    eod_token_id: int | None = 0,
    worker_count: int = 1,
    worker_buffer_size: int = 1,
    apply_padding: bool = True,
    drop_remainder: bool = True,
    batch_class: Any = LLMBatch,
    reset_after_epoch: bool = False,
    use_thread_prefetch: bool = False,
    batch_rampup_factors: Mapping[Any, float] | None = None,
) -> MultiHostDataLoadIterator:
    """Return the iterator over a host's part of one dataset."""
    rows = make_grain_llm_dataset(
        dataloading_host_index,
        dataloading_host_count,
        dataset,
        global_batch_size,
        max_target_length,
        shuffle,
        data_shuffle_seed,
        num_epochs=num_epochs,
        operations=operations,
        grain_packing=grain_packing,
        shift=shift,
        shift_target=shift_target,
        eod_token_id=eod_token_id,
        apply_padding=apply_padding,
    )
    return make_grain_multihost_iterator(
        rows,
        len(dataset),
        global_mesh,
        global_batch_size,
        dataloading_host_count,
        worker_count=worker_count,
        worker_buffer_size=worker_buffer_size,
        drop_remainder=drop_remainder,
        batch_class=batch_class,
        reset_after_epoch=reset_after_epoch,
        batch_rampup_factors=batch_rampup_factors,
    )


def make_grain_iterator(
    configs: Any,
    global_mesh: Mesh,
    process_indices: Sequence[int],
    dataset_weights: Sequence[Any] | None = None,
    *,
    batch_class: Any = LLMBatch,
    reset_after_epoch: bool = False,
) -> MultiHostDataLoadIterator:
    """Return the iterator of the datasets that configs name; settings of batches are of the first.

    `reset_after_epoch`: whether every epoch starts anew; xlstm-jax leaves that to its functions.
    """
    configs = list(configs) if isinstance(configs, list | tuple) else [configs]
    first = configs[0]
    if jax.process_index() not in process_indices:
        raise ConfigError(
            f"process {jax.process_index()} is not among {list(process_indices)}: every process of "
            "the mesh loads the rows of its own devices"
        )
    for name in ("global_batch_size", "max_target_length"):
        whole_number(name, _of(first, name, None), least=1)
    _warn_of_others(configs)
    parts = [_rows_of(config, first) for config in configs]
    return make_grain_multihost_iterator(
        parts,
        [_epoch_of(one, first) for one in parts],
        global_mesh,
        first.global_batch_size,
        len(process_indices),
        dataset_weights=None if len(configs) == 1 else dataset_weights,
        worker_count=_of(first, "worker_count", 1),
        worker_buffer_size=_of(first, "worker_buffer_size", 1),
        drop_remainder=_of(first, "drop_remainder", False),
        batch_class=batch_class,
        reset_after_epoch=reset_after_epoch,
        batch_rampup_factors=_of(first, "batch_rampup_factors", None),
        is_global=True,
    )


def _warn_of_others(configs: Sequence[Any]) -> None:
    """Warn of settings that count in the first config alone, where another says something else."""
    for number, config in enumerate(configs):
        for name in _OF_THE_FIRST:
            counts, given = _of(configs[0], name, None), _of(config, name, None)
            if given not in (None, counts):
                warnings.warn(
                    f"config {number} of the mixture has {name}={given!r}, which has no effect: "
                    f"that of the first counts, {counts!r}",
                    stacklevel=3,
                )


def create_data_iterator(config: Any, mesh: Mesh) -> MultiHostDataLoadIterator:
    """Return the iterator of one dataset."""
    return create_mixed_data_iterator([config], mesh)


def create_mixed_data_iterator(
    configs: Sequence[Any], mesh: Mesh, dataset_weights: Sequence[Any] | None = None
) -> MultiHostDataLoadIterator:
    """Return the iterator of several datasets, by weight; without weights, equally often."""
    return make_grain_iterator(configs, mesh, range(jax.process_count()), dataset_weights)


def _rows_of(config: Any, first: Any) -> HostRows:
    """Return the rows of a config: the packed dataset in its folder, or in that of its split."""
    source = load_array_record_dataset(_folder_of(config))
    if isinstance(source, RecordFiles):
        check_ids(source, _of(config, "tokenize_data", True), _of(config, "data_column", "text"))
        eod = _of(config, "eod_token_id", None)
        adds_eod = _of(config, "add_eod", True)
        operations = [with_eod_of(eod, first.max_target_length)] if adds_eod else []
        rows: PackedDataset = RecordRows(
            source,
            first.max_target_length,
            eod=eod,
            operations=operations,
            packed=_of(config, "grain_packing", False),
        )
    else:
        rows = source
        check_packed(rows, first.max_target_length, None)
    if not _of(first, "drop_remainder", False):
        size = first.global_batch_size
        rows = RowRange(rows, 0, -(-len(rows) // size) * size)
    return HostRows(
        rows=rows,
        shuffle=bool(_of(config, "shuffle_data", False)),
        seed=_of(config, "data_shuffle_seed", 42),
        max_steps_per_epoch=_of(config, "max_steps_per_epoch", None),
    )


def _epoch_of(rows: HostRows, first: Any) -> int:
    """Return how many rows an epoch has."""
    if rows.max_steps_per_epoch is None:
        return len(rows)
    return min(len(rows), rows.max_steps_per_epoch * int(first.global_batch_size))


def _folder_of(config: Any) -> Path:
    told = _of(config, "data_path", None) or _of(config, "hf_path", None)
    if not told:
        raise ConfigError(
            f"{type(config).__name__} has neither data_path nor hf_path: set data_path to the "
            "folder of a packed dataset; made-up data is `dataprep tokenize synthetic:text`"
        )
    path = Path(str(told))
    split = path / str(_of(config, "split", None) or "")
    if split.is_dir():
        return split
    if kind_of(path):
        return path
    raise ConfigError(
        f"{path} is not the folder of a packed dataset, nor is {split}; tokenize and pack first: "
        f"dataprep tokenize hf:{path} --tokenizer T --out TOKENIZED; dataprep pack TOKENIZED "
        f"--seq-len {(_of(config, 'max_target_length', None) or 1) - 1} --out {split}"
    )


def _of(config: Any, name: str, default: Any) -> Any:
    return getattr(config, name, default)
