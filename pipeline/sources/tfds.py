"""Datasets of tensorflow_datasets: `tfds:NAME[/SPLIT]`, or a folder that it prepared.

    tfds:lm1b/train              loaded by tensorflow_datasets, which must be installed
    FOLDER[@SPLIT]               prepared as array_record; read without it
        dataset_info.json        names the splits, and the format of their files
        lm1b-train.array_record-00000-of-00010

Either way the ArrayRecord files are read, whose records are tf.train.Examples.
"""

from __future__ import annotations

import glob
import json
import os
from itertools import chain
from typing import Any

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.guards.opening import read_bounded
from dataprep.pipeline.sources.hub import choose_split, hub_errors
from dataprep.pipeline.sources.stream import naming

PREFIX = "tfds:"
INFO, FEATURES = "dataset_info.json", "features.json"
FORMAT = "array_record"


def is_prepared(folder: str) -> bool:
    """Return whether tensorflow_datasets wrote this folder."""
    return all(os.path.isfile(os.path.join(folder, name)) for name in (INFO, FEATURES))


def prepared_files(folder: str, split: str = "") -> list[str]:
    """Return the files of a split, in order; an InputError if they cannot be read."""
    path = os.path.join(folder, INFO)
    with naming(path):
        content = read_bounded(path)
    try:
        info = json.loads(content)
        splits = {str(each["name"]): each for each in info["splits"]}
        kind, name = str(info.get("fileFormat", "tfrecord")), str(info["name"])
        counts = {key: len(each["shardLengths"]) for key, each in splits.items()}
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        raise InputError(
            f"{path} is not what tensorflow_datasets writes; prepare the dataset again"
        ) from None
    if kind != FORMAT:
        raise InputError(
            f"{folder} was prepared as {kind}; prepare it again with file_format={FORMAT!r}"
        )
    chosen = choose_split(split, splits, folder)
    count = counts[chosen]
    stem = os.path.join(folder, f"{name}-{chosen}.{FORMAT}")
    files = [f"{stem}-{i:05d}-of-{count:05d}" for i in range(count)]
    for file in files:
        if not os.path.isfile(file):
            raise InputError(f"{path} lists {file}, which is not there; copy all files")
    return files


def prepared_below(folder: str) -> list[str]:
    """Return what tensorflow_datasets wrote in the folder of a name: of each config and version."""
    found = (glob.glob(f"{glob.escape(folder)}/{depth}") for depth in ("*", "*/*"))
    return sorted(filter(is_prepared, chain.from_iterable(found)))


def tfds_files(spec: str) -> list[str]:
    """Load a dataset by its name; return the files of its split."""
    name = spec.removeprefix(PREFIX).strip("/")
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise InputError(
            f"{spec} needs tensorflow_datasets, which is not installed: pip install "
            f"tensorflow-datasets; or prepare it elsewhere with file_format={FORMAT!r} and name "
            "the folder"
        ) from None
    with hub_errors(spec):
        builder, split = _builder(tfds, name)
        builder.download_and_prepare()
        return prepared_files(str(builder.data_path), split)


def _builder(tfds: Any, name: str) -> tuple[Any, str]:
    """Return the builder of a name, and the split that is named behind it, if one is."""
    above, _, last = name.rpartition("/")
    try:
        return tfds.builder(name, file_format=FORMAT), ""
    except Exception:
        if not above:
            raise
        return tfds.builder(above, file_format=FORMAT), last
