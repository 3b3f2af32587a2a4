"""Make all texts that an engine is tried on, as documents that can be taken apart again.

Chain       code points in one context in one document: "aéb aêb aëb …". If the document
            differs, its units are tried one by one; the code points of those that differ
            are bad, and the reference will encode every text that holds one.
Strict      documents that must be equal once bad code points are removed: one difference
            rules the engine out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.models import load_model
from dataprep.pipeline.engine.proof.code_points import (
    ALONE,
    CONTEXTS,
    PAIR_CONTEXT,
    UNIFORM_CONTEXTS,
    Context,
    characters,
    composing_pairs,
    hangul_pairs,
    mark_contexts,
    marks,
    uniform,
    varied,
)
from dataprep.pipeline.engine.proof.fuzz import SOUPS_PER_TEXT, Ingredients, fuzz_texts
from dataprep.pipeline.engine.special import AddedToken

# Raise it when the texts, the way they are judged, or an adapter changes.
SWEEP_VERSION = 2

_SYMBOL_WORD = re.compile(r"[!-&(-/:-@\[-`{-~][A-Za-z]+")

UNITS_PER_DOCUMENT = 256
TOKENS_PER_DOCUMENT = 100
# WordPiece gives up on words of more than 100 characters, and would hide what is in them.
ROW_UNITS_PER_DOCUMENT = 64

ADDED_TOKEN_CONTEXTS = (
    *(ALONE, Context("a", "b"), Context(" ", " "), Context("a ", " b"), Context("", "", times=2)),
    *(
        Context("\n", "\n"),
        Context("a\n\n", "\n\nb"),
        Context("  ", "  "),
        Context("\t ", "\u00a0x"),
    ),
    *(
        Context("1", "2"),
        Context("!", "!"),
        Context("é", "日"),
        Context("_", "_"),
        Context("", "'s"),
    ),
    *(Context("Hello", " world"), Context("the end. ", "The start")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """How much is tried: everything by default, less in the tests of this code."""

    # Code points to try in every context: planes 0 to 3 and 14. The others have only private use
    # and unassigned code points, which are tried in rows.
    in_contexts: tuple[tuple[int, int], ...] = ((0, 0x3FFFF), (0xE0000, 0xEFFFF))
    in_rows: tuple[tuple[int, int], ...] = ((0x40000, 0xDFFFF), (0xF0000, 0x10FFFF))
    pairs: bool = True
    num_fuzz: int = 4000
    seed: int = 20240229


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How many things were tried."""

    code_points: int = 0
    contexts: int = 0
    pairs: int = 0
    vocabulary: int = 0
    added_tokens: int = 0
    fuzz: int = 0
    num_characters: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    context: Context
    elements: Sequence[str]  # the highest code point of each is the one to blame

    @property
    def text(self) -> str:
        return self.context.chain(self.elements)

    @property
    def num_characters(self) -> int:
        """Return the length of the text, without making it."""
        around = len(self.context.before) + len(self.context.after)
        return self.context.times * sum(map(len, self.elements)) + around * len(self.elements)


@dataclass(frozen=True)
class Material:
    """The texts of one sweep over one tokenizer."""

    sweep: Sweep
    added_tokens: Sequence[AddedToken]
    token_texts: Sequence[str]

    def code_points(self) -> Iterator[Chain]:
        letters, others = self._varied, uniform(self.sweep.in_contexts)
        yield from (Chain(ALONE, [letter]) for letter in letters)
        for context in (*CONTEXTS, *self._own_contexts):
            yield from _cut(context, letters)
        for context in UNIFORM_CONTEXTS:
            yield from _cut(context, others)
        yield from _cut(ALONE, characters(self.sweep.in_rows), ROW_UNITS_PER_DOCUMENT)

    def pairs(self) -> Iterator[Chain]:
        """Yield pairs; tried after code points, so that the good half of a pair is not blamed."""
        if self.sweep.pairs:
            yield from _cut(PAIR_CONTEXT, composing_pairs())
            yield from _cut(PAIR_CONTEXT, hangul_pairs())
            for context in mark_contexts():
                yield from _cut(context, self._marks)

    def strict(self) -> Iterator[str]:
        contents = [token.content for token in self.added_tokens]
        for context in ADDED_TOKEN_CONTEXTS:
            yield from (context.unit(content) for content in contents)
        yield from self._vocabulary_documents()
        ingredients = Ingredients(
            added_tokens=contents,
            token_texts=self.token_texts,
            characters=self._varied + uniform(self.sweep.in_contexts),
            marks=self._marks if self.sweep.pairs else [],
        )
        yield from fuzz_texts(self.sweep.num_fuzz, self.sweep.seed, ingredients)

    def num_characters(self) -> int:
        """Return how many characters all texts have, of which few are held at a time."""
        phases = (self.code_points(), self.pairs())
        in_chains = sum(chain.num_characters for phase in phases for chain in phase)
        return in_chains + sum(map(len, self.strict()))

    def swept(self, num_characters: int) -> Swept:
        ranges = (*self.sweep.in_contexts, *self.sweep.in_rows)
        pairs = len(composing_pairs()) + len(hangul_pairs()) if self.sweep.pairs else 0
        return Swept(
            code_points=sum(1 for _ in characters(ranges)),
            contexts=1 + len(CONTEXTS) + len(self._own_contexts),
            pairs=pairs,
            vocabulary=len(self.token_texts),
            added_tokens=len(self.added_tokens),
            fuzz=self.sweep.num_fuzz * (1 + SOUPS_PER_TEXT),
            num_characters=num_characters,
        )

    @cached_property
    def _varied(self) -> list[str]:
        return varied(self.sweep.in_contexts)

    @cached_property
    def _marks(self) -> list[str]:
        return [mark for of_class in marks().values() for mark in of_class]

    @cached_property
    def _own_contexts(self) -> list[Context]:
        """Contexts of this vocabulary: before a token like ".com", which a symbol would break up;
        beside added tokens that strip spaces, must be a single word, or match normalised text.
        """
        broken = next((text for text in self.token_texts if _SYMBOL_WORD.fullmatch(text)), None)
        by_flags = {token.flags: token for token in self.added_tokens if any(token.flags)}
        flagged = [Context(t.content, f"{t.content} ") for _, t in sorted(by_flags.items())]
        return [*([Context(" ", f"{broken} ")] if broken else []), *flagged]

    def _vocabulary_documents(self) -> Iterator[str]:
        """Yield every token by itself, after a space, and in rows of random neighbours."""
        texts = list(self.token_texts)
        for context in (Context("", "\n"), Context(" ", "")):
            yield from (chain.text for chain in _cut(context, texts, TOKENS_PER_DOCUMENT))
            random.Random(self.sweep.seed).shuffle(texts)
        yield from (chain.text for chain in _cut(ALONE, texts, TOKENS_PER_DOCUMENT))


def make_material(files: TokenizerFiles, sweep: Sweep) -> Material:
    model = load_model(files)
    return Material(sweep=sweep, added_tokens=model.added_tokens(), token_texts=model.token_texts())


def _cut(
    context: Context, elements: Iterable[str], size: int = UNITS_PER_DOCUMENT
) -> Iterator[Chain]:
    rest = iter(elements)
    while own := list(islice(rest, size)):
        yield Chain(context, own)
