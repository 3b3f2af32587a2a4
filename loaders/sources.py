"""What a loader reads rows from: a packed dataset, or a tokenized one whose documents are rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from dataprep.loaders.document_rows import DocumentRows
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.packed import PackedDataset
from dataprep.loaders.shards import Shards
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.types import Offsets

AnyDataset = PackedDataset | TokenizedDataset


class RowSource(Protocol):
    """Rows by their numbers; its length is how many places of a loader's sequence an epoch has."""

    folder: Path
    fingerprint: str
    masks: tuple[str, ...]
    pad: int

    @property
    def about(self) -> PackedManifest | TokenizedManifest: ...
    def __len__(self) -> int: ...
    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None: ...
    def stored(self, rows: Offsets) -> tuple[Shards, Offsets]: ...
    def will_need(self, rows: Offsets) -> None: ...
    def prepare(self) -> None: ...


def described(source: RowSource) -> Any:
    """Return what views need to know of the rows."""
    return source if isinstance(source, DocumentRows) else source.about


def dataset_of(source: RowSource) -> AnyDataset:
    """Return the dataset that a user has opened, or would."""
    if isinstance(source, DocumentRows):
        return source.dataset
    assert isinstance(source, PackedDataset), source
    return source
