"""The documents that rows are planned of: all of a corpus, or those that are selected.

corpus      documents 0 1 2 3 4 5      selected 0, 2, 4
plan        documents 0 1 2            the same rows as of a corpus without the others
rows        documents 0 2 4            as the datasets number them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from dataprep.pipeline.pack.corpus import Corpus, MaskParts
from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.selection import DocumentSelection
from dataprep.pipeline.pack.strategies import RowPlan
from dataprep.pipeline.types import Offsets


class PlannedDocuments(Protocol):
    """Documents, numbered through, by what plans need to know of them; a corpus is such."""

    @property
    def num_documents(self) -> int: ...

    @property
    def num_shards(self) -> int: ...

    @property
    def masks(self) -> tuple[str, ...]: ...

    def lengths(self, shard: int) -> Offsets: ...

    def lengths_of(self, document: Offsets) -> Offsets: ...

    def mask_parts(self, mask: str, pieces: DocumentPieces) -> MaskParts: ...

    def tag_lengths(self, mask: str, document: Offsets) -> tuple[Offsets, Offsets]: ...


class SelectedDocuments:
    """The selected documents of a corpus, as if there were no others."""

    def __init__(self, corpus: Corpus, selection: DocumentSelection) -> None:
        self._corpus, self._selection = corpus, selection
        self._numbers = np.flatnonzero(selection.numbers == selection.value)  # in the corpus
        self.num_documents, self.num_shards = len(self._numbers), corpus.num_shards
        self.masks = corpus.masks

    def lengths(self, shard: int) -> Offsets:
        """Return the lengths of those in a shard."""
        is_selected = self._selection.has(self._corpus.documents_of(shard))
        return self._corpus.lengths(shard)[is_selected]

    def lengths_of(self, document: Offsets) -> Offsets:
        return self._corpus.lengths_of(self._numbers[document])

    def mask_parts(self, mask: str, pieces: DocumentPieces) -> MaskParts:
        own = replace(pieces, document=self._numbers[pieces.document])
        return self._corpus.mask_parts(mask, own)

    def tag_lengths(self, mask: str, document: Offsets) -> tuple[Offsets, Offsets]:
        return self._corpus.tag_lengths(mask, self._numbers[document])

    def numbered(self, plans: Iterable[RowPlan]) -> Iterator[RowPlan]:
        """Yield plans of these documents with the numbers that the corpus has for them."""
        for plan in plans:
            yield replace(plan, document=self._numbers[plan.document])


def planned_of(corpus: Corpus) -> Corpus | SelectedDocuments:
    """Return the documents that are packed."""
    chosen = corpus.selection
    return corpus if chosen is None else SelectedDocuments(corpus, chosen)
