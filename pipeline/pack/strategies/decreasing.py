"""Best-fit decreasing over counts by length.

Longest first, each piece goes to the row with the least room that still holds it. Rows with equal
room are interchangeable, so one step serves many:

    40 pieces of 300; rows with room 700: 15 (no row has room 300 … 699)
    -> each of the 15 takes 700 // 300 = 2; they have room 100 now; 10 pieces are left

A step uses up a length or a group of rows, so there are few more steps than distinct lengths,
however many documents there are.
"""

from __future__ import annotations

from collections import defaultdict

from dataprep.pipeline.pack.strategies.runs import Runs

_WORD_BITS = 1024


def best_fit_decreasing(counts: list[int], capacity: int, max_segments: int | None) -> Runs:
    """Return the rows; counts[n] is the number of pieces of length n, for n = 0 … capacity."""
    runs = Runs()
    # Groups of rows by room: (first row, rows, segments they may still take).
    groups: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    rooms = _Rooms(capacity)
    unlimited = max_segments or capacity
    for length in range(capacity, 0, -1):
        left = counts[length]
        while left:
            room = rooms.at_least(length)
            if room < 0:  # no open row has room for it: open new ones
                room, most = capacity, min(capacity // length, unlimited)
                num_rows = max(1, left // most)
                first, size, segments = runs.open_rows(num_rows), num_rows, unlimited
            else:
                first, size, segments = groups[room].pop()
            copies = min(room // length, segments, left)
            num_rows = min(size, left // copies)
            runs.put(length, copies, first, num_rows, unlimited - segments)
            left -= copies * num_rows
            if num_rows < size:
                groups[room].append((first + num_rows, size - num_rows, segments))
            if not groups[room]:
                rooms.discard(room)
            new_room, segments = room - copies * length, segments - copies
            if new_room and segments:
                groups[new_room].append((first, num_rows, segments))
                rooms.add(new_room)
    return runs


class _Rooms:
    """A set of integers 0 … bound that finds its least member from a given one on.

    Bits in words, and one word that tells which words are not empty: two steps for any bound.
    """

    def __init__(self, bound: int) -> None:
        self._words = [0] * (bound // _WORD_BITS + 1)
        self._used = 0

    def add(self, member: int) -> None:
        word, bit = divmod(member, _WORD_BITS)
        self._words[word] |= 1 << bit
        self._used |= 1 << word

    def discard(self, member: int) -> None:
        word, bit = divmod(member, _WORD_BITS)
        self._words[word] &= ~(1 << bit)
        if not self._words[word]:
            self._used &= ~(1 << word)

    def at_least(self, least: int) -> int:
        """Return the least member that is at least `least`, or -1."""
        word, bit = divmod(least, _WORD_BITS)
        here = self._words[word] >> bit
        if here:
            return least + _lowest_bit(here)
        later = self._used >> (word + 1)
        if not later:
            return -1
        word += 1 + _lowest_bit(later)
        return word * _WORD_BITS + _lowest_bit(self._words[word])


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
