"""Which example of its file a place in a packed dataset is of, and where an example begins.

    row 2, column 5  ─►  document 93  ─►  line 94 of train.jsonl, which begins at byte 51,233
    byte 50,112      ─►  document 93  ─►  row 1, column 7

Lines are in the provenance of the packed dataset, bytes only in that of the tokenized one: it need
not be there. What is not known is -1. With several files, examples are numbered through all of
them, and bytes are not known.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.packed import PackedDataset
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.manifest import TokenizedManifest, read_manifest
from dataprep.pipeline.storage.origins import Origins, origins_of
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN, read_row_pieces

UNKNOWN = -1


class Examples:
    """The examples that the rows of a packed dataset were made of."""

    def __init__(self, rows: PackedDataset, *, by_line: bool = True) -> None:
        """`by_line`: whether examples are numbered by their lines, else one after another."""
        self._rows, self._by_line = rows, by_line
        # A copy of the shards alone is enough to train on.
        self._is_known = (rows.folder / rows.about.shards[0].provenance.path).exists()
        self._pieces = lru_cache(maxsize=4)(self._read_pieces)

    def at(self, row: int, column: int) -> tuple[int, int]:
        """Return the number of the example that has a token, and the byte after its line."""
        if not self._is_known:
            return UNKNOWN, UNKNOWN
        shard, place = self._rows.locate(row)
        pieces = self._pieces(shard)
        first, last = np.searchsorted(pieces["row"], [place, place + 1])
        ends = np.cumsum(pieces["length"][first:last])
        piece = first + min(int(np.searchsorted(ends, column, side="right")), last - first - 1)
        document = int(pieces["document"][piece])
        return self._line_of(document), self._byte_after(document)

    def document_at(self, byte: int) -> int:
        """Return the document whose line begins at a byte of the file, or the next one after it."""
        if not self._is_known or self._bytes is None:
            raise ConfigError(
                f"byte {byte} of the file (start_seek_loc, or the state of LWM): where examples of "
                f"{self._rows.folder} begin is known only if it is of one file, and the tokenized "
                "dataset that it was packed from is beside it, with its provenance; put it there, "
                "or go on by a state dict of this dataset"
            )
        return self._bytes.first_from(byte)

    def place_of(self, document: int) -> tuple[int, int]:
        """Return row and column of the first token of a document, or of the next that has any."""
        first_row = 0
        for number, shard in enumerate(self._rows.about.shards):
            pieces = self._pieces(number)
            begins = (pieces["document"] >= document) & (pieces["start"] == 0)
            if begins.any():
                piece = int(np.argmax(begins))
                row = pieces["row"][piece]
                before = pieces["length"][np.searchsorted(pieces["row"], row) : piece]
                return first_row + int(row), int(before.sum())
            first_row += shard.num_records
        return 0, 0  # after the last example, LWM begins anew

    @cached_property
    def _origins(self) -> Origins:
        return origins_of(self._rows.folder, self._rows.about)

    @property
    def _is_one_file(self) -> bool:
        return len(self._origins.files) == 1

    @cached_property
    def _bytes(self) -> LineBytes | None:
        """Where the examples of the only file begin; None if it is not known."""
        sources = self._rows.about.sources
        if len(sources) != 1 or not self._is_one_file:
            return None
        # As it was named when it was packed, perhaps in another working folder, or beside the rows.
        path, beside = Path(sources[0].path), self._rows.folder.resolve().parent
        for folder in (path, beside / path, beside / path.name):
            try:
                manifest = read_manifest(folder)
            except CorruptError:
                continue  # it was moved, or removed
            is_same = manifest.fingerprint == sources[0].fingerprint
            if is_same and isinstance(manifest, TokenizedManifest) and not manifest.parts:
                is_whole = all((folder / s.provenance.path).exists() for s in manifest.shards)
                return LineBytes(folder, manifest) if is_whole else None
        return None

    def _line_of(self, document: int) -> int:
        if not self._by_line or not self._is_one_file:
            return document
        return int(self._origins.of(np.array([document]))[1][0])

    def _byte_after(self, document: int) -> int:
        if self._bytes is None:
            return UNKNOWN
        if document + 1 < len(self._bytes):
            return self._bytes.of(document + 1)
        file = self._origins.files[0]
        return file.start + file.bytes if file.bytes >= 0 else UNKNOWN

    def _read_pieces(self, shard: int) -> NDArray[Any]:
        about = self._rows.about
        return read_row_pieces(self._rows.folder, about, about.shards[shard])


class LineBytes:
    """Where the lines of the documents of a tokenized dataset begin; read shard by shard."""

    def __init__(self, folder: Path, manifest: TokenizedManifest) -> None:
        self._folder, self._shards = folder, manifest.shards
        self._starts = offsets_of([shard.num_documents for shard in manifest.shards])
        self._read = lru_cache(maxsize=2)(self._read_shard)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def of(self, document: int) -> int:
        """Return the first byte of the line of a document."""
        shard = int(np.searchsorted(self._starts, document, side="right")) - 1
        return int(self._read(shard)[document - self._starts[shard]])

    def first_from(self, byte: int) -> int:
        """Return the first document whose line begins at a byte or after it."""
        for shard in range(len(self._shards)):
            place = int(np.searchsorted(self._read(shard), byte))
            if place < self._shards[shard].num_documents:
                return int(self._starts[shard]) + place
        return len(self)

    def _read_shard(self, number: int) -> NDArray[Any]:
        shard = self._shards[number]
        found = read_array(self._folder, shard.provenance, DOCUMENT_ORIGIN, shard.num_documents)
        return found["offset"].copy()
