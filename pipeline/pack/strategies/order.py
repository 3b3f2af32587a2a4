"""Orders that are the same everywhere: a stable sort of small integers and a seeded shuffle."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.pack.strategies.plan import Ints

_ROUNDS = 4


def stable_order(keys: NDArray[np.integer[Any]], bound: int) -> Ints:
    """Return the places that sort `keys`, all in [0, bound); equal keys keep their order.

    numpy sorts 16-bit keys by radix, several times faster than wider ones by comparison, so
    wider keys go digit by digit, low digit first.
    """
    if bound <= 1 << 16:
        return np.argsort(keys.astype(np.uint16, copy=False), kind="stable")
    assert bound <= 1 << 32
    low_first = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    high = (keys >> 16).astype(np.uint16)[low_first]
    return low_first[np.argsort(high, kind="stable")]


def shuffled(num_rows: int, *, seed: int, window: int) -> Ints:
    """Return the new place of each row: a permutation of 0 … num_rows - 1, keyed by (seed, window).

    Our own rather than numpy's `permutation`, whose result may change between numpy versions.
    Each round (multiply by an odd number, add, fold the high bits into the low) permutes the
    numbers of b bits. A place beyond the last row is permuted again until it is a row; this ends,
    because the cycle it is on began at a row.
    """
    assert num_rows <= 1 << 31
    bits = max(1, (num_rows - 1).bit_length())
    keys = _keys(seed, window)
    places = _permuted(np.arange(num_rows, dtype=np.uint32), bits, keys)
    beyond = np.flatnonzero(places >= num_rows)
    while len(beyond):
        again = _permuted(places[beyond], bits, keys)
        places[beyond] = again
        beyond = beyond[again >= num_rows]
    return places.astype(np.int64)


def _permuted(
    numbers: NDArray[np.uint32], bits: int, keys: list[tuple[np.uint32, np.uint32]]
) -> NDArray[np.uint32]:
    mask, fold = np.uint32((1 << bits) - 1), np.uint32((bits + 1) // 2)
    for odd, addend in keys:
        numbers = numbers * odd
        numbers += addend
        numbers &= mask
        numbers ^= numbers >> fold
    return numbers


def _keys(seed: int, window: int) -> list[tuple[np.uint32, np.uint32]]:
    """Return an odd factor and an addend for each round."""
    digest = blake2b(f"{seed}:{window}".encode(), digest_size=8 * _ROUNDS).digest()
    numbers = np.frombuffer(digest, "<u4").astype(np.uint32).reshape(_ROUNDS, 2)
    return [(odd | np.uint32(1), addend) for odd, addend in numbers]
