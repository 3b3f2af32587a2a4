"""What the user names as data -> open datasets, and the weights they are mixed with."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from dataprep.loaders.dataset import open_dataset
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.mixture import Part
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import BatchSizes
from dataprep.pipeline.errors import ConfigError

Weight = int | float | str | Fraction
Source = str | Path | PackedDataset
Mix = Mapping[str, tuple[Source, Weight | Mapping[int, Weight]]]


def open_mix(data: Source | Mix, sizes: BatchSizes) -> tuple[dict[str, PackedDataset], list[Part]]:
    """The datasets by name, in one order whatever order they were named in."""
    mix: Mix = data if isinstance(data, Mapping) else {"": (data, 1)}
    for name, part in mix.items():
        if not isinstance(part, tuple | list) or len(part) != 2:
            raise ConfigError(f"a mixture is {{name: (folder, weight)}}, {name!r} has {part!r}")
    if not mix:
        raise ConfigError("a mixture needs at least one dataset")
    datasets = {name: open_packed(mix[name][0]) for name in sorted(mix)}
    lengths = {name: dataset.seq_len for name, dataset in datasets.items()}
    if len(set(lengths.values())) != 1:
        raise ConfigError(f"datasets of a mixture need one seq_len, these have {lengths}")
    parts = [
        Part(name=name, num_rows=len(d), weights=_weights_by_row(name, mix[name][1], sizes))
        for name, d in datasets.items()
    ]
    return datasets, parts


def open_packed(source: Source) -> PackedDataset:
    dataset = source if isinstance(source, PackedDataset) else open_dataset(source)
    if isinstance(dataset, TokenizedDataset):
        raise ConfigError(f"{dataset.folder} is not packed; run dataprep pack on it first")
    if not len(dataset):
        raise ConfigError(f"{dataset.folder} has no rows")
    return dataset


def _weights_by_row(
    name: str, weight: Weight | Mapping[int, Weight], sizes: BatchSizes
) -> dict[int, Fraction]:
    steps = weight if isinstance(weight, Mapping) else {0: weight}
    try:
        # 0.7 is meant as 7/10, not as the binary fraction that is nearest to it.
        found = {sizes.first_row(step): Fraction(str(share)) for step, share in steps.items()}
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"weight {weight!r} of {name!r} is not a number") from None
    if 0 not in found or min(found.values()) < 0:
        raise ConfigError(
            f"weight {weight!r} of {name!r}: needs a share, or {{step: share}} from step 0 on"
        )
    return found
