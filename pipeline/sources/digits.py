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

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.integer_lists import IntegerLists
from dataprep.pipeline.types import Mask, Offsets

Bytes = NDArray[np.uint8]
_OPEN, _COMMA, _SPACE, _QUOTE, _ZERO = np.frombuffer(b'[, "0', np.uint8)
# So that eight bytes stand before each number, and one behind it.
_MARGIN = b" " * 8
_END = b" "
# What is worked on at once: with its intermediates it stays in the cache.
_CHUNK_BYTES = 1 << 17


def parse_digit_lists(raws: Sequence[Any]) -> tuple[IntegerLists, Mask]:
    """(the lists, whether each could be taken): an empty list stands for one that could not.

    Each of `raws` is the text of one valid JSON value, without blanks around it. Digit strings
    count as the numbers they spell.

    >>> lists, taken = parse_digit_lists([b'[754, 12]', b'["7"]', b'[-1]', b'null'])
    >>> [codes.tolist() for codes in lists], taken.tolist()
    ([[754, 12], [7], [], []], [True, True, False, False])
    """
    bounds = np.cumsum([0, *map(len, raws)], dtype=np.int64)
    cuts = np.searchsorted(bounds, np.arange(0, bounds[-1], _CHUNK_BYTES))
    ranges = list(pairwise(np.unique([0, *cuts, len(raws)]).tolist())) or [(0, 0)]
    parts = [_parse(raws[start:stop]) for start, stop in ranges]
    values, lengths, taken = map(np.concatenate, zip(*parts, strict=True))
    offsets = np.zeros(len(raws) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return IntegerLists(values, offsets), taken


def _parse(raws: Sequence[Any]) -> tuple[NDArray[np.uint32], Offsets, Mask]:
    """(values, the length of each list, whether it could be taken)"""
    bounds = np.cumsum([len(_MARGIN), *map(len, raws)], dtype=np.int64)
    codes = np.frombuffer(b"".join((_MARGIN, *raws, _END)), np.uint8)
    digit = codes - _ZERO
    is_digit = digit < 10
    values, ends, too_long = _read_numbers(digit, is_digit)
    foreign = _foreign_places(codes, is_digit, bounds)
    half_quoted = _half_quoted(codes, is_digit, ends)
    taken = np.ones(len(raws), np.bool_)
    for places in (foreign, too_long, half_quoted):
        taken[np.searchsorted(bounds, places, side="right") - 1] = False
    lengths = np.diff(np.searchsorted(ends, bounds))
    if not taken.all():
        values = values[np.repeat(taken, lengths)]
        lengths *= taken
    return values, lengths, taken


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


def _foreign_places(codes: Bytes, is_digit: Mask, bounds: Offsets) -> Offsets:
    """Places of bytes that flat lists of digits do not have.

    Of a valid list without such bytes only its quotes are left to look at.
    """
    is_foreign = codes != _COMMA
    is_foreign &= ~is_digit
    is_foreign &= codes > _SPACE  # JSON has nothing below but blanks
    is_foreign &= codes != _QUOTE
    firsts = bounds[:-1]
    is_foreign[bounds[1:] - 1] = False  # the bracket that closes what a bracket opens
    is_foreign[firsts] = codes[firsts] != _OPEN
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
