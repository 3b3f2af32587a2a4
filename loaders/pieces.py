"""The documents of a tokenized dataset as pieces that fit a row; what does not fit is counted.

    lengths 5 20 3, at most 8 tokens a row         pieces, numbered
    split        0:5   1:0-8   2:3   1:7-15  1:14-20    documents first, then the rests of long ones
    truncate     0:5   1:0-8   2:3
    drop         0:5           2:3                      by their numbers: 0 and 2
    error        document 1 has 20 tokens, …

Neighbouring pieces of a document share a token, as in packed rows: it is a target in the first and
context in the second. Only documents that are too long take memory here, and where some are dropped
the numbers of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataprep.loaders.batching import Batching
from dataprep.loaders.documents import TokenizedDataset
from dataprep.pipeline.errors import ConfigError, counted
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.types import Offsets

CUT = (  # counts of documents that are too long, as a packed dataset has them
    *("documents_split", "tokens_shared", "documents_truncated", "tokens_truncated"),
    *("documents_dropped", "tokens_dropped"),
)
AT_ONCE = 1 << 20  # documents whose lengths are read together


class Places(NamedTuple):
    """Where pieces are in their documents."""

    document: Offsets  # i64[p]
    start: Offsets  # i64[p], their first tokens
    length: Offsets  # i64[p], in tokens
    shard: Offsets  # i64[p], of the document
    entry: NDArray[Any]  # of the index, of the document

    @property
    def begin(self) -> Offsets:
        """Their first tokens in the records that hold them."""
        return self.entry["start"] + self.start

    def runs(self, mask: str) -> tuple[Offsets, Offsets]:
        """Return the first of the runs of a mask that the document touches, and their number."""
        first, count = (self.entry[f"{mask}_{part}"].astype(np.int64) for part in ("first", "runs"))
        return first, count


class Pieces:
    """The pieces of a dataset; `counts` says what became of its documents."""

    def __init__(self, dataset: TokenizedDataset, batching: Batching, more_columns: int) -> None:
        self._dataset = dataset
        most = batching.longest
        self._most = None if most is None else most + 1 - more_columns  # tokens
        self._long, tokens, self.longest = self._find_long()
        self.counts = {"documents": len(dataset), "tokens": tokens, **dict.fromkeys(CUT, 0)}
        self._kept: Offsets | None = None
        self._extra = np.zeros(1, np.int64)  # where the further pieces of each long document begin
        if len(self._long):
            self._deal_with_long(batching)
        self.counts["pieces"] = len(self)

    def __len__(self) -> int:
        documents = len(self._dataset) if self._kept is None else len(self._kept)
        return documents + int(self._extra[-1])

    def locate(self, pieces: Offsets) -> Places:
        """Return where these pieces are."""
        document, start = self._parts(pieces)
        shard, entry = self._dataset.entries(document)
        length = self._cut(entry["length"].astype(np.int64) - start)
        return Places(document, start, length, shard, entry)

    def lengths_of(self, pieces: Offsets) -> Offsets:
        """Return the tokens of these pieces."""
        document, start = self._parts(pieces)
        return self._cut(self._dataset.lengths_of(document) - start)

    def _parts(self, pieces: Offsets) -> tuple[Offsets, Offsets]:
        """Return the document of each piece, and its first token there."""
        documents = len(self) - int(self._extra[-1])
        is_rest = pieces >= documents
        document = pieces if self._kept is None else self._kept[np.where(is_rest, 0, pieces)]
        start = np.zeros(len(pieces), np.int64)
        if is_rest.any():
            number = pieces[is_rest] - documents
            owner = np.searchsorted(self._extra, number, side="right") - 1
            document = document.copy()
            document[is_rest] = self._long[owner]
            start[is_rest] = (number - self._extra[owner] + 1) * self._stride
        return document, start

    def _cut(self, lengths: Offsets) -> Offsets:
        return lengths if self._most is None else np.minimum(lengths, self._most)

    def lengths(self) -> Iterator[tuple[int, Offsets]]:
        """Yield the tokens of all pieces, many at a time, with the number of the first."""
        for first in range(0, len(self), AT_ONCE):
            yield first, self.lengths_of(np.arange(first, min(first + AT_ONCE, len(self))))

    @property
    def _stride(self) -> int:
        assert self._most is not None
        return self._most - 1

    def _find_long(self) -> tuple[Offsets, int, int]:
        """Return the documents that are too long, the tokens of all, and those of the longest."""
        found, tokens, longest = [np.zeros(0, np.int64)], 0, 0
        for first in range(0, len(self._dataset), AT_ONCE):
            numbers = np.arange(first, min(first + AT_ONCE, len(self._dataset)))
            lengths = self._dataset.lengths_of(numbers)
            tokens += int(lengths.sum())
            longest = max(longest, int(lengths.max()))
            if self._most is not None:
                found.append(numbers[lengths > self._most])
        return np.concatenate(found), tokens, longest

    def _deal_with_long(self, batching: Batching) -> None:
        assert self._most is not None
        lengths = self._dataset.lengths_of(self._long)
        total, num = int(lengths.sum()), len(self._long)
        if batching.overflow == "error":
            first = int(self._long[0])
            raise ConfigError(
                f"{counted(num, 'document')} of {self._dataset.folder} "
                f"{'has' if num == 1 else 'have'} more than {self._most} tokens, the first is "
                f"document {first} with {int(lengths[0])}; allow longer rows, or set overflow to "
                "split, truncate or drop"
            )
        if batching.overflow == "drop":
            self._kept = np.delete(np.arange(len(self._dataset)), self._long)
            self.counts |= {"documents_dropped": num, "tokens_dropped": total}
            self.longest = self._longest_kept()
            return
        self._check_cuts(batching.overflow)
        self.longest = self._most
        if batching.overflow == "truncate":
            lost = total - num * self._most
            self.counts |= {"documents_truncated": num, "tokens_truncated": lost}
            return
        if self._most < 2:
            raise ConfigError("overflow split needs rows of two tokens or more")
        further = -(-(lengths - 1) // self._stride) - 1
        self._extra = offsets_of(further)
        self.counts |= {"documents_split": num, "tokens_shared": int(further.sum())}

    def _longest_kept(self) -> int:
        found = (int(lengths.max()) for _, lengths in self.lengths())
        return max(found, default=0)

    def _check_cuts(self, overflow: str) -> None:
        """Raise a ConfigError if documents may have what must not be cut."""
        about = self._dataset.about
        for mask in about.row_masks:
            kind = MASKS[mask]
            if kind.is_block or kind.side:
                what = "blocks of codes" if kind.is_block else "two sides"
                raise ConfigError(
                    f"overflow {overflow} would cut documents of {self._dataset.folder}, which "
                    f"have {what} (the mask {mask!r}) that must stay whole; set overflow='drop', "
                    "allow longer rows, or load rows of dataprep pack, which cuts elsewhere"
                )
