"""List the documents of a packed dataset that are not in one row as a whole, and where they are
from: truncated, dropped, split over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.look.origins import Origin, RowOrigins
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.checked import check_file
from dataprep.pipeline.storage.manifest import PackedManifest
from dataprep.pipeline.storage.parts import files_named
from dataprep.pipeline.storage.provenance import LOST, ROW_PIECE, read_row_pieces
from dataprep.pipeline.typed import decoder_of
from dataprep.pipeline.types import Offsets

Fate = Literal["truncated", "dropped", "split"]
AT_ONCE = 1 << 12  # documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A document, and what became of its tokens."""

    dataset: str
    document: int  # within the dataset
    origin: Origin
    kept: int  # tokens in rows; those that two rows share count twice
    lost: int
    rows: tuple[int, ...]  # of a split document: the rows that hold it


class _Line(msgspec.Struct):
    """A line of the list that `pack` writes."""

    dataset: str
    document: int
    kept: int
    lost: int


def documents_of_fate(folder: Path, manifest: PackedManifest, fate: Fate) -> Iterator[Listed]:
    """Yield the documents that packing truncated, dropped or split, in order."""
    return FATES[fate](folder, manifest)


def _truncated(folder: Path, manifest: PackedManifest) -> Iterator[Listed]:
    return (found for found in _lost(folder, manifest) if found.kept)


def _dropped(folder: Path, manifest: PackedManifest) -> Iterator[Listed]:
    return (found for found in _lost(folder, manifest) if not found.kept)


def _lost(folder: Path, manifest: PackedManifest) -> Iterator[Listed]:
    origins, lines = RowOrigins(folder, manifest), _lost_lines(folder, manifest)
    while batch := list(islice(lines, AT_ONCE)):
        found = origins.of(np.array([document for document, _ in batch], np.int64))
        for (_, line), (dataset, own, origin) in zip(batch, found, strict=True):
            yield Listed(
                dataset=dataset,
                document=own,
                origin=origin,
                kept=line.kept,
                lost=line.lost,
                rows=(),
            )


def _lost_lines(folder: Path, manifest: PackedManifest) -> Iterator[tuple[int, _Line]]:
    """Yield the lines of the list, each with its document as numbered through all datasets."""
    starts: dict[str, int] = {}
    firsts = offsets_of([source.records for source in manifest.sources])
    for source, first in zip(manifest.sources, firsts.tolist(), strict=False):
        starts.setdefault(source.path, first)
    for place, _, entry in files_named(folder, manifest, LOST):
        check_file(place, entry)
        yield from _lines_in(place, starts, int(firsts[-1]))


def _lines_in(folder: Path, starts: Mapping[str, int], total: int) -> Iterator[tuple[int, _Line]]:
    decoder = decoder_of(_Line)
    with open(folder / LOST, "rb") as file:
        for number, text in enumerate(file, 1):
            try:
                line = decoder.decode(text)
                document = starts[line.dataset] + line.document
                if not 0 <= document < total:
                    raise KeyError(line.document)
            except (msgspec.MsgspecError, UnicodeError, KeyError) as error:
                raise CorruptError(
                    f"line {number} of {folder / LOST} is damaged: {error}"
                ) from None
            yield document, line


def _split(folder: Path, manifest: PackedManifest) -> Iterator[Listed]:
    document, length, row, start_in = pieces_of(folder, manifest)
    order = np.argsort(document, kind="stable")
    document, start_in, length, row = (c[order] for c in (document, start_in, length, row))
    starts = np.flatnonzero(np.diff(document, prepend=-1))
    stops = np.append(starts[1:], len(document))
    lost = np.array([number for number, _ in _lost_lines(folder, manifest)], np.int64)
    is_split = np.zeros(len(starts), bool)
    if len(document):  # a document of which nothing is lost is as long as its last piece reaches
        whole = np.maximum.reduceat(start_in + length, starts)
        is_split = np.maximum.reduceat(length, starts) < whole
        is_split &= ~np.isin(document[starts], lost)  # those are truncated
    starts, stops = starts[is_split], stops[is_split]
    origins = RowOrigins(folder, manifest)
    for first, last in pairwise([*range(0, len(starts), AT_ONCE), len(starts)]):
        places = zip(starts[first:last].tolist(), stops[first:last].tolist(), strict=True)
        found = origins.of(document[starts[first:last]])
        for (start, stop), (dataset, own, origin) in zip(places, found, strict=True):
            yield Listed(
                dataset=dataset,
                document=own,
                origin=origin,
                kept=int(length[start:stop].sum()),
                lost=0,
                rows=tuple(row[start:stop].tolist()),
            )


def pieces_of(folder: Path, manifest: PackedManifest) -> tuple[Offsets, Offsets, Offsets, Offsets]:
    """Return document, length, row and start of all pieces, in the order of the rows."""
    firsts = offsets_of([shard.num_records for shard in manifest.shards]).tolist()
    parts = [np.zeros(0, ROW_PIECE)]
    rows = [np.zeros(0, np.int64)]
    for shard, first in zip(manifest.shards, firsts, strict=False):
        parts.append(read_row_pieces(folder, manifest, shard))
        rows.append(parts[-1]["row"].astype(np.int64) + first)
    pieces = np.concatenate(parts)
    document, length, start = (
        pieces[name].astype(np.int64) for name in ("document", "length", "start")
    )
    return document, length, np.concatenate(rows), start


FATES: Mapping[Fate, Callable[[Path, PackedManifest], Iterator[Listed]]] = {
    "truncated": _truncated,
    "dropped": _dropped,
    "split": _split,
}
