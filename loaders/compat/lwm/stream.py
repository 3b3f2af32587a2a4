"""Rows and tokens in order, for ever, from any place on.

    rows     0 1 2 | 0 1 2 | …               of 3 rows; from row 2 on: 2 0 1 | 2 0 1 | …

    tokens   t0 … t10, then t0 … again       rows of 4: t0 … t4 · t4 … t8 · t8 t9 t10 t0 t1 · …
    stored   t0 … t4 · t4 … t8 · t8 t9 t10 and padding

LWM's JsonDataset cuts one stream that goes on at the end of the file with its beginning. The rows
that `pack --strategy concat` stored are that stream up to the end; the others are put together
here, of at most a few of them. Both are datasets that `DataLoader` reads without shuffling.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from dataprep.loaders.expand import ABSENT, Arrays, Request
from dataprep.loaders.packed import PackedDataset, all_of_a_row, empty_arrays
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.storage.masks import MASKS
from dataprep.pipeline.types import Offsets


class RowsFrom(PackedDataset):
    """The rows of a packed dataset, beginning with one of them."""

    def __init__(self, rows: PackedDataset, start: int) -> None:
        super().__init__(rows.folder, rows.about, shards=rows._shards)
        self._first = start % super().__len__()

    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        super().read(self._stored(rows), request, out, places)

    def will_need(self, rows: Offsets) -> None:
        super().will_need(self._stored(rows))

    def _stored(self, rows: Offsets) -> Offsets:
        return (self._first + rows) % super().__len__()


class TokensFrom(PackedDataset):
    """Rows of the endless stream of a concat dataset, beginning with any of its tokens.

    Has tokens and masks, and neither segments nor positions: LWM asks for none.
    """

    def __init__(self, rows: PackedDataset, start: int, num_rows: int | None = None) -> None:
        """`num_rows`: after how many rows it begins at token 0 again; None: never."""
        super().__init__(rows.folder, rows.about, shards=rows._shards)
        self.num_tokens = tokens_of(rows)
        self._first = start % self.num_tokens
        self._restarts = num_rows is not None
        # After these many rows it has come round to the same token.
        self._num_rows = num_rows or self.num_tokens // gcd(self.num_tokens, self.seq_len)

    def __len__(self) -> int:
        return self._num_rows

    def read(self, rows: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        begin = self._begin(rows)
        is_stored = (begin % self.seq_len == 0) & (begin + self.seq_len < self.num_tokens)
        super().read(begin[is_stored] // self.seq_len, request, out, places[is_stored])
        if not is_stored.all():
            self._put_together(begin[~is_stored], request, out, places[~is_stored])

    def will_need(self, rows: Offsets) -> None:
        super().will_need(self._begin(rows) // self.seq_len % super().__len__())

    def _begin(self, rows: Offsets) -> Offsets:
        """Return the first token of each row."""
        if self._restarts:
            return (self._first // self.seq_len + rows) % self._num_rows * self.seq_len
        return (self._first + rows * self.seq_len) % self.num_tokens

    def _put_together(self, begin: Offsets, request: Request, out: Arrays, places: Offsets) -> None:
        token = (begin[:, None] + np.arange(self.seq_len + 1)) % self.num_tokens
        # Where a token is a target, so that it has its loss; the very first is a target nowhere.
        row, column = np.divmod(token - 1, self.seq_len)
        row, column = np.where(token > 0, row, 0), np.where(token > 0, column + 1, 0)
        needed, which = np.unique(row, return_inverse=True)
        everything = all_of_a_row(0, self.seq_len + 1, self.masks, self.masks)
        stored = empty_arrays(everything, len(needed))
        super().read(needed, everything, stored, np.arange(len(needed)))
        which = which.reshape(row.shape)
        columns = np.arange(request.start, request.start + request.width)
        order = [i for i, mask in enumerate(self.masks) if not MASKS[mask].is_weight]
        parts = (
            (out.tokens, stored.tokens, [0], [(0, shift) for shift in request.tokens]),
            (out.masks, stored.masks, order, request.masks),
            (out.weights, stored.weights, [n for n, _ in everything.weights], request.weights),
        )
        for target, source, numbers, wanted in parts:
            for i, (number, shift) in enumerate(wanted):
                if number == ABSENT:  # no mask, and every weight is 1
                    target[i, places] = target is out.weights
                    continue
                cut = columns + shift
                target[i, places] = source[numbers.index(number), which[:, cut], column[:, cut]]
        for array in (out.segments, out.positions):
            array[:, places] = 0


def tokens_of(rows: PackedDataset) -> int:
    """Return how many tokens the stream of a concat dataset has."""
    if len(rows.about.parts) > 1:
        raise ConfigError(
            f"{rows.folder} has grown: each of its {len(rows.about.parts)} parts is a stream of "
            "its own; pack all of it anew with --strategy concat"
        )
    counts = rows.about.counts
    return counts["rows"] * rows.seq_len + 1 - counts["padding"]
