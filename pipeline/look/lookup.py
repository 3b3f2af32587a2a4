"""Find the documents of a dataset by file and line, and the rows of a packed one that hold them.

    --doc books.jsonl:17  ─►  document 151 of data/tokenized  ─►  row 128, segment 2: tokens 0..129

A packed dataset knows this by itself; the tokenized ones need not be there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.look.listing import pieces_of
from dataprep.pipeline.look.origins import Origin, RowOrigins
from dataprep.pipeline.storage.manifest import PackedManifest, TokenizedManifest
from dataprep.pipeline.storage.origins import Origins, origins_of
from dataprep.pipeline.types import Offsets

MOST_NAMED = 3  # files in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A piece of a document in a row."""

    row: int
    segment: int  # of the row, from 1
    start: int  # of its tokens in the document
    length: int

    def __str__(self) -> str:
        tokens = f"tokens {self.start}..{self.start + self.length}"
        return f"row {self.row}, segment {self.segment}: {tokens}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocument:
    """A document of a packed dataset, and where it is."""

    dataset: str
    document: int  # within the dataset
    origin: Origin
    places: tuple[Place, ...]  # in the order of its tokens; none: packing left it out


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """A record as messages name it: line 17 of books.jsonl."""

    file: str
    line: int  # from 1


def parse_doc(text: str) -> int | FileLine:
    """
    >>> parse_doc("-1"), parse_doc("data/a.jsonl:17")
    (-1, FileLine(file='data/a.jsonl', line=17))
    """
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    file, _, line = text.rpartition(":")
    if not file or not re.fullmatch(r"[0-9]{1,18}", line) or not int(line):
        raise ConfigError(
            f"--doc {text}: must be the number of a document, from 0, or FILE:LINE with lines "
            "(or rows) from 1, such as books.jsonl:17"
        )
    return FileLine(file=file, line=int(line))


def documents_at(
    folder: Path, manifest: TokenizedManifest | PackedManifest, wanted: FileLine
) -> Offsets:
    """Return the numbers of the documents that were made of a record, through all datasets."""
    origins = origins_of(folder, manifest)
    files = _files_named(origins, wanted.file, folder)
    found = [origins.documents_of(file, wanted.line - 1) for file in files]
    documents = np.concatenate(found)
    if not len(documents):
        raise ConfigError(
            f"{folder} has no document of line {wanted.line} of {origins.files[files[0]].path}: "
            "the file is shorter, or that record is blank, empty or bad; errors.jsonl of the "
            "tokenized dataset lists those that were quarantined"
        )
    return documents


def find_in_rows(
    folder: Path, manifest: PackedManifest, wanted: int | FileLine
) -> list[FoundDocument]:
    """Return the documents of a packed dataset that are meant, each with its rows."""
    if isinstance(wanted, FileLine):
        documents = documents_at(folder, manifest, wanted)
    else:
        documents = np.array([_numbered(folder, manifest, wanted)])
    found = RowOrigins(folder, manifest).of(documents)
    pieces = pieces_of(folder, manifest)
    return [
        FoundDocument(dataset=dataset, document=own, origin=origin, places=_places(pieces, number))
        for number, (dataset, own, origin) in zip(documents.tolist(), found, strict=True)
    ]


def _places(pieces: Sequence[Offsets], document: int) -> tuple[Place, ...]:
    documents, lengths, rows, starts = pieces
    own = np.flatnonzero(documents == document)
    own = own[np.argsort(starts[own], kind="stable")]
    segments = own - np.searchsorted(rows, rows[own]) + 1
    columns = (rows[own], segments, starts[own], lengths[own])
    return tuple(
        Place(row=row, segment=segment, start=start, length=length)
        for row, segment, start, length in zip(*(c.tolist() for c in columns), strict=True)
    )


def _numbered(folder: Path, manifest: PackedManifest, number: int) -> int:
    """Return the number of a document; it must be plain of which dataset it is."""
    # A dataset that grows is packed part by part from one that grows: its numbers go through.
    several = max((part.sources for part in manifest.parts), default=len(manifest.sources))
    if several > 1:
        raise ConfigError(
            f"--doc {number}: {folder} was packed from {several} datasets, each with "
            "numbers of its own; name the document by its record: --doc FILE:LINE"
        )
    count = sum(source.records for source in manifest.sources)
    if not -count <= number < count:
        raise ConfigError(f"--doc {number}: {folder} has {counted(count, 'document')}, from 0 on")
    return number % count


def _files_named(origins: Origins, name: str, folder: Path) -> list[int]:
    """Return the files that a name means: a path, or the end of one that no other file has."""
    paths = [file.path for file in origins.files]
    for wanted in (name, os.path.abspath(name)):
        exact = [i for i, path in enumerate(paths) if path == wanted]
        if exact:
            return exact
    ends = [i for i, path in enumerate(paths) if path.endswith(f"/{name.removeprefix('./')}")]
    different = sorted({paths[i] for i in ends})
    if len(different) == 1:
        return ends
    some = different or sorted(set(paths))
    shown = ", ".join(some[:MOST_NAMED]) + (" …" if len(some) > MOST_NAMED else "")
    if different:
        raise ConfigError(f"--doc: {name} may be any of {shown}; name more of its path")
    raise ConfigError(f"--doc: {folder} was not made from {name}, but from {shown}")
