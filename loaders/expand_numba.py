"""The same as `expand` and `expand_documents`, compiled by numba: one pass over all rows.

    a row     head │ tokens │ ends 3 7 │ loss runs 1 3 5 7 8
    out       tokens, segments, positions and masks of one row, then the next row

Each row is in the cache once, and the results equal those of NumPy to the bit. The loops are those
of `kernels` and `document_kernels`. Numba compiles at the first call on a machine, which takes some
seconds, and keeps the code beside these files or in the user's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dataprep.loaders import document_kernels, kernels
from dataprep.loaders.expand import (
    BAD_ENDS,
    BAD_HEAD,
    BAD_RUNS,
    BAD_WEIGHT,
    Arrays,
    Request,
)
from dataprep.loaders.expand_documents import DocumentLayout, MisfitError, check_sizes
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.pieces import Places
from dataprep.pipeline.errors import CorruptError
from dataprep.pipeline.storage.documents import U32
from dataprep.pipeline.storage.masks import weights_of
from dataprep.pipeline.storage.rows import RowLayout
from dataprep.pipeline.types import Offsets

# Every float16 by its bits: numba has no such type.
_WEIGHTS = weights_of(np.arange(1 << 16)).astype(np.float32)
_CAUSES = {
    kernels.BAD_HEAD: BAD_HEAD,
    kernels.BAD_ENDS: BAD_ENDS,
    kernels.BAD_RUNS: BAD_RUNS,
    kernels.BAD_WEIGHT: BAD_WEIGHT,
}


def expand(
    rows: RowBytes, layout: RowLayout, request: Request, out: Arrays, places: Offsets
) -> None:
    """Write row i into row places[i] of `out`; raise a CorruptError if a row contradicts itself."""
    largest = int(rows.size.max(initial=layout.tail_start)) - layout.tail_start
    tail = np.empty(max(0, largest) // layout.ends.itemsize, layout.ends)
    head, tokens = _room(len(layout.masks), layout.tokens, request)
    cause = kernels.expand_rows(
        (rows.memory, rows.first, rows.size, rows.in_blocks),
        places,
        (layout.capacity, layout.head_bytes, layout.tail_start),
        (request.start, request.width),
        tuple((array, array.view(np.uint8)) for array in (head, tokens, tail)),
        _targets(request, out),
        (np.array(layout.numbers, np.int64), _WEIGHTS, request.first_loss),
    )
    if cause != kernels.FITS:
        raise CorruptError(_CAUSES[cause])


def expand_documents(
    stored: RowBytes,
    found: Places,
    layout: DocumentLayout,
    request: Request,
    out: Arrays,
    places: Offsets,
) -> None:
    """Write piece i into row places[i] of `out`; raise a MisfitError if it does not fit its
    record."""
    check_sizes(stored, layout)
    tail = np.empty(int(stored.size.max(initial=0)) // U32.itemsize, U32)
    head, tokens = _room(len(layout.numbers), layout.tokens, request)
    entries = found.entry.view(U32).reshape(len(places), found.entry.itemsize // U32.itemsize)
    fits = document_kernels.expand_documents(
        (stored.memory, stored.first, stored.size, stored.in_blocks),
        (entries, found.start, found.length),
        places,
        (request.start, request.width),
        tuple((array, array.view(np.uint8)) for array in (head, tokens, tail)),
        _targets(request, out),
        (layout.places, layout.columns, layout.numbers, _WEIGHTS, layout.pad, request.first_loss),
    )
    if not fits:
        raise MisfitError


def _room(num_masks: int, dtype: Any, request: Request) -> tuple[Any, Any]:
    """Return memory for the head of one row, and for the tokens of it that are asked for."""
    width = request.width + max(request.tokens) if request.tokens else 0
    return np.empty(2 + num_masks, U32), np.empty(width, dtype)


def _targets(request: Request, out: Arrays) -> tuple[Any, ...]:
    """Return the arrays of a batch, each with what is asked for of it."""
    return (
        (out.tokens, np.array(request.tokens, np.int64)),
        (out.segments, np.array(request.segments, np.int64)),
        (out.positions, np.array(request.positions, np.int64)),
        (out.masks, np.array(request.masks, np.int64).reshape(-1, 2)),
        (out.weights, np.array(request.weights, np.int64).reshape(-1, 2)),
    )
