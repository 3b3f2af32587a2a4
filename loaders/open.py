"""Folders -> open datasets, and the weights that they are mixed with.

    "data/packed"                           one dataset, or an open one; "s3://…" too
    {"web": ("data/web", 0.7),              several, each with its share of rows
     "code": ("data/code", {0: 0.3, 1000: 0.5})}        or with shares that change at a step

Errors name what is wrong with what the user gave. Reading rows is left to `packed` and
`documents`, mixing them to `mixture`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dataprep.loaders.batching import AnyBatching
from dataprep.loaders.document_rows import DocumentRows
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.generations import (
    Generation,
    GenerationsOf,
    MixedDataset,
    Schedule,
    checked_generation,
    manifests_of,
    open_past,
    schedules_of,
)
from dataprep.loaders.mixture import Component, Stage
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.remote import Address, Remotes
from dataprep.loaders.schedule import BatchSizes, Remainder, shown, whole_number
from dataprep.loaders.selection import Chosen
from dataprep.loaders.sources import AnyDataset, RowSource
from dataprep.loaders.whole import Verify, check_verify
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.alike import difference_among
from dataprep.pipeline.storage.manifest import (
    EncodedManifest,
    ExportedManifest,
    Manifest,
    PackedManifest,
    TokenizedManifest,
)
from dataprep.pipeline.storage.objects import cleaned, is_remote
from dataprep.pipeline.storage.parts import check_parts_there, read_generation
from dataprep.pipeline.storage.places import dataset_folder

Weight = int | float | str | Fraction
Data = str | Path | PackedDataset | TokenizedDataset
Mix = Mapping[str, tuple[Data, Weight | Mapping[int, Weight]]]
RowsOf = Callable[[AnyDataset], RowSource]


def open_dataset(
    folder: str | Path, *, generation: Generation | None = None, verify: Verify = "lazy"
) -> TokenizedDataset | PackedDataset:
    """Open a complete dataset; an incomplete or damaged one is a CorruptError that names why.

    `generation`: which one of a dataset that grows, from 0; None or "latest" is the newest.
    `verify`: lazy checks the hash of a shard before it is first read, open of all shards now, off
    of none.
    """
    check_verify(verify)
    path = _place_of(folder)
    wanted = None if generation is None else checked_generation(generation)
    return _opened(path, read_generation(path, wanted), verify)


def _opened(
    folder: Path,
    manifest: Manifest,
    verify: Verify,
    remotes: Remotes | None = None,
    chosen: Chosen | None = None,
) -> TokenizedDataset | PackedDataset:
    if isinstance(manifest, EncodedManifest):
        raise ConfigError(
            f"{folder} holds codes; run dataprep tokenize and dataprep pack on it first"
        )
    if isinstance(manifest, ExportedManifest):
        raise ConfigError(
            f"{folder} is an export to {manifest.format}; open the dataset that it was made from, "
            f"{manifest.sources[0].path}"
        )
    check_parts_there(folder, manifest)
    if remotes is not None and is_remote(folder):
        return remotes.open(folder, manifest, verify, chosen)
    if isinstance(manifest, TokenizedManifest):
        return TokenizedDataset(folder, manifest, verify)
    return PackedDataset(folder, manifest, verify)


def open_packed(
    data: Data, verify: Verify = "lazy", generation: Generation | None = None
) -> PackedDataset:
    """Open a packed dataset that has rows; anything else is a ConfigError."""
    schedule = None if generation is None else {0: checked_generation(generation)}
    source = open_member(data, schedule, verify, packed_rows).datasets[0]
    assert isinstance(source, PackedDataset), source
    return source


def open_member(
    data: Data,
    schedule: Schedule | None,
    verify: Verify,
    rows_of: RowsOf,
    remotes: Remotes | None = None,
) -> MixedDataset:
    """Open every generation of a dataset that a loader reads; one that is open already is read as
    it is, unless generations are asked for, or it is to be fetched (`remotes`)."""
    own = data if isinstance(data, PackedDataset | TokenizedDataset) else None
    # What has other rows than its folder, such as a host's part of it, is read as it is.
    is_plain = type(own) in (PackedDataset, TokenizedDataset)
    if own is not None and remotes is not None and is_plain and is_remote(own.folder):
        own = _opened(own.folder, own.about, verify, remotes, own.chosen)
    if own is not None and verify == "open":
        own.prove()
    if own is not None and schedule is None:
        return MixedDataset(steps=(0,), datasets=(rows_of(own),))
    if own is not None and own.chosen is not None:
        raise ConfigError(
            f"generation {shown(schedule)} of what was selected from {own.folder}: it is of one "
            "generation; open that generation, select, and leave generation out"
        )
    folder = own.folder if own is not None else _place_of(data)
    manifests = manifests_of(folder, schedule)
    datasets: list[RowSource] = []
    for step, manifest in manifests.items():
        if own is not None and own.about == manifest:
            datasets.append(rows_of(own))
        elif (
            isinstance(manifest, PackedManifest)
            and step != max(manifests)
            and not is_remote(folder)
        ):
            datasets.append(open_past(folder, manifest, verify))
        else:
            datasets.append(rows_of(_opened(folder, manifest, verify, remotes)))
    return MixedDataset(steps=tuple(manifests), datasets=tuple(datasets))


def packed_rows(dataset: AnyDataset) -> PackedDataset:
    """Return a dataset whose rows are packed; any other is a ConfigError."""
    if isinstance(dataset, TokenizedDataset):
        raise ConfigError(
            f"{dataset.folder} is not packed; run dataprep pack on it first, or give a batch_size "
            "that suits documents: ByTokens, Buckets or Longest"
        )
    if not len(dataset):
        raise ConfigError(f"{dataset.folder} has no rows")
    return dataset


def make_rows_of(batching: AnyBatching | None, more_columns: int, remainder: Remainder) -> RowsOf:
    """Return what makes rows of a dataset: packed ones as they are, or its documents."""
    if batching is None:
        return packed_rows

    def rows_of(dataset: AnyDataset) -> DocumentRows:
        if isinstance(dataset, PackedDataset):
            raise ConfigError(
                f"{dataset.folder} is packed: all rows have {dataset.seq_len} tokens, so "
                f"batch_size is a number of rows; {type(batching).__name__} is for tokenized ones"
            )
        return DocumentRows(dataset, batching, more_columns=more_columns, remainder=remainder)

    return rows_of


def open_mix(
    data: Data | Mix,
    generation: GenerationsOf | None,
    sizes: BatchSizes,
    verify: Verify,
    rows_of: RowsOf,
    remotes: Remotes,
) -> tuple[dict[str, MixedDataset], list[Component]]:
    """Open all datasets; they are sorted by name, whatever order they were given in."""
    mix: Mix = data if isinstance(data, Mapping) else {"": (data, 1)}
    for name, pair in mix.items():
        if not isinstance(name, str) or not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigError(
                f"a mixture is {{name: (folder, weight)}}, {shown(name)} has {shown(pair)}"
            )
    if not mix:
        raise ConfigError("a mixture needs at least one dataset")
    schedules = schedules_of(generation, sorted(mix))
    weights = {name: _weights_by_row(name, mix[name][1], sizes) for name in sorted(mix)}
    members = {
        name: open_member(mix[name][0], schedules[name], verify, rows_of, remotes)
        for name in sorted(mix)
    }
    _check_alike(members)
    components = [
        Component(
            name=name,
            num_rows=len(member.datasets[0]),
            weights=weights[name],
            later=tuple(
                Stage(
                    first_row=sizes.first_row(step),
                    num_rows=len(dataset),
                    generation=dataset.about.generation,
                )
                for step, dataset in zip(member.steps[1:], member.datasets[1:], strict=True)
            ),
        )
        for name, member in members.items()
    ]
    return members, components


def _check_alike(members: Mapping[str, MixedDataset]) -> None:
    datasets = [dataset for member in members.values() for dataset in member.datasets]
    if len({dataset.about.seq_len for dataset in datasets}) != 1:
        lengths = {
            name if name and len(member.datasets) == 1 else _named(dataset): dataset.about.seq_len
            for name, member in members.items()
            for dataset in member.datasets
        }
        raise ConfigError(f"datasets of a mixture need one seq_len, these have {lengths}")
    found = difference_among([dataset.about for dataset in datasets])
    if found:
        number, other, text = found
        one, two = (_named(datasets[i]) for i in (number, other))
        raise ConfigError(f"{one} and {two} cannot be mixed: {text}")


def _named(dataset: RowSource) -> str:
    grown = f"generation {dataset.about.generation} of " if dataset.about.parts else ""
    return f"{grown}{dataset.folder}"


def _place_of(folder: Any) -> Path:
    if not isinstance(folder, str | os.PathLike) or "\0" in str(folder):
        raise ConfigError(
            "data is the folder of a dataset, an open dataset or {name: (folder, weight)}, "
            f"got {shown(folder)}"
        )
    return Address(cleaned(os.fspath(folder))) if is_remote(folder) else dataset_folder(folder)


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
