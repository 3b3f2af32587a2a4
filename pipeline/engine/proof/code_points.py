"""Every code point of Unicode, in contexts that show how an engine treats it.

A text goes through normalisation, a split by character classes, and merging. An engine's tables
for the first two may be of another Unicode version than the reference's, or wrong. Each context
below is chosen so that a wrong class or combination changes ids:

    a·b      is it a letter, does it join words, is it dropped
    ··x      white space: two spaces are split differently before a word and before white space
    1·234    a number: digits are taken in groups
    !!·!!    a symbol or mark: runs of symbols stay together
    a·'s     a symbol keeps the apostrophe, a letter leaves it to the s
    b·◌̴      does it have a combining class (would it change places with an overlay, class 1)
    bͅ·      the same from the other side (class 240)

Characters that combine only in pairs (compositions, Hangul, marks of different classes) are listed
as pairs. `sweep` chains units into documents; this module only lists them.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

# inclusive: ((0x41, 0x5A), (0x61, 0x7A))
Ranges = Sequence[tuple[int, int]]

SURROGATES = range(0xD800, 0xE000)

# Ideographs, private use and planes without assigned characters: one class each, so two contexts
# are enough.
UNIFORM = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xE000, 0xF900),
    range(0x20000, 0x40000),
    range(0xE0200, 0xF0000),
)
# Characters that Unicode 16 added with compositions, which the tables of this Python may lack:
# Todhri, Tulu-Tigalari, Gurung Khema, Kirat Rai.
NEW_COMPOSING = (
    range(0x105C0, 0x10600),
    range(0x11380, 0x11400),
    range(0x16100, 0x16140),
    range(0x16D40, 0x16D80),
)
HANGUL_LEADING = range(0x1100, 0x1113)
HANGUL_LATER = range(0x1160, 0x1200)
HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)
HANGUL_TRAILING = range(0x11A8, 0x11C3)


@dataclass(frozen=True, slots=True)
class Context:
    before: str
    after: str
    times: int = 1

    def unit(self, element: str) -> str:
        return f"{self.before}{element * self.times}{self.after}"

    def chain(self, elements: Sequence[str]) -> str:
        if self.times > 1:
            elements = [element * self.times for element in elements]
        return f"{self.before}{(self.after + self.before).join(elements)}{self.after}"


ALONE = Context("", "")
CONTEXTS = (
    Context("a", "b "),
    Context("A", "B "),
    Context("  ", "x\n"),
    Context(" ", " ", times=2),
    Context("1", "234 "),
    Context("!!", "!!\n"),
    Context("\n", "\n"),
    Context("x'", "the "),
    Context("a", "'s "),
    Context("a", "\u0301 "),
    Context("b", "\u0334 "),
    Context("b\u0345", " "),
    Context("\u1100", "\u11a8 "),
    Context("\u0915\u094d", "\u093c "),
    Context("\U0001f468\u200d", "\ufe0f "),
)
UNIFORM_CONTEXTS = (Context("a", "'s "), Context("!!", "123 "))
PAIR_CONTEXT = Context("a ", " b")


def varied(ranges: Ranges) -> list[str]:
    """Return the characters of the ranges that are not in a uniform part of Unicode."""
    return [char for char in characters(ranges) if not _is_uniform(char)]


def uniform(ranges: Ranges) -> list[str]:
    return [char for char in characters(ranges) if _is_uniform(char)]


def _is_uniform(char: str) -> bool:
    return any(ord(char) in part for part in UNIFORM)


def characters(ranges: Ranges) -> Iterator[str]:
    """Yield every character of the ranges; surrogates are not characters."""
    codes = (code for first, last in ranges for code in range(first, last + 1))
    return (chr(code) for code in codes if code not in SURROGATES)


@cache
def composing_pairs() -> list[str]:
    """Return sequences that normalisation turns into one character."""
    pairs = []
    seconds: set[str] = set()
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        parts = unicodedata.decomposition(char).split()
        if parts and not parts[0].startswith("<"):
            spelled = "".join(chr(int(part, 16)) for part in parts)
            pairs += [spelled, unicodedata.normalize("NFD", char)]
            seconds.update(spelled[1:])
    for block in NEW_COMPOSING:
        letters = [chr(code) for code in block]
        pairs += [first + second for first in letters for second in [*letters, *sorted(seconds)]]
    return list(dict.fromkeys(pairs))


@cache
def hangul_pairs() -> list[str]:
    leading = [chr(a) + chr(b) for a in HANGUL_LEADING for b in HANGUL_LATER]
    syllables = [chr(code) for code in HANGUL_SYLLABLES[::28]]
    return leading + [lv + chr(t) for lv in syllables for t in HANGUL_TRAILING]


@cache
def marks() -> dict[int, list[str]]:
    """Return the marks of each combining class."""
    by_class: dict[int, list[str]] = {}
    for code in range(sys.maxunicode + 1):
        if value := unicodedata.combining(chr(code)):
            by_class.setdefault(value, []).append(chr(code))
    return by_class


def mark_contexts() -> list[Context]:
    """Return contexts that put a mark before and after one mark of each class: do they swap?"""
    others = [of_class[0] for _, of_class in sorted(marks().items())]
    return [Context("b", f"{m} ") for m in others] + [Context(f"b{m}", " ") for m in others]
