"""Where a document came from: its source, its line (or row) counted from 1, its first byte."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.sources import format_of
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.provenance import PIECES


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
    pieces = np.load(folder / entry.path, mmap_mode="r", allow_pickle=False)
    first, last = np.searchsorted(pieces["row"], [row, row + 1])
    counts = [source.records for source in manifest.sources]
    starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    found = []
    for piece in pieces[first:last]:
        dataset = int(np.searchsorted(starts, int(piece["document"]), side="right")) - 1
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
    entry = manifest.shards[shard].provenance
    try:
        row = np.load(folder / entry.path, mmap_mode="r", allow_pickle=False)[place]
        pieces = json.loads((folder / PIECES).read_bytes())
        piece = pieces[entry.first_piece + int(row["piece"])]
    except (OSError, ValueError, LookupError) as error:
        raise CorruptError(f"the provenance of {folder} is damaged: {error}") from None
    source = manifest.sources[piece["source"]]
    return Origin(
        path=source.path,
        unit=format_of(source.kind).unit,
        line=piece["first_line"] + int(row["line"]) + 1,
        byte_offset=int(row["offset"]),
    )
