"""Choose the whole turns that are kept of conversations longer than a row.

    preamble 2 tokens, turns of 5, 4 and 3 tokens          0 2 7 11 14       capacity 10

    drop_oldest   the preamble, and as many of the newest turns as fit       0 … 2, 7 … 14
    cut           the preamble, and as many of the oldest turns as fit       0 … 7
    drop          nothing

A conversation of which no whole turn fits is left out: a cut never falls inside a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dataprep.configs.base import TurnsKept
from dataprep.pipeline.pack.strategies.overflow import Kept
from dataprep.pipeline.pack.strategies.plan import Ints, Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The turns of documents; the last turn of a document ends with it."""

    document: Ints  # i64[turns], ascending
    start: Ints  # i64[turns], ascending within a document; before the first is the preamble


def keep_turns(lengths: Lengths, turns: Turns, capacity: int, keep: TurnsKept) -> Kept:
    """Return what is kept of documents, all of which are longer than a row.

    >>> turns = Turns(document=np.array([0, 0, 0]), start=np.array([2, 7, 11]))
    >>> kept = keep_turns(np.array([14]), turns, 10, "drop_oldest")
    >>> kept.head.tolist(), kept.start.tolist(), kept.length.tolist()
    ([2], [7], [9])
    """
    assert (lengths > capacity).all(), "a document that fits is kept whole"
    return _WAYS[keep](lengths, turns, capacity)


def _newest(lengths: Lengths, turns: Turns, capacity: int) -> Kept:
    """Return the preamble with the last turns, from the first on with which it fits."""
    head = turns.start[np.searchsorted(turns.document, turns.document, side="left")]
    length = head + lengths[turns.document] - turns.start
    fits = np.flatnonzero(length <= capacity)
    document, first = np.unique(turns.document[fits], return_index=True)
    found = fits[first]
    return Kept(document=document, start=turns.start[found], length=length[found], head=head[found])


def _oldest(lengths: Lengths, turns: Turns, capacity: int) -> Kept:
    """Return the preamble with the first turns, up to the last that begins within a row."""
    is_first = np.append(True, turns.document[1:] != turns.document[:-1])[: len(turns.document)]
    ends = np.flatnonzero(~is_first & (turns.start <= capacity))  # of at least one turn
    document, last = np.unique(turns.document[ends][::-1], return_index=True)
    none = np.zeros(len(document), np.int64)
    length = turns.start[ends[::-1][last]]
    return Kept(document=document, start=none, length=length, head=none)


def _nothing(lengths: Lengths, turns: Turns, capacity: int) -> Kept:
    none = np.zeros(0, np.int64)
    return Kept(document=none, start=none, length=none, head=none)


_WAYS: Mapping[TurnsKept, Callable[[Lengths, Turns, int], Kept]] = {
    "drop_oldest": _newest,
    "cut": _oldest,
    "drop": _nothing,
}
