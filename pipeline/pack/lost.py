"""List the documents that rows do not hold whole: which, how many tokens stayed, how many are lost.

    documents   0: 5 tokens   1: 9 tokens   2: 20 tokens        capacity 8, overflow truncate
    pieces      0:0+5  1:0+8  2:0+8
    lost        {"dataset": "data/tokenized", "document": 1, "kept": 8, "lost": 1}
                {"dataset": "data/tokenized", "document": 2, "kept": 8, "lost": 12}

By what is in the rows, window by window, whatever strategy planned them: a document is lost also
with a row that has no target, if such rows are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.selection import DocumentSelection
from dataprep.pipeline.types import Offsets


class Lost(NamedTuple):
    """Documents of which tokens are lost, and how many of their neighbours are split."""

    document: Offsets  # i64[n], numbered through all datasets
    kept: Offsets  # i64[n]
    lost: Offsets  # i64[n], never 0
    num_split: int  # documents of which nothing is lost, but no row has all


class _Held(NamedTuple):
    """What rows hold of documents that follow each other."""

    kept: Offsets  # i64[n], tokens
    longest: Offsets  # i64[n], tokens of its longest piece
    stop: int  # of the last piece of the last document


def find_lost(
    corpus: Corpus, windows: Iterable[DocumentPieces], selection: DocumentSelection | None = None
) -> Iterator[Lost]:
    """Yield the lost documents of all windows, which have ascending documents; memory is that of
    one window. Documents that are not selected are not lost."""
    first, last = 0, _Held(np.zeros(1, np.int64), np.zeros(1, np.int64), 0)
    for pieces in windows:
        if not len(pieces.document):
            continue
        stop = int(pieces.document.max()) + 1  # its last document may go on in the next window
        held = _held(pieces, first, stop - first, last)
        yield _lost(corpus, selection, first, held.kept[:-1], held.longest[:-1])
        first, last = stop - 1, _Held(held.kept[-1:], held.longest[-1:], held.stop)
    rest = np.zeros((2, corpus.num_documents - first), np.int64)
    rest[:, :1] = last.kept, last.longest
    yield _lost(corpus, selection, first, *rest)


def _held(pieces: DocumentPieces, first: int, count: int, last: _Held) -> _Held:
    """Return what rows hold of `count` documents; of the first, some was in windows before."""
    ordered = pieces[np.lexsort((pieces.start, pieces.document))]
    place, stops = ordered.document - first, ordered.start + ordered.length
    # A piece may share its first token with the one before, if that is in a row.
    goes_on = place == np.append(0, place[:-1])
    shared = np.maximum(np.append(last.stop, stops[:-1]) - ordered.start, 0) * goes_on
    kept = np.bincount(place, ordered.length - shared, count).astype(np.int64)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, place, ordered.length)
    kept[0] += last.kept[0]
    longest[0] = max(longest[0], last.longest[0])
    return _Held(kept, longest, int(stops[-1]))


def _lost(
    corpus: Corpus, selection: DocumentSelection | None, first: int, kept: Offsets, longest: Offsets
) -> Lost:
    document = np.arange(first, first + len(kept))
    lost = corpus.lengths_of(document) - kept
    if selection is not None:
        lost[~selection.has(document)] = 0
    assert not (lost < 0).any(), "rows hold more of a document than it has"
    found = np.flatnonzero(lost)
    return Lost(
        document=first + found,
        kept=kept[found],
        lost=lost[found],
        num_split=int(((longest < kept) & (lost == 0)).sum()),
    )


def lost_lines(corpus: Corpus, found: Iterable[Lost]) -> Iterator[str]:
    """Yield a line of JSON for each document, numbered as in its own dataset."""
    counts = [manifest.counts["documents_written"] for manifest in corpus.manifests]
    starts = np.concatenate(([0], np.cumsum(counts)))
    names = [json.dumps(str(folder)) for folder in corpus.folders]
    with corpus.unchanged():
        for part in found:
            dataset = np.searchsorted(starts, part.document, side="right") - 1
            columns = (dataset, part.document - starts[dataset], part.kept, part.lost)
            for i, document, kept, lost in zip(*(c.tolist() for c in columns), strict=True):
                yield (
                    f'{{"dataset": {names[i]}, "document": {document}, "kept": {kept}, '
                    f'"lost": {lost}}}\n'
                )
