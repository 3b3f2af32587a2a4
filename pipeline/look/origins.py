"""Where a document came from: its source, its line (or row) counted from 1, its first byte.

row 7  ─►  tokens 0..512 of document 93  ─►  line 17 of books.jsonl
       ─►  tokens 0..9 and 70..99 of document 5  ─►  line 6 of chats.jsonl, without its oldest turns
       ─►  tokens 0..258 of document 4   ─►  row 2 of codes-00000.parquet: cats/tom.jpg
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.origins import origins_of, read_media
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN, read_pieces, read_row_pieces
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.types import Offsets

OPEN_SHARDS = 16  # whose pieces are kept in memory
OPEN_FILES = 256  # of codes, whose media are


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    path: str
    unit: str  # what `line` counts: line, row, item or document
    line: int
    byte_offset: int  # -1 if it is not known
    media: str  # what `encode` made its codes of; "": none, or it is not known
    fingerprint: str  # of the source

    def __str__(self) -> str:
        place = f" (byte {self.byte_offset})" if self.byte_offset >= 0 else ""
        media = f": {self.media}" if self.media else ""
        return f"{self.unit} {self.line} of {self.path}{place}{media}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceOrigin:
    """The piece of a document that is in a row: its dataset, its tokens, where it came from."""

    dataset: str
    document: int  # within the dataset
    head: int  # tokens of the beginning of the document that stand before the others
    start: int  # of the others
    length: int  # of all
    origin: Origin

    def __str__(self) -> str:
        head = f"0..{self.head} and " if self.head else ""
        tokens = f"tokens {head}{self.start}..{self.start + self.length - self.head}"
        return f"{self.origin}; {tokens} of document {self.document} of {self.dataset}"


class RowOrigins:
    """Where the rows of a packed dataset came from, by what is in its own folder."""

    def __init__(self, folder: Path, manifest: PackedManifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._origins = origins_of(folder, manifest)
        counts = [source.records for source in manifest.sources]
        self._starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self._pieces = lru_cache(maxsize=OPEN_SHARDS)(self._read)
        self._media = lru_cache(maxsize=OPEN_FILES)(self._read_media)
        self._is_media_checked = False

    def of_row(self, shard: int, row: int) -> list[PieceOrigin]:
        """Return the pieces in a row of a shard, in order."""
        pieces = self._pieces(shard)
        first, last = np.searchsorted(pieces["row"], [row, row + 1])
        own = pieces[first:last]
        documents = own["document"].astype(np.int64)
        return [
            PieceOrigin(
                dataset=dataset,
                document=document,
                head=int(piece["head"]),
                start=int(piece["start"]),
                length=int(piece["length"]),
                origin=origin,
            )
            for piece, (dataset, document, origin) in zip(own, self.of(documents), strict=True)
        ]

    def of(self, documents: Offsets) -> list[tuple[str, int, Origin]]:
        """Return (dataset, document in it, origin) of documents that are numbered through all."""
        dataset = np.searchsorted(self._starts, documents, side="right") - 1
        local = documents - self._starts[dataset]
        columns = (dataset, local, *self._origins.of(documents))
        places = zip(*(column.tolist() for column in columns), strict=True)
        return [
            (self._manifest.sources[number].path, document, self._origin(file, line))
            for number, document, file, line in places
        ]

    def _origin(self, file: int, line: int) -> Origin:
        found, media = self._origins.files[file], self._media(file)
        return Origin(
            path=found.path,
            unit=unit_of(self._folder, found.kind, found.path),
            line=line + 1,
            byte_offset=-1,
            media=media[line] if line < len(media) else "",
            fingerprint=found.fingerprint,
        )

    def _read_media(self, file: int) -> Sequence[str]:
        is_hashed, self._is_media_checked = not self._is_media_checked, True
        return read_media(self._folder, self._manifest, file, is_hashed=is_hashed)

    def _read(self, shard: int) -> NDArray[Any]:
        return read_row_pieces(self._folder, self._manifest, self._manifest.shards[shard])


def origin_of(folder: Path, manifest: TokenizedManifest, document: int) -> Origin:
    """Return where a document of a tokenized dataset came from."""
    starts = offsets_of([shard.num_documents for shard in manifest.shards])
    shard = int(np.searchsorted(starts, document, side="right")) - 1
    entry, place = manifest.shards[shard], document - int(starts[shard])
    row = read_array(folder, entry.provenance, DOCUMENT_ORIGIN, entry.num_documents)[place]
    pieces = read_pieces(folder, manifest)
    number = entry.provenance.first_piece + int(row["piece"])
    if number >= len(pieces):
        path = folder / entry.provenance.path
        raise CorruptError(f"{path} names piece {number} of {len(pieces)}")
    source = read_sources(folder, manifest)[pieces[number].source]
    line = pieces[number].first_line + int(row["line"])
    media = read_media(folder, manifest, pieces[number].source)
    return Origin(
        path=source.path,
        unit=unit_of(folder, source.kind, source.path),
        line=line + 1,
        byte_offset=int(row["offset"]),
        media=media[line] if line < len(media) else "",
        fingerprint=source.fingerprint,
    )


def unit_of(folder: Path, kind: str, path: str) -> str:
    """Return what is counted in a file of this kind; a CorruptError if there is no such kind."""
    try:
        return format_of(kind).unit
    except InputError as error:
        raise CorruptError(f"{folder} was made from {path}: {error}") from None


def pieces_of_row(
    folder: Path, manifest: PackedManifest, shard: int, row: int
) -> list[PieceOrigin]:
    """Return the pieces in one row of a packed shard, in order."""
    return RowOrigins(folder, manifest).of_row(shard, row)
