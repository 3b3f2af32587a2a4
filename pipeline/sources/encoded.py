"""Datasets of codes that `dataprep encode` wrote, as inputs: checked against their manifest.

    codes/manifest.json      lists shards/codes-00000-of-00002.parquet: bytes, xxh3-128
    codes/shards/            must hold exactly these; hashes are compared with the fingerprints,
                             which are made of every input anyway

A deleted shard would give a shorter corpus, a copied one a longer. Shards without a manifest are
known by their names and by the metadata in their footers; they are refused unless the user names
each file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.sources.fingerprint import PREFIX
from dataprep.pipeline.sources.parquet import Parquet
from dataprep.pipeline.storage.entries import CodeShard
from dataprep.pipeline.storage.manifest import EncodedManifest, kind_of, read_manifest
from dataprep.pipeline.types import Source

KEY = b"dataprep"  # of the schema's metadata, in which encoders are named
SHARDS = "shards"
_SHARD_NAME = re.compile(r"codes-\d{5}-of-\d{5}\.parquet")


def dataset_around(folder: str) -> str:
    """Return the dataset of codes that a folder is, or whose shards it has; else ''."""
    if kind_of(folder) == "encoded":
        return folder
    parent, name = os.path.split(os.path.abspath(folder))
    return parent if name == SHARDS and kind_of(parent) == "encoded" else ""


def shards_of(dataset: str) -> list[str]:
    """Return the shards in order; a CorruptError unless exactly those of the manifest are there."""
    listed = [os.path.join(dataset, name) for name in _entries(dataset)]
    folder = os.path.join(dataset, SHARDS)
    present = {os.path.join(folder, name) for name in os.listdir(folder)} if listed else set()
    for path in listed:
        if path not in present or os.path.islink(path) or not os.path.isfile(path):
            raise CorruptError(
                f"{path} is missing or not a file of its own, but manifest.json lists it; restore "
                "it, or encode again"
            )
    strangers = sorted(present - set(listed))
    if strangers:
        raise CorruptError(
            f"{strangers[0]} is not in the manifest.json of {dataset}, so it would be read as part "
            "of a dataset that it does not belong to; move it away, or name the files to read"
        )
    return listed


def check_content(sources: Iterable[Source]) -> None:
    """Raise a CorruptError for a shard whose size or hash is not what its manifest says."""
    manifests: dict[str, Mapping[str, CodeShard]] = {}  # by dataset
    for source in sources:
        folder, name = os.path.split(source.path)
        if os.path.basename(folder) != SHARDS:
            continue
        dataset = os.path.dirname(folder)
        if dataset not in manifests:
            manifests[dataset] = _entries(dataset) if kind_of(dataset) == "encoded" else {}
        entry = manifests[dataset].get(f"{SHARDS}/{name}")
        if entry is None:
            continue
        if (source.num_bytes, source.fingerprint) != (entry.num_bytes, PREFIX + entry.xxh3_128):
            raise CorruptError(
                f"{source.path} is not what the manifest.json of {dataset} says: it was changed or "
                "is damaged; restore it, or encode again"
            )


def refuse_orphans(paths: Sequence[str], folder: str) -> None:
    """Raise a CorruptError for shards of codes, found in a folder, that have no manifest."""
    for path in paths:
        if not _SHARD_NAME.fullmatch(os.path.basename(path)):
            continue
        place = os.path.dirname(path)
        if os.path.basename(place) == SHARDS and kind_of(os.path.dirname(place)) == "encoded":
            continue
        source = Source(kind=Parquet.kind, path=path, num_bytes=-1, fingerprint="")
        if KEY in (Parquet().schema(source).metadata or {}):
            raise CorruptError(
                f"{path} (found in {folder}) is a shard of a dataset of codes without its "
                "manifest.json, so nothing says whether all shards are there; restore the "
                "manifest, encode again, or name each file"
            )


def _entries(dataset: str) -> Mapping[str, CodeShard]:
    manifest = read_manifest(Path(dataset))
    assert isinstance(manifest, EncodedManifest)
    return {shard.path: shard for shard in manifest.shards}
