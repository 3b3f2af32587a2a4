"""Where a document came from: its source, its line (or row) counted from 1, its first byte."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataprep.pipeline.errors import CorruptError, InputError
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.storage.checked import read_array
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.provenance import DOCUMENT_ORIGIN, ROW_PIECE, read_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    path: str
    unit: str  # what `line` counts: line, row, item or document
    line: int
    byte_offset: int  # -1 if the format has none

    def __str__(self) -> str:
        place = f" (byte {self.byte_offset})" if self.byte_offset >= 0 else ""
        return f"{self.unit} {self.line} of {self.path}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceOrigin:
    """The piece of a document that is in a row: its dataset and its tokens."""

    dataset: str
    document: int  # within the dataset
    start: int
    length: int


def pieces_of_row(
    folder: Path, manifest: PackedManifest, shard: int, row: int
) -> list[PieceOrigin]:
    """Return the pieces in a row of a packed shard, in order."""
    entry = manifest.shards[shard].provenance
    pieces = read_array(folder, entry, ROW_PIECE)
    first, last = np.searchsorted(pieces["row"], [row, row + 1])
    counts = [source.records for source in manifest.sources]
    starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    found = []
    for piece in pieces[first:last]:
        dataset = int(np.searchsorted(starts, int(piece["document"]), side="right")) - 1
        if dataset >= len(counts):
            raise CorruptError(f"{folder / entry.path} names a document that no source has")
        found.append(
            PieceOrigin(
                dataset=manifest.sources[dataset].path,
                document=int(piece["document"]) - int(starts[dataset]),
                start=int(piece["start"]),
                length=int(piece["length"]),
            )
        )
    return found


def origin_of(folder: Path, manifest: TokenizedManifest, shard: int, place: int) -> Origin:
    """Return where the document at `place` in a shard came from."""
    entry = manifest.shards[shard]
    row = read_array(folder, entry.provenance, DOCUMENT_ORIGIN, entry.num_documents)[place]
    pieces = read_pieces(folder, manifest)
    number = entry.provenance.first_piece + int(row["piece"])
    if number >= len(pieces):
        path = folder / entry.provenance.path
        raise CorruptError(f"{path} names piece {number} of {len(pieces)}")
    source = manifest.sources[pieces[number].source]
    try:
        unit = format_of(source.kind).unit
    except InputError as error:
        raise CorruptError(f"{folder} was made from {source.path}: {error}") from None
    return Origin(
        path=source.path,
        unit=unit,
        line=pieces[number].first_line + int(row["line"]) + 1,
        byte_offset=int(row["offset"]),
    )
