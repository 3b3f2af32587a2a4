"""How it is stored where documents and rows came from. The loader does not read it.

tokenized   provenance/documents-*.npy   piece, line and byte of each document
            provenance/pieces.json       source and first line of each piece
            provenance/media.parquet     what `encode` made the codes of, if any source has such
packed      provenance/rows-*.npy        pieces of documents, row by row
            provenance/origins.npy       file and line of each document, as runs: see `origins`
            provenance/files-*.json      the files that they came from, 4,096 in each
            provenance/media.parquet     as above, of all tokenized datasets
            provenance/lost.jsonl        documents that were truncated or dropped, if there are any

So a packed dataset says by itself where its rows came from, when the tokenized ones are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.apart import Apart, read_entries
from dataprep.pipeline.storage.checked import read_array, read_whole
from dataprep.pipeline.storage.entries import FileEntry, RowShard, Size, SizeIfKnown, Text
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.source_sums import MOST_TOGETHER, count_of, origins_name
from dataprep.pipeline.typed import decode_as
from dataprep.pipeline.types import Offsets

T = TypeVar("T")

PIECES = "provenance/pieces.json"
ORIGINS = "provenance/origins.npy"
MEDIA = "provenance/media.parquet"
LOST = "provenance/lost.jsonl"
FORGOTTEN = "provenance/forgotten.npy"  # u64: numbers of documents that were taken out
FORGOTTEN_NUMBER = np.dtype("<u8")
DOCUMENT_ORIGIN = np.dtype([("piece", "<u4"), ("line", "<u4"), ("offset", "<i8")])
# A piece is `head` tokens from the beginning of its document, then `length - head` from `start` on.
ROW_PIECE = np.dtype(
    [("row", "<u4"), ("length", "<u4"), ("document", "<u8"), ("start", "<u4"), ("head", "<u4")]
)
ORIGIN_RUN = np.dtype([("document", "<u8"), ("line", "<u8"), ("file", "<u4")])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePiece:
    source: Size  # its number in the manifest
    first_line: Size  # lines of the source before the piece


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFile:
    """A source of a tokenized dataset, as a packed one lists it."""

    dataset: Size  # its number in the manifest
    path: Text
    kind: Text
    start: Size  # the byte from which on it was read
    bytes: SizeIfKnown  # from there on
    fingerprint: Text  # of its content up to there
    input: Text  # what the user named


def listed(manifest: TokenizedManifest | PackedManifest, name: str) -> FileEntry | None:
    """Return the entry of a file that not every dataset has."""
    return next((entry for entry in manifest.files if entry.path == name), None)


def read_pieces(folder: Path, manifest: TokenizedManifest) -> tuple[SourcePiece, ...]:
    """Return where the pieces of all tasks came from; sources are numbered through all parts."""
    found: list[SourcePiece] = []
    first = 0
    for place, part in parts_of(folder, manifest):
        pieces = _read_json(place, part, PIECES, tuple[SourcePiece, ...])
        if max((piece.source for piece in pieces), default=-1) >= count_of(part.sources):
            raise CorruptError(f"{place / PIECES} names a source that the manifest does not list")
        found += (
            [replace(piece, source=piece.source + first) for piece in pieces] if first else pieces
        )
        first += count_of(part.sources)
    return tuple(found)


def forgotten_in(folder: Path, manifest: TokenizedManifest | PackedManifest) -> Offsets:
    """Return the documents that were taken out of a part, ascending."""
    entry = listed(manifest, FORGOTTEN)
    if entry is None:
        return np.zeros(0, np.int64)
    numbers = read_array(folder, entry, FORGOTTEN_NUMBER).astype(np.int64)
    if (np.diff(numbers, prepend=-1) <= 0).any() or (numbers >= _num_documents(manifest)).any():
        raise CorruptError(f"{folder / FORGOTTEN} does not list documents of the dataset in order")
    return numbers


def _num_documents(manifest: TokenizedManifest | PackedManifest) -> int:
    if isinstance(manifest, TokenizedManifest):
        return manifest.counts["documents_written"]
    return sum(source.records for source in manifest.sources)


def read_row_pieces(folder: Path, manifest: PackedManifest, shard: RowShard) -> NDArray[Any]:
    """Return the pieces of the rows of a shard; documents are numbered through all parts."""
    pieces = read_array(folder, shard.provenance, ROW_PIECE)
    num_documents = _num_documents(manifest)
    last = int(pieces["document"].max(initial=0))
    if len(pieces) and shard.first_document + last >= num_documents:
        path = folder / shard.provenance.path
        raise CorruptError(f"{path} names document {last} of {num_documents}")
    numbered = pieces.copy()
    numbered["document"] += np.uint64(shard.first_document)
    return numbered


def read_files(folder: Path, manifest: PackedManifest) -> Apart[OriginFile]:
    """Return the files that the documents of a packed dataset without parts came from."""
    ends = offsets_of([source.files for source in manifest.sources])
    count = int(ends[-1])
    entries = {entry.path: entry for entry in manifest.files}

    def read(first: int, num: int) -> Sequence[OriginFile]:
        name = origins_name(first // MOST_TOGETHER)
        found = read_entries(folder, entries[name], tuple[OriginFile, ...], num)
        own = np.searchsorted(ends, np.arange(first, first + num), side="right") - 1
        if [file.dataset for file in found] != own.tolist():
            raise CorruptError(f"{folder / name} names a dataset that is not the one of the file")
        return found

    starts = range(0, count, MOST_TOGETHER)
    sizes = [min(MOST_TOGETHER, count - first) for first in starts]
    return Apart((num, partial(read, first, num)) for first, num in zip(starts, sizes, strict=True))


def must_list(folder: Path, manifest: TokenizedManifest | PackedManifest, name: str) -> FileEntry:
    entry = listed(manifest, name)
    if entry is None:
        raise CorruptError(f"the manifest of {folder} does not list {name}")
    return entry


def _read_json(
    folder: Path, manifest: TokenizedManifest | PackedManifest, name: str, kind: type[T]
) -> T:
    data = read_whole(folder, must_list(folder, manifest, name))
    try:
        return decode_as(data, kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise CorruptError(f"{folder / name} is damaged: {error}") from None
