"""Fill rows exactly: the longest piece, then two others that make up the row to the token.

    capacity 1000, longest 620: room 380
    one piece of 380?  else the pair nearest to halves, 190 + 190, 191 + 189, …  else the longest
    piece that fits goes in too, and the question is asked again for the room that is left

The pattern found is repeated while its lengths last, so there are few more patterns than distinct
lengths. Near-halves matter: lopsided pairs use up the short pieces that the last rows need. Rows
that have no exact filling end as best-fit rows do.

The lengths that are left are the bits of one integer, and in mirrored order those of another; the
pairs that sum to `room` are the bits that both have when the mirror is shifted: one `&`.

With a cap on segments, short pieces left to the end would make rows that the cap leaves half
empty. So each row takes its share of them from the beginning. Which way is best depends on the
lengths, so there are several ways to mix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dataprep.pipeline.pack.strategies.runs import Runs

Pattern = dict[int, int]  # length -> copies in the row


@dataclass(slots=True)
class _OpenRow:
    """The row being filled."""

    pattern: Pattern
    room: int  # tokens
    segments: int  # pieces it may still take

    def add(self, length: int, copies: int = 1) -> None:
        self.pattern[length] = self.pattern.get(length, 0) + copies
        self.room -= copies * length
        self.segments -= copies


class _Stock:
    """The pieces that are not placed yet."""

    def __init__(self, counts: list[int], capacity: int) -> None:
        self.capacity = capacity
        self.left = list(counts)
        self.num_pieces = sum(counts)
        self.num_tokens = sum(length * count for length, count in enumerate(counts))
        digits = "".join("1" if count else "0" for count in counts)  # digit n: length n
        self.mirrored = int(digits, 2)  # bit capacity - n: length n
        self.lengths = int(digits[::-1], 2)  # bit n: length n

    def spare(self, length: int, pattern: Pattern) -> int:
        return self.left[length] - pattern.get(length, 0)

    def longest(self, room: int, pattern: Pattern) -> int:
        """Return the longest length up to `room` that is left beside the pattern, or 0."""
        bits = self.lengths
        if bits.bit_length() > room + 1:
            bits &= (2 << room) - 1
        while bits:
            length = bits.bit_length() - 1
            if self.spare(length, pattern):
                return length
            bits ^= 1 << length
        return 0

    def shortest(self, pattern: Pattern) -> int:
        bits = self.lengths
        while bits:
            length = (bits & -bits).bit_length() - 1
            if self.spare(length, pattern):
                return length
            bits &= bits - 1
        return 0

    def pair(self, room: int, pattern: Pattern) -> int:
        """Return the longer of two lengths that sum to `room`, nearest to halves, or 0."""
        half = (room + 1) // 2
        bits = (self.lengths & (self.mirrored >> (self.capacity - room))) >> half
        while bits:
            length = half + (bits & -bits).bit_length() - 1
            other = room - length
            if self.spare(length, pattern) and self.spare(other, pattern) > (length == other):
                return length
            bits &= bits - 1
        return 0

    def take(self, pattern: Pattern) -> int:
        """Take pieces for as many rows of the pattern as possible; return the number of rows."""
        num_rows = min(self.left[length] // copies for length, copies in pattern.items())
        for length, copies in pattern.items():
            self.left[length] -= num_rows * copies
            self.num_pieces -= num_rows * copies
            self.num_tokens -= num_rows * copies * length
            if not self.left[length]:
                self.lengths ^= 1 << length
                self.mirrored ^= 1 << (self.capacity - length)
        return num_rows


def _share(stock: _Stock, max_segments: int) -> int:
    """Return how many pieces each row must take on average."""
    by_tokens = -(-stock.num_tokens // stock.capacity)
    by_segments = -(-stock.num_pieces // max_segments)
    return -(-stock.num_pieces // max(by_tokens, by_segments))


def no_mixing(stock: _Stock, row: _OpenRow, max_segments: int) -> None:
    """Leave short pieces to the end, as without a cap."""


def _shortest_first(stock: _Stock, row: _OpenRow, max_segments: int, part: float) -> None:
    """Fill some of the row's share with the shortest pieces that are left."""
    wanted = int(part * (_share(stock, max_segments) - 3))  # beside the longest and a pair
    while wanted > 0 and (length := stock.shortest(row.pattern)) and length <= row.room:
        copies = min(wanted, row.room // length, stock.spare(length, row.pattern))
        row.add(length, copies)
        wanted -= copies


def half_shortest(stock: _Stock, row: _OpenRow, max_segments: int) -> None:
    _shortest_first(stock, row, max_segments, 0.5)


def all_shortest(stock: _Stock, row: _OpenRow, max_segments: int) -> None:
    _shortest_first(stock, row, max_segments, 1.0)


def near_mean(stock: _Stock, row: _OpenRow, max_segments: int) -> None:
    """Add pieces of the length that the row's share can have on average in the room left."""
    wanted = _share(stock, max_segments) - 1
    while wanted > 2 and row.room:
        mean = row.room // wanted
        length = stock.longest(mean, row.pattern) or stock.shortest(row.pattern)
        if not length or length > row.room:
            return
        copies = min(max(1, (wanted - 2) // 2), row.room // length)
        copies = min(copies, stock.spare(length, row.pattern))
        row.add(length, copies)
        wanted -= copies


Mixing = Callable[[_Stock, _OpenRow, int], None]
MIXINGS: tuple[Mixing, ...] = (no_mixing, half_shortest, all_shortest, near_mean)


def fill_exactly(
    counts: list[int], capacity: int, max_segments: int | None, mix: Mixing = no_mixing
) -> Runs:
    """Return the rows; counts[n] is the number of pieces of length n, for n = 0 … capacity."""
    runs = Runs()
    stock = _Stock(counts, capacity)
    most = capacity if max_segments is None else max_segments
    while stock.num_pieces:
        longest = stock.longest(capacity, {})
        row = _OpenRow(pattern={longest: 1}, room=capacity - longest, segments=most - 1)
        mix(stock, row, most)
        _fill(stock, row, longest)
        num_rows = stock.take(row.pattern)
        first, slot = runs.open_rows(num_rows), 0
        for length, copies in row.pattern.items():
            runs.put(length, copies, first, num_rows, slot)
            slot += copies
    return runs


def _fill(stock: _Stock, row: _OpenRow, longest: int) -> None:
    """Add pieces until there is no room, segment or piece left."""
    while row.room and row.segments:
        if stock.spare(row.room, row.pattern):
            row.add(row.room)
        elif (
            row.segments >= 2
            and row.room <= 2 * longest
            and (length := stock.pair(row.room, row.pattern))
        ):
            row.add(row.room - length)
            row.add(length)
        elif length := stock.longest(row.room, row.pattern):
            # No pair fills more than twice the longest, so down to that copies are added at once.
            copies = max(1, (row.room - 2 * longest) // length)
            row.add(length, min(copies, row.segments, stock.spare(length, row.pattern)))
        else:
            return
