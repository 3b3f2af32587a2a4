"""Folders -> open datasets, and the weights that they are mixed with.

    "data/packed"                           one dataset, or an open one
    {"web": ("data/web", 0.7),              several, each with its share of rows
     "code": ("data/code", {0: 0.3, 1000: 0.5})}        or with shares that change at a step

Errors name what is wrong with what the user gave. Reading rows is left to `packed` and
`documents`, mixing them to `mixture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.mixture import Component
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import BatchSizes
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest, read_manifest

Weight = int | float | str | Fraction
Data = str | Path | PackedDataset
Mix = Mapping[str, tuple[Data, Weight | Mapping[int, Weight]]]


def open_dataset(folder: str | Path) -> TokenizedDataset | PackedDataset:
    """Open a complete dataset; an incomplete or damaged one is a CorruptError that names why."""
    path = Path(folder)
    manifest = read_manifest(path)
    if isinstance(manifest, TokenizedManifest):
        return TokenizedDataset(path, manifest)
    if isinstance(manifest, PackedManifest):
        return PackedDataset(path, manifest)
    raise CorruptError(f"{path} is of kind {manifest.kind!r}, which this cannot open")


def open_packed(data: Data) -> PackedDataset:
    """Open a packed dataset that has rows; anything else is a ConfigError."""
    dataset = data if isinstance(data, PackedDataset) else open_dataset(data)
    if isinstance(dataset, TokenizedDataset):
        raise ConfigError(f"{dataset.folder} is not packed; run dataprep pack on it first")
    if not len(dataset):
        raise ConfigError(f"{dataset.folder} has no rows")
    return dataset


def open_mix(
    data: Data | Mix, sizes: BatchSizes
) -> tuple[dict[str, PackedDataset], list[Component]]:
    """Open all datasets; they are sorted by name, whatever order they were given in."""
    mix: Mix = data if isinstance(data, Mapping) else {"": (data, 1)}
    for name, pair in mix.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigError(f"a mixture is {{name: (folder, weight)}}, {name!r} has {pair!r}")
    if not mix:
        raise ConfigError("a mixture needs at least one dataset")
    datasets = {name: open_packed(mix[name][0]) for name in sorted(mix)}
    lengths = {name: dataset.seq_len for name, dataset in datasets.items()}
    if len(set(lengths.values())) != 1:
        raise ConfigError(f"datasets of a mixture need one seq_len, these have {lengths}")
    components = [
        Component(name=name, num_rows=len(d), weights=_weights_by_row(name, mix[name][1], sizes))
        for name, d in datasets.items()
    ]
    return datasets, components


def _weights_by_row(
    name: str, weight: Weight | Mapping[int, Weight], sizes: BatchSizes
) -> dict[int, Fraction]:
    """Return the weights by the row from which on they hold, not by the step."""
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
