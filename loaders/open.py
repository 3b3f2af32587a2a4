"""Folders -> open datasets, and the weights that they are mixed with.

    "data/packed"                           one dataset, or an open one
    {"web": ("data/web", 0.7),              several, each with its share of rows
     "code": ("data/code", {0: 0.3, 1000: 0.5})}        or with shares that change at a step

Errors name what is wrong with what the user gave. Reading rows is left to `packed` and
`documents`, mixing them to `mixture`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.mixture import Component
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.schedule import BatchSizes, shown, whole_number
from dataprep.loaders.whole import Verify, check_verify
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.alike import difference_among
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest, read_manifest
from dataprep.pipeline.storage.places import dataset_folder

Weight = int | float | str | Fraction
Data = str | Path | PackedDataset
Mix = Mapping[str, tuple[Data, Weight | Mapping[int, Weight]]]


def open_dataset(
    folder: str | Path, *, verify: Verify = "lazy"
) -> TokenizedDataset | PackedDataset:
    """Open a complete dataset; an incomplete or damaged one is a CorruptError that names why.

    `verify`: lazy checks the hash of a shard before it is first read, open of all shards now, off
    of none.
    """
    check_verify(verify)
    path = _path_of(folder)
    manifest = read_manifest(path)
    if isinstance(manifest, TokenizedManifest):
        return TokenizedDataset(path, manifest, verify)
    if isinstance(manifest, PackedManifest):
        return PackedDataset(path, manifest, verify)
    raise ConfigError(f"{path} holds codes; run dataprep tokenize and dataprep pack on it first")


def open_packed(data: Data, verify: Verify = "lazy") -> PackedDataset:
    """Open a packed dataset that has rows; anything else is a ConfigError."""
    dataset = data if isinstance(data, PackedDataset) else open_dataset(data, verify=verify)
    if verify == "open" and dataset is data:
        dataset.prove()
    if isinstance(dataset, TokenizedDataset):
        raise ConfigError(f"{dataset.folder} is not packed; run dataprep pack on it first")
    if not len(dataset):
        raise ConfigError(f"{dataset.folder} has no rows")
    return dataset


def open_mix(
    data: Data | Mix, sizes: BatchSizes, verify: Verify
) -> tuple[dict[str, PackedDataset], list[Component]]:
    """Open all datasets; they are sorted by name, whatever order they were given in."""
    mix: Mix = data if isinstance(data, Mapping) else {"": (data, 1)}
    for name, pair in mix.items():
        if not isinstance(name, str) or not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigError(
                f"a mixture is {{name: (folder, weight)}}, {shown(name)} has {shown(pair)}"
            )
    if not mix:
        raise ConfigError("a mixture needs at least one dataset")
    weights = {name: _weights_by_row(name, mix[name][1], sizes) for name in sorted(mix)}
    datasets = {name: open_packed(mix[name][0], verify) for name in sorted(mix)}
    _check_alike(datasets)
    components = [
        Component(name=name, num_rows=len(dataset), weights=weights[name])
        for name, dataset in datasets.items()
    ]
    return datasets, components


def _check_alike(datasets: Mapping[str, PackedDataset]) -> None:
    lengths = {name: dataset.seq_len for name, dataset in datasets.items()}
    if len(set(lengths.values())) != 1:
        raise ConfigError(f"datasets of a mixture need one seq_len, these have {lengths}")
    found = difference_among([dataset.about for dataset in datasets.values()])
    if found:
        folders = [dataset.folder for dataset in datasets.values()]
        number, other, text = found
        raise ConfigError(f"{folders[number]} and {folders[other]} cannot be mixed: {text}")


def _path_of(folder: Any) -> Path:
    if not isinstance(folder, str | os.PathLike) or "\0" in str(folder):
        raise ConfigError(
            "data is the folder of a dataset, an open dataset or {name: (folder, weight)}, "
            f"got {shown(folder)}"
        )
    return dataset_folder(folder)


def _weights_by_row(
    name: str, weight: Weight | Mapping[int, Weight], sizes: BatchSizes
) -> dict[int, Fraction]:
    """Return the weights by the row from which on they hold, not by the step."""
    steps = weight if isinstance(weight, Mapping) else {0: weight}
    found = {
        sizes.first_row(whole_number(f"a step of the weight of {name!r}", step, least=0)): (
            _share(name, share)
        )
        for step, share in steps.items()
    }
    if 0 not in found:
        raise ConfigError(
            f"weight {shown(weight)} of {name!r}: needs a share, or {{step: share}} from step 0 on"
        )
    return found


def _share(name: str, share: Any) -> Fraction:
    """Return a weight as a fraction; 0.7 is meant as 7/10, not as the nearest binary fraction."""
    try:
        text = str(share)
        # Fraction would compute every digit that an exponent asks for.
        found = Fraction(text) if not re.search(r"e[+-]?\d{3}", text, re.IGNORECASE) else None
    except (ValueError, ZeroDivisionError, RecursionError):
        found = None
    if found is None or found < 0:
        raise ConfigError(
            f"weight {shown(share)} of {name!r} is not a share: a number from 0 on, below 1e100"
        )
    return found
