"""Tokens of the first documents of a corpus, and a length for rows that suits them.

tokens of documents     40, 112, 830, 1,900, …
95 % have at most 1,700 ─► rows of 2,048: at 1,024 only 88 % fit, at 4,096 all but 1 %
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHORTEST, LONGEST = 512, 32768
WHOLE = 0.95  # of the documents must fit a row

Lengths = NDArray[Any]  # i64[documents]


def suggested_length(corpora: Sequence[Lengths]) -> int:
    """Return the shortest power of two at which nearly all documents of every corpus fit a row.

    >>> suggested_length([np.array([40, 800, 900]), np.array([100, 1700])])
    2048
    """
    length = SHORTEST
    while length < LONGEST and any(share_at(length, one) < WHOLE for one in corpora):
        length *= 2
    return length


def share_at(seq_len: int, lengths: Lengths) -> float:
    """Return the share of documents that are whole in rows of this length, which have one more."""
    return float(np.mean(lengths <= seq_len + 1)) if len(lengths) else 1.0


def shares_around(seq_len: int, lengths: Lengths) -> Mapping[int, float]:
    """Return the share of whole documents at half the length, at it and at double.

    >>> shares_around(1024, np.array([500, 700, 1500, 9000]))
    {512: 0.25, 1024: 0.5, 2048: 0.75}
    """
    return {n: share_at(n, lengths) for n in (seq_len // 2, seq_len, seq_len * 2)}
