"""Folders that say themselves which of their files are data, written by others.

dataset_dict.json, state.json     saved by `datasets`                       hub
index.json                        shards of MosaicML streaming              mds
dataset_info.json, features.json  prepared by tensorflow_datasets           tfds

FOLDER@SPLIT names one of its splits, where a folder has several.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from dataprep.pipeline.errors import InputError
from dataprep.pipeline.sources.hub import is_saved, saved_arrow_files
from dataprep.pipeline.sources.mds import is_mds, mds_files
from dataprep.pipeline.sources.tfds import is_prepared, prepared_files
from dataprep.pipeline.storage.foreign.mds import INDEX


def is_listed(folder: str) -> bool:
    """Return whether a folder lists its own files."""
    return is_saved(folder) or is_prepared(folder) or is_mds(folder)


def instead_of_indexes(paths: Sequence[str]) -> list[str]:
    """Return the paths, with what they list instead of indexes of MDS, each once."""
    found: dict[str, None] = {}
    for path in paths:
        folder = os.path.dirname(path) if path.endswith(f"{os.sep}{INDEX}") else ""
        found |= dict.fromkeys(mds_files(folder) if folder and is_mds(folder) else [path])
    return [*found]


def listed_files(folder: str, split: str = "") -> list[str]:
    """Return the files of such a folder, or of one of its splits, in order."""
    if is_saved(folder):
        return saved_arrow_files(folder, split)
    if is_prepared(folder):
        return prepared_files(folder, split)
    if split:
        raise InputError(f"{folder} is one dataset without splits; leave out @{split}")
    return mds_files(folder)
