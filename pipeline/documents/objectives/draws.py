"""Random numbers that depend on the document and on nothing else.

    seed, source, place in it  ─►  key of the document  ─►  number 0, 1, 2 … of the document

A number is a hash of its key and its counter (SplitMix64), so any of them can be had without the
ones before it, for all documents of a batch at once: which worker makes a document, in which batch,
before or after an interruption, does not matter.

The place of a record is its first byte where the format has one, else its row. Two sources of the
same content give the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from dataprep.pipeline.ragged import numbers_within, offsets_of, owner_of
from dataprep.pipeline.types import Mask, Offsets

Keys = NDArray[np.uint64]

GAMMA = 0x9E3779B97F4A7C15
_SHIFTS = (30, 27, 31)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def mixed(keys: Keys, counter: Offsets | int) -> Keys:
    """Return the number of each key at a counter.

    >>> mixed(np.array([0], np.uint64), 0)  # the first number of SplitMix64 with seed 0
    array([16294208416658607535], dtype=uint64)
    """
    count = np.atleast_1d(np.asarray(counter, np.int64)).astype(np.uint64)  # of a scalar, it warns
    z = keys + (count + np.uint64(1)) * np.uint64(GAMMA)
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    last: Keys = z ^ (z >> np.uint64(_SHIFTS[-1]))
    return last


def below(keys: Keys, counter: Offsets | int, limit: Offsets) -> Offsets:
    """Return a whole number from 0 up to, but not, `limit`, which is at most 2**32."""
    high = mixed(keys, counter) >> np.uint64(32)
    return ((high * limit.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def happens(keys: Keys, counter: Offsets | int, rate: float) -> Mask:
    """Return for which keys something happens that happens at this rate."""
    chosen: Mask = (mixed(keys, counter) >> np.uint64(11)) * 2.0**-53 < rate
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlaces:
    """Where the records of a batch come from: its lines belong to pieces, as in `together`."""

    firsts: Offsets  # i64[p], the first line of each piece within the batch
    sources: Sequence[str]  # the fingerprint of the source of each piece
    first_lines: Offsets  # i64[p], lines of the source before the piece; if unknown, -1
    starts: Offsets  # i64[p], where the piece starts, in the unit of its format

    def keys(self, seed: int, lines: Offsets, offsets: Offsets) -> Keys:
        """Return the key of each record; `offsets` are -1 where there is none."""
        piece = np.searchsorted(self.firsts, lines, side="right") - 1
        is_numbered = self.first_lines >= 0
        # A stream is not read to count its rows: its shards, which are pieces, tell them apart.
        names = [
            f"{seed} {source}" if known else f"{seed} {source} {start}"
            for source, known, start in zip(
                self.sources, is_numbered.tolist(), self.starts.tolist(), strict=True
            )
        ]
        plain = _hashes([f"{seed} {source}" for source in self.sources])
        rows = lines - self.firsts[piece] + np.maximum(self.first_lines, 0)[piece]
        return np.where(
            offsets >= 0, mixed(plain[piece], offsets), mixed(_hashes(names)[piece], rows)
        )


def _hashes(names: Sequence[str]) -> Keys:
    return np.array([xxhash.xxh3_64_intdigest(name.encode()) for name in names], np.uint64)


def subsets(keys: Keys, sizes: Offsets, counts: Offsets, first_counter: int) -> Mask:
    """Choose `counts[i]` of the numbers 0 to `sizes[i]`, each set of so many being equally likely.

    Return a flag for each number, one set after another.
    """
    is_most = counts > sizes // 2  # then those that are left out are chosen
    wanted = np.where(is_most, sizes - counts, counts)
    starts = offsets_of(sizes)[:-1]
    chosen = np.zeros(int(sizes.sum()), np.bool_)
    drawn, missing = np.zeros(len(sizes), np.int64), wanted.copy()
    while True:
        open_sets = np.flatnonzero(missing)
        if not len(open_sets):
            break
        lacks = missing[open_sets]
        owner = open_sets[owner_of(lacks)]
        counter = first_counter + drawn[owner] + numbers_within(lacks)
        found = starts[owner] + below(keys[owner], counter, sizes[owner])
        drawn[open_sets] += lacks
        new = np.sort(found[~chosen[found]])
        new = new[np.append(True, new[1:] != new[:-1])[: len(new)]]
        chosen[new] = True
        # `new` ascends, and so does the place where each set starts.
        missing -= np.bincount(np.searchsorted(starts, new, side="right") - 1, minlength=len(sizes))
    if is_most.any():
        chosen ^= np.repeat(is_most, sizes)
    return chosen


def lengths_of_parts(keys: Keys, totals: Offsets, parts: Offsets, first_counter: int) -> Offsets:
    """Cut each total into so many parts of at least 1, all ways being equally likely.

    A total of 0 has one part, of length 0, or none.
    """
    cuts = np.maximum(totals - 1, 0)
    counts = np.minimum(np.maximum(parts - 1, 0), cuts)
    is_cut = subsets(keys, cuts, counts, first_counter)
    # The ends of the parts of each total: its cuts, and itself.
    ends = np.empty(int(parts.sum()), np.int64)
    last = np.cumsum(parts) - 1
    is_last = np.zeros(len(ends), np.bool_)
    has_parts = parts > 0
    is_last[last[has_parts]] = True
    ends[is_last] = totals[has_parts]
    ends[~is_last] = np.flatnonzero(is_cut) - np.repeat(offsets_of(cuts)[:-1], counts) + 1
    lengths = np.diff(ends, prepend=0)
    first = (np.cumsum(parts) - parts)[has_parts]
    lengths[first] = ends[first]
    return lengths
