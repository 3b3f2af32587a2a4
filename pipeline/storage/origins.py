"""File and line of every document, as runs: consecutive documents of consecutive lines of a file.

    document   0 1 2 3 4 | 5 6 7        line 2 of file 0 is blank
    file       0 0 0 0 0 | 1 1 1
    line       0 1 3 4 5 | 0 1 2        from 0
    runs       document 0, file 0, line 0 · document 2, file 0, line 3 · document 5, file 1, line 0

A run lasts to the next one, so that most files need one, however long they are. `media.parquet`
says in the same way what the rows of files of codes are of: one row for each row of such a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.files import NewFile
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.apart import Apart, joined_apart
from dataprep.pipeline.storage.checked import read_array, whole_while
from dataprep.pipeline.storage.entries import DocumentShard, PackedSource, TextSource
from dataprep.pipeline.storage.kinds import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.parts import parts_of
from dataprep.pipeline.storage.provenance import (
    DOCUMENT_ORIGIN,
    MEDIA,
    ORIGIN_RUN,
    ORIGINS,
    OriginFile,
    listed,
    must_list,
    read_files,
    read_pieces,
)
from dataprep.pipeline.storage.source_lists import read_sources
from dataprep.pipeline.storage.source_sums import num_origins
from dataprep.pipeline.types import Offsets

MAX_LINES = 1 << 62  # of a file, so that sums of them fit 64 bits
MOST_NAMES = 1 << 15  # of media that are held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Where the documents of a dataset came from."""

    files: Sequence[OriginFile]  # many are read when they are asked for
    runs: NDArray[Any]  # ORIGIN_RUN[r], ascending; the first is of document 0
    count: int  # documents
    _starts: Offsets = field(init=False, repr=False)  # documents; a search would copy the column

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", self.runs["document"].astype(np.int64))

    def of(self, documents: Offsets) -> tuple[Offsets, Offsets]:
        """Return the file and the line in it, from 0, of each of these documents."""
        run = self.run_of(documents)
        found, first = self.runs[run], self._starts[run]
        return found["file"].astype(np.int64), found["line"].astype(np.int64) + documents - first

    def documents_of(self, file: int, line: int) -> Offsets:
        """Return the documents of a line of a file, from 0: one, none, or several of its turns."""
        (found,) = self.documents_of_lines(file, [line])
        return found

    def documents_of_lines(self, file: int, lines: Sequence[int]) -> list[Offsets]:
        """Return the same of several lines of a file."""
        own = np.flatnonzero(self.runs["file"] == file) if lines else np.zeros(0, np.int64)
        lengths = np.append(self._starts[1:], self.count)[own] - self._starts[own]
        first = self.runs["line"][own].astype(np.int64)
        wanted = np.array(lines, np.int64)
        starts = np.searchsorted(first + lengths, wanted, side="right")  # lines of a file rise
        stops = np.searchsorted(first, wanted, side="right")
        return [
            self._starts[own[start:stop]] + line - first[start:stop]
            for line, start, stop in zip(lines, starts.tolist(), stops.tolist(), strict=True)
        ]

    def run_of(self, documents: Offsets) -> Offsets:
        return np.searchsorted(self._starts, documents, side="right") - 1


def origins_of(folder: Path, manifest: TokenizedManifest | PackedManifest) -> Origins:
    """Read where all documents came from; a CorruptError if that is not what it can be."""
    if isinstance(manifest, TokenizedManifest):
        return Origins(
            files=files_of_sources(folder, manifest),
            runs=runs_of_tokenized(folder, manifest),
            count=sum(shard.num_documents for shard in manifest.shards),
        )
    found = [
        (place, _runs_of_packed(place, part), part) for place, part in parts_of(folder, manifest)
    ]
    files: list[Apart[OriginFile]] = []
    runs, document, dataset = [np.zeros(0, ORIGIN_RUN)], 0, 0
    for place, read, part in found:
        own = read.copy()
        own["document"] += np.uint64(document)
        own["file"] += sum(map(len, files))
        runs.append(own)
        files.append(_numbered(read_files(place, part), dataset))
        document += sum(source.records for source in part.sources)
        dataset += len(part.sources)
    return Origins(files=joined_apart(files), runs=np.concatenate(runs), count=document)


