"""Make random texts that are hard to tokenize.

The same seed gives the same texts. They have white space, numbers, contractions, runs of one
character, many scripts, combining marks, emoji sequences, line ends, code, whole and damaged added
tokens, tokens of the vocabulary end to end; a few have 200,000 characters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dataprep.pipeline.engine.proof.specimens import (
    PROSE,
    RUN_CHARACTERS,
    SCRIPTS,
    SNIPPETS,
    SPACES,
)

FEW = 1000  # with fewer texts than this, no long ones
SOUPS_PER_TEXT = 3
ASCII = [chr(code) for code in range(128)]
LONG_DOCUMENT = 200_000
LONGEST_DOCUMENT = 1_000_000  # engines may encode large documents in parallel pieces
LONG_WORD = 20_000
EDGES = (("a", "b"), (" ", " "), ("\n", "\n"), ("1", "x"), ("é", "."))
RUN_LENGTHS = (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 99, 100, 101, 127, 129, 255, 257)
LONG_RUN_LENGTHS = (511, 513, 1000, 2049, 5000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingredients:
    """What the texts are made of besides the specimens: tokens and characters of a tokenizer."""

    added_tokens: Sequence[str]
    token_texts: Sequence[str]
    characters: Sequence[str]
    marks: Sequence[str]


def fuzz_texts(num_texts: int, seed: int, ingredients: Ingredients) -> Iterator[str]:
    fuzzer = _Fuzzer(random.Random(seed), ingredients)
    yield from (fuzzer.text() for _ in range(num_texts))
    yield from (fuzzer.soup() for _ in range(SOUPS_PER_TEXT * num_texts))
    few = num_texts < FEW
    runs = RUN_LENGTHS[::5] if few else (*RUN_LENGTHS, *LONG_RUN_LENGTHS)
    yield from (fuzzer.edged(c * n) for c in RUN_CHARACTERS for n in runs)
    yield from (c * n for c in RUN_CHARACTERS for n in runs)
    words = RUN_LENGTHS[-4:] if few else (*RUN_LENGTHS[-4:], *LONG_RUN_LENGTHS, LONG_WORD)
    yield from (fuzzer.some(script, n, n) for script in SCRIPTS for n in words)
    if not few:
        lengths = (LONG_DOCUMENT, LONG_DOCUMENT, LONG_DOCUMENT, LONGEST_DOCUMENT)
        yield from map(fuzzer.long_text, lengths)


class _Fuzzer:
    def __init__(self, generator: random.Random, ingredients: Ingredients) -> None:
        self._generator = generator
        self._ingredients = ingredients
        of = ingredients
        # a maker and its share
        self._makers: list[tuple[Callable[[], str], int]] = [
            (lambda: self.some(self._generator.choice(SCRIPTS), 1, 12), 30),
            (lambda: self.some(SNIPPETS, 1, 1), 20),
            (lambda: self.some("".join(self._generator.choices(SCRIPTS, k=3)), 1, 8), 10),
            (lambda: self._generator.choice(RUN_CHARACTERS) * self._generator.randint(1, 40), 5),
            (lambda: self.some(of.token_texts, 1, 6), 25 if of.token_texts else 0),
            (lambda: self.some(of.characters, 1, 4), 5 if of.characters else 0),
            (lambda: "a" + self.some(of.marks, 1, 4), 5 if of.marks else 0),
            (lambda: self.damaged(self.some(of.added_tokens, 1, 1)), 5 if of.added_tokens else 0),
        ]

    def text(self) -> str:
        functions, shares = zip(*self._makers, strict=True)
        makers = self._generator.choices(functions, shares, k=self._generator.randint(1, 24))
        return "".join(make() + self._generator.choice(SPACES) for make in makers)

    def soup(self) -> str:
        """Return characters, marks, ASCII and tokens in an order that nobody would write."""
        of = self._ingredients
        pools = [pool for pool in (of.characters, of.marks, ASCII, of.token_texts, SPACES) if pool]
        chosen = self._generator.choices(pools, k=self._generator.randint(2, 14))
        return "".join(map(self._generator.choice, chosen))

    def long_text(self, num_characters: int) -> str:
        parts: list[str] = []
        length = 0
        while length < num_characters:
            parts.append(self.text() + self._generator.choice(PROSE))
            length += len(parts[-1])
        return "".join(parts)[:num_characters]

    def some(self, choices: Sequence[str], fewest: int, most: int) -> str:
        return "".join(self._generator.choices(choices, k=self._generator.randint(fewest, most)))

    def edged(self, text: str) -> str:
        before, after = self._generator.choice(EDGES)
        return f"{before}{text}{after}"

    def damaged(self, token: str) -> str:
        """Return the token whole (one time in three), cut, split by a space, or case-swapped."""
        place = self._generator.randrange(len(token) + 1)
        ways = (token[:place], token[place:], f"{token[:place]} {token[place:]}", token.swapcase())
        return self._generator.choice((*ways, token, token))
