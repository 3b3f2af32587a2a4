"""Pieces of documents, which rows are made of.

    document 4   0 1 2 3 4 5                      start 0, length 6
    document 5   0 1 2 . . . . . . 9 10 11 12 13   head 3, start 9, length 8

A conversation whose oldest turns are left out keeps what stands before them, so that what is kept
of it is one piece of two stretches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dataprep.pipeline.ragged import numbers_within, owner_of
from dataprep.pipeline.types import Mask, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPieces:
    """Pieces of documents, each from `start` on.

    A piece with a head is of two stretches: `head` tokens from the beginning of the document, then
    the others from `start` on.
    """

    document: Offsets  # i64[p]
    start: Offsets  # i64[p], the first token that is taken of the document, after the head
    length: Offsets  # i64[p], the head included
    head: Offsets | None = None  # i64[p], less than the length; None: 0 of all

    @property
    def begins_document(self) -> Mask:
        """Return which pieces begin with the first token of their document."""
        begins: Mask = self.start == 0
        return begins if self.head is None else begins | (self.head > 0)

    def __getitem__(self, key: Any) -> DocumentPieces:
        return DocumentPieces(
            document=self.document[key],
            start=self.start[key],
            length=self.length[key],
            head=None if self.head is None else self.head[key],
        )

    def stretches(self) -> tuple[DocumentPieces, Offsets]:
        """Return the pieces without heads, each head as a piece before; and the piece of each.

        >>> heads = {"head": np.array([0, 3])}
        >>> pieces = DocumentPieces(
        ...     document=np.array([4, 5]), start=np.array([0, 9]), length=np.array([6, 8]), **heads
        ... )
        >>> found, owner = pieces.stretches()
        >>> found.start.tolist(), found.length.tolist(), owner.tolist()
        ([0, 0, 9], [6, 3, 5], [0, 1, 1])
        """
        if self.head is None or not self.head.any():
            return replace(self, head=None), np.arange(len(self.document))
        count = 1 + (self.head > 0)
        owner, number = owner_of(count), numbers_within(count)
        is_head = number < count[owner] - 1
        head = self.head[owner]
        found = DocumentPieces(
            document=self.document[owner],
            start=np.where(is_head, 0, self.start[owner]),
            length=np.where(is_head, head, self.length[owner] - head),
        )
        return found, owner
