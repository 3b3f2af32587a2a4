"""Plan any number of documents in bounded memory: a window of them at a time.

The plan of a window depends only on its documents, and these only on the lengths and the size of a
window, never on the chunks that lengths come in. Rows do not cross windows, except in `concat`,
which is one stream whatever the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.pack.strategies.plan import Lengths, RowPlan, checked

# Pieces in a window. Planning takes about 100 bytes for each. A few million cost at most one more
# row per window, and rows whose documents are near each other are faster to copy.
DEFAULT_WINDOW = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    index: int
    first_document: int
    lengths: Lengths  # of documents first_document, first_document + 1, …
    is_last: bool


def cut_windows(
    chunks: Iterable[ArrayLike], capacity: int, *, window: int = DEFAULT_WINDOW
) -> Iterator[Window]:
    """Yield windows of at most `window` pieces; a document with more is a window of its own.

    A document counts as 1 + length // (capacity - 1) pieces, so that a few very long documents
    fill a window as well as many short ones.
    """
    if window < 1:
        raise ConfigError(f"the packing window must be at least 1 piece, got {window}")
    parts: list[Lengths] = []
    num_pieces = index = first_document = 0

    def finished(is_last: bool) -> Window:
        lengths = np.concatenate(parts)
        return Window(index=index, first_document=first_document, lengths=lengths, is_last=is_last)

    for chunk in chunks:
        rest = checked(chunk, capacity)
        while len(rest):
            ends = num_pieces + np.cumsum(1 + rest[:window] // (capacity - 1))
            size = int(np.searchsorted(ends, window, "right"))
            if not size and parts:
                yield finished(is_last=False)
                index, first_document = index + 1, first_document + sum(map(len, parts))
                parts, num_pieces = [], 0
                continue
            size = max(1, size)
            parts.append(rest[:size])
            num_pieces, rest = int(ends[size - 1]), rest[size:]
    if parts:
        yield finished(is_last=True)


def plan_windows(windows: Iterable[Window], plan: Callable[[Window], RowPlan]) -> Iterator[RowPlan]:
    """Yield the plans of all windows, with documents numbered across windows.

    >>> from dataprep.pipeline.pack.strategies.best_fit import best_fit
    >>> windows = cut_windows([np.array([5, 3]), np.array([7])], capacity=8, window=2)
    >>> plans = plan_windows(windows, lambda w: best_fit(w.lengths, 8, window=w.index))
    >>> [plan.document.tolist() for plan in plans]
    [[0, 1], [2]]
    """
    for window in windows:
        yield numbered_through(plan(window), window.first_document)


def numbered_through(plan: RowPlan, first_document: int) -> RowPlan:
    return replace(plan, document=plan.document + first_document) if first_document else plan
