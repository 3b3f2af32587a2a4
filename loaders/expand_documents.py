"""Stored documents -> the dense arrays of a batch, with numpy alone.

    piece    4 tokens from token 2 of its record on           tokens  a b c d 0 0
    loss     runs 1 4 6 of the record end at -1 2 4 of it     mask    1 1 0 0 0 0

Each document is alone in its row, from the first column on. `expand_numba` does the same, compiled,
where numba is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.expand import (
    ABSENT,
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    LOSS,
    Arrays,
    Request,
    at_places,
)
from dataprep.loaders.gather import RowBytes, gather_head, gather_ranges
from dataprep.loaders.pieces import Places
from dataprep.pipeline.ragged import numbers_within, offsets_of, owner_of, ranges
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, U32, index_dtype
from dataprep.pipeline.storage.manifest import TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, values_of
from dataprep.pipeline.types import Offsets


class MisfitError(Exception):
    """What the index says of a document is not so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLayout:
    """How the records of a tokenized dataset are to be read."""

    tokens: np.dtype[Any]
    masks: tuple[str, ...]  # that rows have, `loss` first
    places: Offsets  # i64[masks], of each among those that records have
    columns: Offsets  # i64[masks], where an entry of the index has the first of its runs
    numbers: Offsets  # i64, how many numbers a run has, of all that records have
    pad: int

    @staticmethod
    def of_manifest(about: TokenizedManifest) -> DocumentLayout:
        names = index_dtype(about.masks).names or ()
        return DocumentLayout(
            tokens=TOKEN_DTYPES[about.token_dtype],
            masks=about.row_masks,
            places=np.array([about.masks.index(mask) for mask in about.row_masks], np.int64),
            columns=np.array([names.index(f"{mask}_first") for mask in about.row_masks], np.int64),
            numbers=np.array([MASKS[mask].numbers for mask in about.masks], np.int64),
            pad=about.tokenizer.pad or 0,
        )

    @property
    def head_bytes(self) -> int:
        return U32.itemsize * (2 + len(self.numbers))


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
    if len(stored):
        _Reading(stored, found, layout, request).write(out, at_places(places, slice(None)))


def check_sizes(stored: RowBytes, layout: DocumentLayout) -> None:
    """Raise a MisfitError unless each record has a head: what is behind may be nobody's memory."""
    if (stored.size < layout.head_bytes).any():
        raise MisfitError


class _Reading:
    """The documents of a batch, as they lie in memory."""

    def __init__(
        self, stored: RowBytes, found: Places, layout: DocumentLayout, request: Request
    ) -> None:
        self._stored, self._found, self._layout, self._request = stored, found, layout, request
        shifts = (*request.tokens, *request.segments, *request.positions)
        marks = (shift for _, shift in (*request.masks, *request.weights))
        self._capacity = request.start + request.width + max((*shifts, *marks), default=0)
        self._length = np.minimum(found.length, self._capacity)
        check_sizes(stored, layout)
        self._head = gather_head(stored, layout.head_bytes).astype(np.int64)
        token_bytes = self._head[:, 1] * layout.tokens.itemsize
        self._tail = layout.head_bytes + token_bytes + -token_bytes % U32.itemsize
        numbers = self._head[:, 0] + self._head[:, 2:] @ layout.numbers
        is_whole = self._tail + U32.itemsize * numbers == stored.size
        if not is_whole.all() or (found.begin + found.length > self._head[:, 1]).any():
            raise MisfitError

    def write(self, out: Arrays, at: slice | Offsets) -> None:
        request, start, width = self._request, self._request.start, self._request.width
        if request.tokens:
            tokens = self._tokens()
            for target, shift in zip(out.tokens, request.tokens, strict=True):
                target[at] = tokens[:, start + shift : start + shift + width]
        columns = np.arange(start, self._capacity, dtype=np.int32)
        inside = (columns < self._length.astype(np.int32)[:, None]).astype(np.int32)
        for target, shift in zip(out.segments, request.segments, strict=True):
            target[at] = inside[:, shift : shift + width]
        for target, shift in zip(out.positions, request.positions, strict=True):
            target[at] = columns[shift : shift + width] * inside[:, shift : shift + width]
        # All masks are checked, wanted or not: damage is an error whatever the view.
        dense = [self._dense(number) for number in range(len(self._layout.masks))]
        for wanted, arrays in ((request.masks, out.masks), (request.weights, out.weights)):
            for (number, shift), target in zip(wanted, arrays, strict=True):
                if number == ABSENT:
                    target[at] = arrays is out.weights
                else:
                    target[at] = dense[number][:, start + shift : start + shift + width]

    def _tokens(self) -> NDArray[Any]:
        """Return the tokens of each document, then padding: u16|u32[documents, capacity]."""
        layout, item = self._layout, self._layout.tokens.itemsize
        tokens = np.full((len(self._length), self._capacity), layout.pad, layout.tokens)
        first = layout.head_bytes + item * self._found.begin
        places = np.arange(len(tokens)) * self._capacity * item
        target = tokens.view(np.uint8).reshape(-1)
        gather_ranges(self._stored, first, item * self._length, target, places)
        return tokens

    def _dense(self, number: int) -> NDArray[Any]:
        """Return a mask of each document, then its default: [documents, capacity]."""
        mask = self._layout.masks[number]
        kind = MASKS[mask]
        first, count = self._found.runs(mask)
        ends = self._numbers(number, first, count, 0)
        owner, place = owner_of(count), numbers_within(count)
        if kind.is_weight:
            bits = self._numbers(number, first, count, 1)
            if ((bits < LEAST_WEIGHT) | (bits > LARGEST_WEIGHT)).any():
                raise MisfitError
            values = values_of(bits, kind)
        else:
            values = (first[owner] + place) % 2 == 1
        clipped = np.clip(ends - self._found.begin[owner], 0, self._found.length[owner])
        # A part more for each document: its padding.
        parts = offsets_of(count + 1)
        edges = np.repeat(self._found.length, count + 1)
        marks = np.full(parts[-1], kind.default)
        runs = ranges(parts[:-1], count)
        edges[runs], marks[runs] = clipped, values
        before = np.roll(edges, 1)
        before[parts[:-1]] = 0
        if (edges < before).any() or not count.all():
            raise MisfitError
        if (edges[parts[1:] - 2] != self._found.length).any():
            raise MisfitError
        edges[parts[1:] - 1] = self._capacity
        np.minimum(edges, self._capacity, out=edges)
        np.minimum(before, self._capacity, out=before)
        dense = np.repeat(marks, edges - before).reshape(-1, self._capacity)
        if number == LOSS:
            dense[:, 0] &= self._request.first_loss & (self._found.start == 0)
        return dense

    def _numbers(self, number: int, first: Offsets, count: Offsets, behind: int) -> Offsets:
        """Return the numbers [first, first + count) of a mask, or those that stand behind all of
        them, of all documents, one after another."""
        place = int(self._layout.places[number])
        of_mask = self._head[:, 2 + place]
        if (first + count > of_mask).any():
            raise MisfitError
        before = self._head[:, 0] + self._head[:, 2 : 2 + place] @ self._layout.numbers[:place]
        start = self._tail + U32.itemsize * (before + first + behind * of_mask)
        numbers = np.empty(int(count.sum()), U32)
        targets = U32.itemsize * offsets_of(count)[:-1]
        gather_ranges(self._stored, start, U32.itemsize * count, numbers.view(np.uint8), targets)
        return numbers.astype(np.int64)
