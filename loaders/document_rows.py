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

from collections.abc import Callable
from functools import cache

import numpy as np

from dataprep.loaders.batching import AnyBatching, Grouped
from dataprep.loaders.documents import TokenizedDataset
from dataprep.loaders.expand import Arrays, Request
from dataprep.loaders.expand_documents import DocumentLayout, MisfitError
from dataprep.loaders.gather import RowBytes
from dataprep.loaders.groups import LengthGroups
from dataprep.loaders.packed import all_of_a_row, empty_arrays
from dataprep.loaders.pieces import Pieces, Places
from dataprep.loaders.prefetch import stop_if_closed
from dataprep.loaders.schedule import Remainder
from dataprep.loaders.shards import Shards, open_document_shards
from dataprep.pipeline.errors import ConfigError, CorruptError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.entries import TokenizerEntry
from dataprep.pipeline.types import Offsets

Expand = Callable[[RowBytes, Places, DocumentLayout, Request, Arrays, Offsets], None]
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
        self._layout = DocumentLayout.of_manifest(dataset.about)
        self.pad = self._layout.pad
        self.pieces = Pieces(dataset, batching, more_columns)
        if not len(self.pieces):
            raise ConfigError(f"{dataset.folder} has no documents, or none is left to be loaded")
        self.groups: LengthGroups | None = None
        if isinstance(batching, Grouped):
            self.groups = LengthGroups(self.pieces, batching, more_columns, remainder)
        if not len(self):
            raise ConfigError(
                f"the documents of {dataset.folder} ({len(dataset):,}) fill no batch; set "
                "remainder='pad', or a smaller batch_size"
            )
        self._shards = dataset.fetched or open_document_shards(
            dataset.folder, dataset.about, dataset.verify
        )
        self._first_record = offsets_of([shard.num_records for shard in dataset.about.shards])

    @property
    def tokenizer(self) -> TokenizerEntry:
        return self.about.tokenizer

    def __len__(self) -> int:
        """Return how many places of a sequence an epoch takes: batches that were found, or rows."""
        return len(self.pieces) if self.groups is None else self.groups.num_batches

    def prepare(self) -> None:
        """Load and compile what reads rows, before a thread does: see `PackedDataset.prepare`."""
        none, request = np.zeros(0, np.int64), all_of_a_row(0, 1, self.masks, self.masks)
        found, stored = self.pieces.locate(none), self._shards.fetch(none)
        out = empty_arrays(request, 0)
        fastest_expand_documents()(stored, found, self._layout, request, out, none)

    def stored(self, rows: Offsets) -> tuple[Shards, Offsets]:
        """Return what reads these pieces, and the numbers of their records there."""
        return self._shards, self._records(self.pieces.locate(rows))

    def will_need(self, rows: Offsets) -> None:
        """Start to read rows that are needed soon."""
        places, item = self.pieces.locate(rows), self._layout.tokens.itemsize
        first = self._layout.head_bytes + item * places.begin
        self._shards.will_need(self._records(places), (first, item * places.length))

    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        """Write piece rows[i] into row places[i] of `out`."""
        if not len(rows):
            return
        found = self.pieces.locate(rows)
        stored = self._shards.fetch(self._records(found))
        stop_if_closed()
        try:
            fastest_expand_documents()(stored, found, self._layout, request, out, places)
        except MisfitError:
            self._shards.check()
            raise CorruptError(BAD_INDEX.format(folder=self.folder)) from None
        self._shards.check()

    def _records(self, places: Places) -> Offsets:
        """Return the record of each document, numbered over all shards."""
        records: Offsets = self._first_record[places.shard] + places.entry["record"]
        if (records >= self._first_record[places.shard + 1]).any():
            raise CorruptError(BAD_INDEX.format(folder=self.folder))
        return records


@cache
def fastest_expand_documents() -> Expand:
    """Return numba's `expand_documents`, or NumPy's where numba is missing; they agree to the
    bit."""
    try:
        from dataprep.loaders.expand_numba import expand_documents
    except ImportError:
        from dataprep.loaders.expand_documents import expand_documents
    return expand_documents