def _numbered(files: Apart[OriginFile], first: int) -> Apart[OriginFile]:
    """Return the files of a part whose datasets are numbered from `first` on."""
    if not first:
        return files
    return files.mapped(lambda file: replace(file, dataset=file.dataset + first))


def _runs_of_packed(folder: Path, manifest: PackedManifest) -> NDArray[Any]:
    runs = read_array(folder, must_list(folder, manifest, ORIGINS), ORIGIN_RUN)
    wrong = _wrong_runs(runs, manifest.sources)
    if wrong:
        raise CorruptError(f"{folder / ORIGINS} {wrong}")
    return runs


def files_of_sources(
    folder: Path, manifest: TokenizedManifest, dataset: int = 0
) -> Sequence[OriginFile]:
    """Return the sources of a tokenized dataset as a packed one lists them."""

    def as_file(source: TextSource) -> OriginFile:
        return OriginFile(
            dataset=dataset,
            path=source.path,
            kind=source.kind,
            start=source.start,
            bytes=source.bytes,
            fingerprint=source.fingerprint,
            input=source.input,
        )

    sources = read_sources(folder, manifest)
    return sources.mapped(as_file) if isinstance(sources, Apart) else tuple(map(as_file, sources))


def runs_of_tokenized(folder: Path, manifest: TokenizedManifest) -> NDArray[Any]:
    """Return the runs of a tokenized dataset; files are numbered as its sources."""
    pieces = read_pieces(folder, manifest)
    sources = np.array([piece.source for piece in pieces], np.int64)
    firsts = np.array([piece.first_line for piece in pieces], np.int64)
    found, document = [np.zeros(0, ORIGIN_RUN)], 0
    for shard in manifest.shards:
        piece, line = piece_and_line(folder, shard, len(pieces))
        runs = _runs(document, sources[piece], firsts[piece] + line)
        found.append(runs[1:] if _goes_on(found[-1], runs) else runs)
        document += shard.num_documents
    return np.concatenate(found)


def piece_and_line(folder: Path, shard: DocumentShard, num_pieces: int) -> tuple[Offsets, Offsets]:
    """Return the piece, among all, and the line in it that each document of a shard came from."""
    origins = read_array(folder, shard.provenance, DOCUMENT_ORIGIN, shard.num_documents)
    piece = shard.provenance.first_piece + origins["piece"].astype(np.int64)
    if len(piece) and int(piece.max()) >= num_pieces:
        path = folder / shard.provenance.path
        raise CorruptError(f"{path} names piece {piece.max()} of {num_pieces}")
    return piece, origins["line"].astype(np.int64)


def _runs(first_document: int, file: Offsets, line: Offsets) -> NDArray[Any]:
    """Return the runs of documents that are numbered from `first_document` on.

    >>> _runs(7, np.array([0, 0, 0, 1]), np.array([0, 1, 3, 0])).tolist()
    [(7, 0, 0), (9, 3, 0), (10, 0, 1)]
    """
    begins = np.ones(len(file), bool)
    begins[1:] = (np.diff(file) != 0) | (np.diff(line) != 1)
    places = np.flatnonzero(begins)
    runs = np.empty(len(places), ORIGIN_RUN)
    runs["document"] = first_document + places
    runs["file"], runs["line"] = file[places], line[places]
    return runs


def _goes_on(before: NDArray[Any], runs: NDArray[Any]) -> bool:
    """Return whether the first of these runs is the same as the last before it."""
    if not len(before) or not len(runs):
        return False
    last, first = before[-1], runs[0]
    step = int(first["document"]) - int(last["document"])
    return bool(last["file"] == first["file"] and int(last["line"]) + step == int(first["line"]))


