"""How it is stored where documents and rows came from. The loader does not read it.

tokenized   provenance/documents-*.npy   piece, line and byte of each document
            provenance/pieces.json       source and first line of each piece
packed      provenance/rows-*.npy        pieces of documents, row by row
            provenance/lost.jsonl        documents that were truncated or dropped, if there are any
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.entries import Size
from dataprep.pipeline.storage.kinds import TokenizedManifest

PIECES = "provenance/pieces.json"
LOST = "provenance/lost.jsonl"
DOCUMENT_ORIGIN = np.dtype([("piece", "<u4"), ("line", "<u4"), ("offset", "<i8")])
ROW_PIECE = np.dtype([("row", "<u4"), ("length", "<u4"), ("document", "<u8"), ("start", "<u8")])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePiece:
    source: Size  # its number in the manifest
    first_line: Size  # lines of the source before the piece


def read_pieces(folder: Path, manifest: TokenizedManifest) -> tuple[SourcePiece, ...]:
    """Return where the pieces of all tasks came from."""
    path = folder / PIECES
    entry = next((entry for entry in manifest.files if entry.path == PIECES), None)
    if entry is None:
        raise CorruptError(f"the manifest of {folder} does not list {PIECES}")
    check_file(folder, entry)
    try:
        pieces = msgspec.json.decode(path.read_bytes(), type=tuple[SourcePiece, ...])
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise CorruptError(f"{path} is damaged: {error}") from None
    if max((piece.source for piece in pieces), default=-1) >= len(manifest.sources):
        raise CorruptError(f"{path} names a source that the manifest does not list")
    return pieces
