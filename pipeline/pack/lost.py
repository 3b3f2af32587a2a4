"""List the documents that rows do not hold whole: which, how many tokens stayed, how many are lost.

    documents   0: 5 tokens   1: 9 tokens   2: 20 tokens        capacity 8, overflow truncate
    pieces      0:0+5  1:0+8  2:0+8
    lost        {"dataset": "data/tokenized", "document": 1, "kept": 8, "lost": 1}
                {"dataset": "data/tokenized", "document": 2, "kept": 8, "lost": 12}

By the plan of the rows, window by window, whatever strategy made it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dataprep.pipeline.pack.corpus import Corpus
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.types import Offsets


class Lost(NamedTuple):
    """Documents of which tokens are lost."""

    document: Offsets  # i64[n], numbered through all datasets
    kept: Offsets  # i64[n]
    lost: Offsets  # i64[n], never 0


def find_lost(corpus: Corpus, windows: Iterable[DocumentPieces]) -> Iterator[Lost]:
    """Yield the lost documents of all windows, which have ascending documents; memory is that of
    one window."""
    first, carried = 0, 0  # the first document not told yet, and its tokens in windows before
    for pieces in windows:
        if not len(pieces.document):
            continue
        last = int(pieces.document.max())  # it may go on in the next window
        kept = _kept(pieces, first, last + 1 - first)
        # Pieces of a document share one token with the one before, in another window too.
        kept[0] += carried - 1 if carried and kept[0] else carried
        yield _lost(corpus, first, kept[:-1])
        first, carried = last, int(kept[-1])
    rest = np.zeros(corpus.num_documents - first, np.int64)
    rest[:1] = carried
    yield _lost(corpus, first, rest)


def _kept(pieces: DocumentPieces, first: int, count: int) -> Offsets:
    """Return how many tokens of each document are in pieces; neighbours share one token."""
    places = pieces.document - first
    tokens = np.bincount(places, weights=pieces.length - 1, minlength=count).astype(np.int64)
    return tokens + (np.bincount(places, minlength=count) > 0)


def _lost(corpus: Corpus, first: int, kept: Offsets) -> Lost:
    lost = corpus.lengths_of(np.arange(first, first + len(kept))) - kept
    assert not (lost < 0).any(), "rows hold more of a document than it has"
    found = np.flatnonzero(lost)
    return Lost(document=first + found, kept=kept[found], lost=lost[found])


def lost_lines(corpus: Corpus, found: Iterable[Lost]) -> Iterator[str]:
    """Yield a line of JSON for each document, numbered as in its own dataset."""
    counts = [manifest.counts["documents_written"] for manifest in corpus.manifests]
    starts = np.concatenate(([0], np.cumsum(counts)))
    names = [json.dumps(str(folder)) for folder in corpus.folders]
    for part in found:
        corpus.check_unchanged()
        dataset = np.searchsorted(starts, part.document, side="right") - 1
        columns = (dataset, part.document - starts[dataset], part.kept, part.lost)
        for i, document, kept, lost in zip(*(c.tolist() for c in columns), strict=True):
            yield (
                f'{{"dataset": {names[i]}, "document": {document}, "kept": {kept}, '
                f'"lost": {lost}}}\n'
            )
