"""Documents as rows of a batch: each alone in a row, padded to the width that is asked for.

    pieces [4, 9]  ─►  entries of the index          record, first token, length, runs of masks
                   ─►  bytes of the mapped shards    tokens, ends of runs
                   ─►  dense arrays                  tokens  a b c d 0 0      segments 1 1 1 1 0 0
                                                     loss    0 0 1 1 0 0      positions 0 1 2 3 0 0

The arrays are those of rows that `dataprep pack --strategy pad` makes, without the rows: loss as
in the document, but none on its first token, nor on padding. A view that predicts the first token,
too, asks for its own loss (`first_loss`), which only the first piece of a document has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.batching import AnyBatching, Grouped
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.expand import ABSENT, LOSS, Arrays, Request, at_places
from dataprep.loaders.gather import RowBytes, gather_head, gather_ranges
from dataprep.loaders.groups import LengthGroups
from dataprep.loaders.pieces import Pieces, Places
from dataprep.loaders.prefetch import stop_if_closed
from dataprep.loaders.schedule import Remainder
from dataprep.loaders.shards import open_document_shards
from dataprep.pipeline.errors import ConfigError, CorruptError, counted
from dataprep.pipeline.ragged import numbers_within, offsets_of, owner_of, ranges
from dataprep.pipeline.storage.documents import TOKEN_DTYPES, U32
from dataprep.pipeline.storage.entries import TokenizerEntry
from dataprep.pipeline.storage.manifest import TokenizedManifest
from dataprep.pipeline.storage.masks import MASKS, values_of
from dataprep.pipeline.types import Offsets

BAD_INDEX = (
    "the index of {folder} does not fit its shards; copy the dataset again, or make it again"
)


class DocumentRows:
    """The rows of a tokenized dataset, one for each piece; with `groups`, which make a batch."""

    one_document_a_row, pads_like_lwm = True, False

    def __init__(
        self,
        dataset: TokenizedDataset,
        batching: AnyBatching,
        *,
        more_columns: int,
        remainder: Remainder,
    ) -> None:
        self.dataset, self.about, self.folder = dataset, dataset.about, dataset.folder
        self.fingerprint = dataset.fingerprint
        self.masks = dataset.about.row_masks
        self.pad = dataset.about.tokenizer.pad or 0
        self.pieces = Pieces(dataset, batching, more_columns)
        if not len(self.pieces):
            raise ConfigError(f"{dataset.folder} has no documents, or none is left to be loaded")
        self.groups: LengthGroups | None = None
        if isinstance(batching, Grouped):
            self.groups = LengthGroups(self.pieces, batching, more_columns, remainder)
        if not len(self):
            raise ConfigError(
                f"{counted(len(self.pieces), 'document')} of {dataset.folder} fill no batch; set "
                "remainder='pad', or a smaller batch_size"
            )
        self._shards = open_document_shards(dataset.folder, dataset.about, dataset.verify)
        self._first_record = offsets_of([shard.num_records for shard in dataset.about.shards])
        self._dtype = TOKEN_DTYPES[dataset.about.token_dtype]

    @property
    def tokenizer(self) -> TokenizerEntry:
        return self.about.tokenizer

    def __len__(self) -> int:
        """Return how many places of a sequence an epoch takes: batches that were found, or rows."""
        return len(self.pieces) if self.groups is None else self.groups.num_batches

    def prepare(self) -> None:
        """Load what reads rows, before a thread does."""
        self._shards.fetch(np.zeros(0, np.int64))

    def will_need(self, rows: Offsets) -> None:
        """Start to read rows that are needed soon."""
        places, item = self.pieces.locate(rows), self._dtype.itemsize
        first = self._head_bytes + item * (places.entry["start"].astype(np.int64) + places.start)
        self._shards.will_need(self._records(places), (first, item * places.length))

    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        """Write piece rows[i] into row places[i] of `out`."""
        if not len(rows):
            return
        found = self.pieces.locate(rows)
        own, owner = np.unique(self._records(found), return_inverse=True)
        stored = self._shards.fetch(own).part(owner)
        stop_if_closed()
        try:
            reading = _Reading(self.about, self.masks, found, stored, request)
            reading.write(out, at_places(places, slice(None)), self.pad)
        except _MisfitError:
            self._shards.check()
            raise CorruptError(BAD_INDEX.format(folder=self.folder)) from None
        self._shards.check()

    @property
    def _head_bytes(self) -> int:
        return 4 * (2 + len(self.about.masks))

    def _records(self, places: Places) -> Offsets:
        """Return the record of each document, numbered over all shards."""
        records: Offsets = self._first_record[places.shard] + places.entry["record"]
        if (records >= self._first_record[places.shard + 1]).any():
            raise CorruptError(BAD_INDEX.format(folder=self.folder))
        return records


class _MisfitError(Exception):
    """What an index says is not in the record that it names."""


class _Reading:
    """The documents of a batch, as they lie in memory."""

    def __init__(
        self,
        about: TokenizedManifest,
        masks: Sequence[str],
        places: Places,
        stored: RowBytes,
        request: Request,
    ) -> None:
        self._about, self._masks, self._places = about, masks, places
        self._stored, self._request = stored, request
        shifts = (*request.tokens, *request.segments, *request.positions)
        marks = (shift for _, shift in (*request.masks, *request.weights))
        self._capacity = request.start + request.width + max((*shifts, *marks), default=0)
        self._length = np.minimum(places.length, self._capacity)
        self._begin = places.entry["start"].astype(np.int64) + places.start  # in the record
        self._head = gather_head(stored, 4 * (2 + len(about.masks))).astype(np.int64)
        if (self._begin + places.length > self._head[:, 1]).any():
            raise _MisfitError

    def write(self, out: Arrays, at: slice | Offsets, pad: int) -> None:
        request, start, width = self._request, self._request.start, self._request.width
        if request.tokens:
            tokens = self._tokens(pad)
            for target, shift in zip(out.tokens, request.tokens, strict=True):
                target[at] = tokens[:, start + shift : start + shift + width]
        columns = np.arange(start, self._capacity, dtype=np.int32)
        inside = (columns < self._length.astype(np.int32)[:, None]).astype(np.int32)
        for target, shift in zip(out.segments, request.segments, strict=True):
            target[at] = inside[:, shift : shift + width]
        for target, shift in zip(out.positions, request.positions, strict=True):
            target[at] = columns[shift : shift + width] * inside[:, shift : shift + width]
        for wanted, arrays in ((request.masks, out.masks), (request.weights, out.weights)):
            dense = {number: self._dense(number) for number, _ in wanted if number != ABSENT}
            for (number, shift), target in zip(wanted, arrays, strict=True):
                if number == ABSENT:
                    target[at] = arrays is out.weights
                else:
                    target[at] = dense[number][:, start + shift : start + shift + width]

    def _tokens(self, pad: int) -> NDArray[Any]:
        """Return the tokens of each document, then padding: u16|u32[documents, capacity]."""
        dtype = TOKEN_DTYPES[self._about.token_dtype]
        tokens = np.full((len(self._length), self._capacity), pad, dtype)
        first = 4 * self._head.shape[1] + dtype.itemsize * self._begin
        places = np.arange(len(tokens)) * self._capacity * dtype.itemsize
        target = tokens.view(np.uint8).reshape(-1)
        gather_ranges(self._stored, first, dtype.itemsize * self._length, target, places)
        return tokens

    def _dense(self, number: int) -> NDArray[Any]:
        """Return a mask of each document, then its default: [documents, capacity]."""
        mask = self._masks[number]
        kind = MASKS[mask]
        first, count = (
            self._places.entry[f"{mask}_{part}"].astype(np.int64) for part in ("first", "runs")
        )
        ends = self._numbers(mask, first, count, 0)
        owner, place = owner_of(count), numbers_within(count)
        if kind.has_values:
            values = values_of(self._numbers(mask, first, count, 1), kind)
        else:
            values = (first[owner] + place) % 2 == 1
        clipped = np.clip(ends - self._begin[owner], 0, self._length[owner])
        # A part more for each document: its padding.
        parts = offsets_of(count + 1)
        edges = np.full(parts[-1], self._capacity)
        marks = np.full(parts[-1], kind.default)
        runs = ranges(parts[:-1], count)
        edges[runs], marks[runs] = clipped, values
        before = np.roll(edges, 1)
        before[parts[:-1]] = 0
        if (edges < before).any() or (edges[parts[1:] - 2] != self._length).any():
            raise _MisfitError
        dense = np.repeat(marks, edges - before).reshape(-1, self._capacity)
        if number == LOSS:
            is_own = self._request.first_loss & (self._places.start == 0)
            dense[:, 0] &= is_own
        return dense

    def _numbers(self, mask: str, first: Offsets, count: Offsets, behind: int) -> Offsets:
        """Return the numbers [first, first + count) of a mask, or those that stand behind all of
        them, of all documents, one after another."""
        number = self._about.masks.index(mask)
        of_mask = self._head[:, 2 + number]
        if (first + count > of_mask).any():
            raise _MisfitError
        each = np.array([MASKS[name].numbers for name in self._about.masks[:number]], np.int64)
        token_bytes = self._head[:, 1] * TOKEN_DTYPES[self._about.token_dtype].itemsize
        place = 4 * self._head.shape[1] + token_bytes + -token_bytes % 4
        place += 4 * (self._head[:, 0] + self._head[:, 2 : 2 + number] @ each)
        place += 4 * (first + behind * of_mask)
        numbers = np.empty(int(count.sum()), U32)
        targets = 4 * offsets_of(count)[:-1]
        gather_ranges(self._stored, place, 4 * count, numbers.view(np.uint8), targets)
        return numbers.astype(np.int64)
