"""Made-up texts.

random_sentences    Lorem dolor, sit amet. Magna velit?
repeated_phrases    sed do sed do sed do
sequences           4 7 10 13 16 19
palindromes         abcdcba
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.synthetic.draws import Raw, between

_LOREM = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut"
    " labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris"
    " nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse"
    " cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt culpa"
    " qui officia deserunt mollit anim id est laborum"
)
_WORDS = _LOREM.split()
_MARKS = (" ",) * 12 + (", ",) * 2 + (". ", "? ")
_ENDS = np.array([mark in (". ", "? ") for mark in _MARKS])
# _FORMS[capital, word, mark]: "lorem ", "lorem, ", "Lorem. ", ...
_FORMS = np.array(
    [
        [[word + mark for mark in _MARKS] for word in words]
        for words in (_WORDS, [word.capitalize() for word in _WORDS])
    ],
    dtype=object,
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentences(raw: Raw, *, max_doublings: int) -> str:
    """Return a text whose length is four words, doubled once for each of `max_doublings` coins
    that shows heads: lengths spread over orders of magnitude, most of them in the middle."""
    draw: NDArray[np.uint64] = raw(2)
    doublings = (int(draw[0]) & ((1 << max_doublings) - 1)).bit_count()
    shortest = 4 << doublings
    count = shortest + int(draw[1]) % shortest
    numbers: NDArray[np.uint64] = raw(count)
    words = numbers % np.uint64(len(_WORDS))
    marks = (numbers >> np.uint64(32)) % np.uint64(len(_MARKS))
    capital = np.concatenate([[True], _ENDS[marks[:-1]]]).astype(np.int64)
    text = "".join(_FORMS[capital, words.astype(np.int64), marks.astype(np.int64)])
    return text.rstrip(" ,.?") + "."


def _repeated(raw: Raw) -> str:
    phrase = [_WORDS[int(number) % len(_WORDS)] for number in raw(between(raw, 2, 5))]
    return " ".join(phrase * between(raw, 2, 8))


def _sequence(raw: Raw) -> str:
    start, step, count = between(raw, 0, 99), between(raw, 1, 12), between(raw, 5, 20)
    return " ".join(str(start + step * i) for i in range(count))


def _palindrome(raw: Raw) -> str:
    half = "".join(_LETTERS[int(number) % 26] for number in raw(between(raw, 2, 12)))
    return half + half[::-1][between(raw, 0, 1) :]


PATTERNS: Mapping[str, Callable[[Raw], str]] = {
    "random_sentences": lambda raw: sentences(raw, max_doublings=3),
    "repeated_phrases": _repeated,
    "sequences": _sequence,
    "palindromes": _palindrome,
}