def _wrong_runs(runs: NDArray[Any], sources: Sequence[PackedSource]) -> str:
    """Return what is wrong with the runs of these datasets, or ''."""
    ends = offsets_of([source.records for source in sources])
    files = offsets_of([source.files for source in sources])
    if not len(runs):
        return "lists no document" if ends[-1] else ""
    starts = runs["document"].astype(np.int64)  # negative from 2**63 on, so the maximum is not
    is_in_order = starts[0] == 0 and (np.diff(starts) > 0).all()
    if not is_in_order or int(runs["document"].max()) >= ends[-1]:
        return "does not list all documents in order"
    if int(runs["file"].max()) >= files[-1]:
        return f"names file {runs['file'].max()} of {files[-1]}"
    if int(runs["line"].max()) >= MAX_LINES:
        return f"names line {runs['line'].max()}, which no file has"
    if not _lines_rise(runs, np.diff(starts, append=ends[-1])):
        return "does not list the lines of a file in order"
    of_file = np.searchsorted(files, runs["file"].astype(np.int64), side="right") - 1
    last = np.append(starts[1:], ends[-1]) - 1  # document of each run
    for documents in (starts, last):
        if (np.searchsorted(ends, documents, side="right") - 1 != of_file).any():
            return "names files of another dataset than its documents"
    return ""


def _lines_rise(runs: NDArray[Any], lengths: Offsets) -> bool:
    """Return whether each run begins at the last line of the run before it of its file, or later.

    A conversation may have become a document for each of its turns, all of one line.
    """
    order = np.argsort(runs["file"], kind="stable")
    file, line = runs["file"][order], runs["line"][order].astype(np.int64)
    is_past = line[1:] >= (line + lengths[order])[:-1] - 1
    return bool((is_past | (file[1:] != file[:-1])).all())


# --- media ---


def write_media(path: Path, found: Iterator[tuple[int, Iterable[str]]]) -> NewFile | None:
    """Write what the rows of files of codes are of, if there is any such file; what follows for the
    same file goes on with its rows. Memory is that of `MOST_NAMES`. It is still to be committed."""
    first = next(found, None)
    if first is None:
        return None
    import pyarrow as pa  # here: most datasets have no media
    import pyarrow.parquet as pq

    schema = pa.schema([("file", pa.uint32()), ("media", pa.string())])
    file = NewFile(path)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for number, every in chain((first,), found):
            rest = iter(every)
            while names := list(islice(rest, MOST_NAMES)):
                files = np.full(len(names), number, np.uint32)
                writer.write_table(pa.table([files, pa.array(names, pa.string())], schema=schema))
    return file


def iter_media(
    folder: Path, manifest: TokenizedManifest | PackedManifest
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield what the rows of all files of codes are of, as (file, the next rows of it), at most
    `MOST_NAMES` rows at a time; they are as many as pictures."""
    if not manifest.parts:
        yield from _media_of_part(folder, manifest)
        return
    first = 0
    for place, part in parts_of(folder, manifest):
        for file, names in _media_of_part(place, part):
            yield first + file, names
        first += num_origins(part)


def _media_of_part(
    folder: Path, manifest: TokenizedManifest | PackedManifest
) -> Iterator[tuple[int, Sequence[str]]]:
    entry = listed(manifest, MEDIA)
    if entry is None:
        return
    import pyarrow.parquet as pq

    with _media_errors(folder), whole_while(folder, entry), pq.ParquetFile(folder / MEDIA) as file:
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(MOST_NAMES, [group], ["file", "media"]):
                number = batch.column("file").to_numpy()
                edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
                for start, stop in pairwise(edges) if len(number) else ():
                    names = batch.column("media").slice(start, stop - start).to_pylist()
                    yield int(number[start]), names


def read_media(
    folder: Path,
    manifest: TokenizedManifest | PackedManifest,
    file: int,
    *,
    is_hashed: bool = True,
) -> Sequence[str]:
    """Return what the rows of a file are of; nothing if they are no codes. The hash of the manifest
    is compared if it is asked for."""
    for place, part in parts_of(folder, manifest) if manifest.parts else ():
        count = num_origins(part)
        if file < count:
            return read_media(place, part, file, is_hashed=is_hashed)
        file -= count
    entry = listed(manifest, MEDIA)
    if entry is None:
        return ()
    import pyarrow.parquet as pq

    checked = whole_while(folder, entry) if is_hashed else nullcontext()
    with _media_errors(folder), checked:
        wanted = [("file", "==", file)]
        table = pq.read_table(folder / MEDIA, columns=["file", "media"], filters=wanted)
        names: list[str] = table.column("media").to_pylist()
    return names


@contextmanager
def _media_errors(folder: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, KeyError, IndexError) as error:
        raise CorruptError(f"{folder / MEDIA} cannot be read: {error}") from None
