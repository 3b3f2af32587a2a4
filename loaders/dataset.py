"""Open a dataset of either kind by its folder."""

from __future__ import annotations

from pathlib import Path

from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.manifest import read_manifest


def open_dataset(folder: str | Path) -> TokenizedDataset | PackedDataset:
    """Open a complete dataset; an incomplete or damaged one is a CorruptError that names why."""
    path = Path(folder)
    manifest = read_manifest(path)
    if manifest["kind"] == "tokenized":
        return TokenizedDataset(path, manifest)
    if manifest["kind"] == "packed":
        return PackedDataset(path, manifest)
    raise CorruptError(f"{path} is of kind {manifest['kind']!r}, which this cannot open")
