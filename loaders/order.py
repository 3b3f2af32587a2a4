"""Which row comes when: a shuffle that is computed, not stored.

    position  0 1 2 3 4 | 5 6 7 8 9 | …        five rows, epoch after epoch
    row       3 1 4 0 2 | 2 4 1 0 3 | …        each epoch in an order of its own

`shuffle` returns the row at any positions, in time and memory that depend only on how many it is
asked for: a Feistel network on pairs (left, right) permutes a rectangle just larger than the
dataset, and a place outside of the dataset goes through again until it is inside. Every checkpoint
relies on its results: change nothing here without a new name in `_keys`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.types import Offsets

Words = NDArray[np.uint64]

_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderKey:
    """What an order follows from: datasets of one seed differ by their names, `generation` is that
    of a dataset which a loader moved on to; None is the one that it began with."""

    seed: int
    name: str
    generation: int | None


def in_order(positions: Offsets, num_rows: int) -> Offsets:
    """Return the rows at these positions where nothing is shuffled.

    >>> in_order(np.array([0, 4, 5, 6]), num_rows=5)
    array([0, 4, 0, 1])
    """
    return positions % num_rows


def shuffle(
    positions: Offsets, num_rows: int, *, seed: int, name: str = "", generation: int | None = None
) -> Offsets:
    """Return the rows at these positions; datasets of one seed differ in order by their `name`.

    `generation` is that of a dataset which a loader moved on to, in an order of its own; None is
    that of the generation which it began with.

    >>> shuffle(np.arange(10), num_rows=5, seed=0)
    array([3, 1, 4, 0, 2, 2, 4, 1, 0, 3])
    """
    epochs, places = np.divmod(positions.astype(np.uint64), np.uint64(num_rows))
    if len(epochs) and (epochs == epochs[0]).all():
        epochs = epochs[:1]  # so that it is hashed once, not for each position
    return _shuffled(places, epochs, np.array([num_rows]), _keys(seed, name, generation))


def shuffle_lists(
    places: Offsets,
    lists: Offsets,
    sizes: Offsets,
    *,
    seed: int,
    name: str,
    generation: int | None = None,
) -> Offsets:
    """Return the places in lists of these sizes that are at these places of theirs, once each list
    is shuffled; a list is known by its number.

    >>> places, lists = np.array([0, 1, 2, 0, 1, 2]), np.array([7, 7, 7, 8, 8, 8])
    >>> shuffle_lists(places, lists, np.full(6, 3), seed=0, name="")
    array([0, 2, 1, 2, 0, 1])
    """
    keys = _keys(seed, f"lists of {name}", generation)
    if len(lists) and (lists == lists[0]).all():
        lists, sizes = lists[:1], sizes[:1]
    return _shuffled(places.astype(np.uint64), lists.astype(np.uint64), sizes, keys)


def _shuffled(places: Words, epochs: Words, num_rows: Offsets, keys: Words) -> Offsets:
    """Return the rows at these places; epochs and numbers of rows are one for all, or one each."""
    own = num_rows.astype(np.uint64)
    rows = _permute(places, epochs, own, keys)
    outside = np.flatnonzero(rows >= own)
    while len(outside):
        more = _permute(rows[outside], _at(epochs, outside), _at(own, outside), keys)
        rows[outside] = more
        outside = outside[more >= _at(own, outside)]
    return rows.astype(np.int64)


def _at(values: Words, places: Offsets) -> Words:
    return values if len(values) == 1 else values[places]


def _permute(places: Words, epochs: Words, num_rows: Words, keys: Words) -> Words:
    """Permute the places [0, height * width), a few more than num_rows, for each epoch."""
    width = _roots(num_rows - np.uint64(1)) + np.uint64(1)
    height = (num_rows + width - np.uint64(1)) // width
    left, right = np.divmod(places, width)
    salts = _mix(epochs * np.uint64(0x9E3779B97F4A7C15) + keys[:, None])  # u64[rounds, epochs]
    for i in range(0, _ROUNDS, 2):
        left = _add(left, _mix(salts[i] ^ right), height)
        right = _add(right, _mix(salts[i + 1] ^ left), width)
    found: Words = left * width + right
    return found


def _roots(values: Words) -> Words:
    if len(values) == 1:
        return np.array([isqrt(int(values[0]))], np.uint64)
    roots: Words = np.sqrt(values).astype(np.uint64)  # exact below 2^52
    return roots


def _add(values: Words, noise: Words, limit: Words) -> Words:
    """Return (value + n) mod limit, where n is the noise scaled to [0, limit)."""
    total = values + ((noise >> np.uint64(32)) * limit >> np.uint64(32))
    below: Words = np.minimum(total, total - limit)  # less than 0 is a large number
    return below


def _mix(x: Words) -> Words:
    """Apply the finaliser of splitmix64: every bit of x changes half the bits of the result."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=1024)
def _keys(seed: int, name: str, generation: int | None) -> Words:
    """Return the key of each round."""
    moved = "" if generation is None else f"\ngeneration {generation}"
    text = f"dataprep order 1\n{seed}\n{name}{moved}"
    digest = hashlib.blake2b(text.encode(), digest_size=8 * _ROUNDS).digest()
    return np.frombuffer(digest, "<u8")
