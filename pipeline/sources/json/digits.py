"""Lists of whole numbers, from JSON to arrays, without a Python int for any of them.

    bytes    [ 7 5 4 ,   1 2 ]         many lists in one run of bytes
    digit    . 7 5 4 . . 1 2 .         0 where there is none
    pair     . 7 75 54 . . 1 12 .      the two digits that end here
    quad     . 7 75 754 . . 1 12 .     two pairs; taken where a number ends
    value          754      12

Each step is a handful of operations on all bytes at once, 8 to 10 ns a number: half of what
`np.fromstring` takes. What it cannot take is left to the decoder: numbers of more than eight
digits, of any other kind, and everything that is no flat list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import IntegerLists
from dataprep.pipeline.types import Mask, Offsets

Bytes = NDArray[np.uint8]
_OPEN, _COMMA, _SPACE, _QUOTE, _ZERO = np.frombuffer(b'[, "0', np.uint8)
# So that eight bytes stand before each number, and one behind it.
_MARGIN = b" " * 8
_END = b" "
# What is worked on at once: with its intermediates it stays in the cache.
_WINDOW_BYTES = 1 << 17


def parse_digit_lists(raws: Sequence[Any]) -> tuple[IntegerLists, Mask]:
    """(the lists, whether each could be taken): an empty list stands for one that could not.

    Each of `raws` is the text of one valid JSON value, without blanks around it. Digit strings
    count as the numbers they spell.

    >>> lists, taken = parse_digit_lists([b'[754, 12]', b'["7"]', b'[-1]', b'null'])
    >>> [codes.tolist() for codes in lists], taken.tolist()
    ([[754, 12], [7], [], []], [True, True, False, False])
    """
    text = b"".join(raws)
    bounds = np.cumsum([0, *map(len, raws)], dtype=np.int64)
    before = np.zeros(len(bounds), np.int64)  # numbers in the text before each bound
    values: list[NDArray[np.uint32]] = [np.zeros(0, np.uint32)]
    odd: list[Offsets] = [bounds[:0]]  # places of what lists of digits do not have
    count = passed = 0
    for start, stop in _windows(text):
        numbers, ends, places = _parse(text[start:stop])
        within = int(np.searchsorted(bounds, stop))
        before[passed:within] = count + np.searchsorted(ends, bounds[passed:within] - start)
        values.append(numbers)
        odd.append(places + start)
        count, passed = count + len(numbers), within
    before[passed:] = count
    taken = _are_lists(np.frombuffer(text, np.uint8), bounds, np.concatenate(odd))
    found, lengths = np.concatenate(values), np.diff(before)
    if not taken.all():
        found = found[np.repeat(taken, lengths)]
        lengths *= taken
    return IntegerLists(found, np.concatenate(([0], np.cumsum(lengths)))), taken


def _windows(text: bytes) -> Iterator[tuple[int, int]]:
    """Ranges that end after a comma, so that no number and no string of digits is cut."""
    start = 0
    while start < len(text):
        stop = text.find(b",", start + _WINDOW_BYTES) + 1 or len(text)
        yield start, stop
        start = stop


def _are_lists(codes: Bytes, bounds: Offsets, odd: Offsets) -> Mask:
    """Which texts are flat lists of digits: all that is odd in them is the two brackets.

    What a bracket opens, a bracket closes: the texts are valid JSON.
    """
    firsts, lasts = bounds[:-1], bounds[1:] - 1
    taken: Mask = codes[firsts] == _OPEN
    owners = np.searchsorted(bounds, odd, side="right") - 1
    taken[owners[(odd != firsts[owners]) & (odd != lasts[owners])]] = False
    return taken


def _parse(text: bytes) -> tuple[NDArray[np.uint32], Offsets, Offsets]:
    """(the numbers, the place of each one's last digit, places of what is odd)"""
    codes = np.frombuffer(b"".join((_MARGIN, text, _END)), np.uint8)
    digit = codes - _ZERO
    is_digit = digit < 10
    values, ends, too_long = _read_numbers(digit, is_digit)
    odd = (_foreign_places(codes, is_digit), too_long, _half_quoted(codes, is_digit, ends))
    return values, ends - len(_MARGIN), np.concatenate(odd) - len(_MARGIN)


def _read_numbers(digit: Bytes, is_digit: Mask) -> tuple[NDArray[np.uint32], Offsets, Offsets]:
    """(the numbers, the place of each one's last digit, places within those too long to tell)."""
    one = is_digit.view(np.uint8)
    digit = digit * one
    # In names: pair[i] is made of the bytes i and i + 1, quad[i] of i to i + 3, and so on.
    pair = digit[:-1] * np.uint8(10)
    pair += digit[1:]
    pair *= one[1:]
    two = one[:-1] & one[1:]
    quad = (pair[:-2] * two[2:]).astype(np.uint16)
    quad *= np.uint16(100)
    quad += pair[2:]
    ends = np.flatnonzero(is_digit[:-1] > is_digit[1:])
    values = quad.take(ends - 3).astype(np.uint32)
    four = two[:-2] & two[2:]
    if not (four[:-1] & one[4:]).any():
        return values, ends, ends[:0]
    upper = quad.take(ends - 7) * four.take(ends - 3)
    values += upper.astype(np.uint32) * np.uint32(10_000)
    return values, ends, np.flatnonzero(four[:-5] & four[4:-1] & one[8:])


def _foreign_places(codes: Bytes, is_digit: Mask) -> Offsets:
    """Places of bytes that do not stand within flat lists of digits, brackets too.

    Of a valid list without such bytes only its quotes are left to look at.
    """
    is_foreign = codes != _COMMA
    is_foreign &= ~is_digit
    is_foreign &= codes > _SPACE  # JSON has nothing below but blanks
    is_foreign &= codes != _QUOTE
    return np.flatnonzero(is_foreign)


def _half_quoted(codes: Bytes, is_digit: Mask, ends: Offsets) -> Offsets:
    """Places that show a string to be more or less than digits, in lists without foreign bytes.

    A quote that opens a string has no digit before it. So if each quote touches a digit, strings
    start with one; if each number has a quote on both sides or on none, they end after the first.
    """
    is_quote = codes == _QUOTE
    if not is_quote.any():
        return ends[:0]
    starts = np.flatnonzero(is_digit[:-1] < is_digit[1:]) + 1
    torn = starts[is_quote.take(starts - 1) != is_quote.take(ends + 1)]
    is_quote[1:-1] &= ~(is_digit[:-2] | is_digit[2:])
    return np.concatenate([torn, np.flatnonzero(is_quote)])
