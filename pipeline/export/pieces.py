"""Documents as pieces of at most some tokens, one after another.

lengths   [5, 3, 9]     at most 4
pieces    4 1 | 3 | 4 4 1
"""

from __future__ import annotations

import numpy as np

from dataprep.pipeline.ragged import numbers_within, owner_of
from dataprep.pipeline.types import Offsets


def cut(offsets: Offsets, most: int) -> Offsets:
    """Return where pieces of documents start, with the end behind; documents must not be empty.

    >>> cut(np.array([0, 5, 8, 17]), 4).tolist()
    [0, 4, 5, 8, 12, 16, 17]
    """
    lengths = np.diff(offsets)
    counts = -(-lengths // most)
    if not len(counts) or int(counts.max()) == 1:
        return offsets
    starts = offsets[:-1][owner_of(counts)] + numbers_within(counts) * most
    return np.append(starts, offsets[-1])


def num_cut(offsets: Offsets, most: int) -> int:
    """Return how many documents are longer than a piece."""
    return int(np.count_nonzero(np.diff(offsets) > most))
