"""Documents as pieces of at most some tokens, one after another.

lengths   [5, 3, 9]     at most 4
pieces    4 1 | 3 | 4 4 1
"""

from __future__ import annotations

import numpy as np

from dataprep.pipeline.ragged import numbers_within, owner_of
from dataprep.pipeline.types import Offsets


def pieces_of(starts: Offsets, lengths: Offsets, most: int) -> tuple[Offsets, Offsets]:
    """Return where pieces of documents start and stop; one without tokens has none.

    >>> pieces_of(np.array([0, 6, 9]), np.array([5, 3, 0]), 4)
    (array([0, 4, 6]), array([4, 5, 9]))
    """
    counts = -(-lengths // most)
    owner = owner_of(counts)
    first = starts[owner] + numbers_within(counts) * most
    return first, np.minimum(first + most, (starts + lengths)[owner])


def cut(offsets: Offsets, most: int) -> Offsets:
    """Return where pieces of documents start, with the end behind; documents must not be empty.

    >>> cut(np.array([0, 5, 8, 17]), 4).tolist()
    [0, 4, 5, 8, 12, 16, 17]
    """
    starts, _ = pieces_of(offsets[:-1], np.diff(offsets), most)
    return np.append(starts, offsets[-1])


def num_cut(lengths: Offsets, most: int) -> int:
    """Return how many documents are longer than a piece."""
    return int(np.count_nonzero(lengths > most))
