"""A shuffle that needs few shards at a time: shards are permuted, then rows within windows of them.

    shards           0  1  2  3  4           of 3 rows each; at most 2 shards a window
    permuted         0 | 2  1 | 3  4         windows as equal as they can be
    rows             2 0 1 | 5 3 4 8 7 6 | …   those of a window, in an order of its own

Like the shuffle of `order`, of which it is made, it is computed: the row at a position follows from
the seed and the position alone, and each epoch has an order of its own. While a window is read, its
shards are all that is needed; `spans` says which windows come when, for who fetches them ahead.
Every checkpoint relies on its results: change nothing here without new names of its orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import numpy as np

from dataprep.loaders.order import OrderKey, shuffle, shuffle_lists
from dataprep.loaders.schedule import shown, whole_number
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Offsets

Shuffle = bool | Literal["global", "blocks"]

WINDOW_SHARDS = 32  # how well that mixes, and others: docs/loading.md
_EPOCHS = 1 << 40  # that have orders of their own, so that a list's number fits 64 bits


class Windows(NamedTuple):
    """The windows of an epoch."""

    shards: Offsets  # i64[shards], permuted
    rows: Offsets  # i64[shards + 1], the first place of each of them
    first_shards: Offsets  # i64[windows + 1], among the permuted ones
    places: Offsets  # i64[windows + 1], the first place of each window


class ShardBlocks:
    """The rows of a dataset, by its shards; at most `window` of them are mixed."""

    def __init__(self, shard_rows: Sequence[int], window: int) -> None:
        self._starts = offsets_of(shard_rows)
        self._filled = np.flatnonzero(np.diff(self._starts))
        self.window = window
        # Not a method: a cycle would keep what is dropped.
        self._windows = lru_cache(maxsize=8)(
            partial(_windows_of, self._starts, self._filled, window)
        )

    def windows(self, epoch: int, key: OrderKey) -> Windows:
        return self._windows(epoch, key)

    def window_of_shards(self, epoch: int, key: OrderKey) -> tuple[Offsets, Offsets]:
        """Return the first place of the window that each shard is in, and the place after its
        last; of empty shards, which are in none, 0 and 0."""
        found, bounds = self.windows(epoch, key), np.zeros((2, len(self._starts) - 1), np.int64)
        window = np.repeat(np.arange(len(found.places) - 1), np.diff(found.first_shards))
        bounds[0, found.shards] = found.places[window]
        bounds[1, found.shards] = found.places[window + 1]
        return bounds[0], bounds[1]

    def rows(self, positions: Offsets, key: OrderKey) -> Offsets:
        """Return the rows at these positions, of an endless sequence of epochs.

        >>> blocks = ShardBlocks([3, 3, 3, 3, 3], window=2)
        >>> blocks.rows(np.arange(15), OrderKey(seed=0, name="", generation=None))
        array([ 2,  0,  1,  5,  3,  4,  8,  7,  6, 13, 10, 14, 11,  9, 12])
        """
        epochs, places = np.divmod(positions, int(self._starts[-1]))
        rows = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            mine = epochs == epoch
            rows[mine] = self._of_epoch(places[mine], epoch, key)
        return rows

    def _of_epoch(self, places: Offsets, epoch: int, key: OrderKey) -> Offsets:
        found = self.windows(epoch, key)
        window = np.searchsorted(found.places, places, side="right") - 1
        if len(window) and (window == window[0]).all():
            window = window[:1]  # so that it is hashed once, not for each place
        first = found.places[window]
        mixed = first + shuffle_lists(
            places - first,
            epoch % _EPOCHS * (len(found.places) - 1) + window,
            found.places[window + 1] - first,
            seed=key.seed,
            name=f"windows of {key.name}",
            generation=key.generation,
        )
        shard = np.searchsorted(found.rows, mixed, side="right") - 1
        rows: Offsets = self._starts[found.shards[shard]] + mixed - found.rows[shard]
        return rows


def _windows_of(starts: Offsets, filled: Offsets, most: int, epoch: int, key: OrderKey) -> Windows:
    """Return the windows of an epoch; empty shards are in none."""
    count = len(filled)
    name, positions = f"shards of {key.name}", np.arange(count) + epoch % _EPOCHS * count
    order = shuffle(positions, count, seed=key.seed, name=name, generation=key.generation)
    shards = filled[order]
    rows = offsets_of(starts[shards + 1] - starts[shards])
    windows = -(-count // most)
    first_shards = np.arange(windows + 1) * count // windows
    return Windows(shards, rows, first_shards, rows[first_shards])


def checked_shuffle(shuffle: object, window_shards: object) -> tuple[Shuffle, int | None]:
    """Return how rows are shuffled, and the shards of a window if that was said."""
    if isinstance(shuffle, np.bool_):
        shuffle = bool(shuffle)
    if shuffle is not True and shuffle is not False and shuffle not in ("global", "blocks"):
        raise ConfigError(
            f"shuffle must be True, False, 'global' or 'blocks', got {shown(shuffle)}"
        )
    if window_shards is None:
        return shuffle, None
    window = whole_number("window_shards", window_shards, least=1)
    if shuffle in (False, "global"):
        raise ConfigError(
            f"window_shards={window} has no effect with shuffle={shuffle!r}; set shuffle='blocks', "
            "or leave it out"
        )
    return "blocks", window


def spans(windows: Windows) -> Iterator[tuple[int, Offsets]]:
    """Yield the first place of each window, and its shards."""
    for number, place in enumerate(windows.places[:-1].tolist()):
        yield place, windows.shards[windows.first_shards[number] : windows.first_shards[number + 1]]
