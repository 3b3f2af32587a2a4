"""Encode texts so that special tokens in them are text, and find where they are spelled.

    PlainEngine     `tokenizers`, with its `encode_special_tokens`
    spelled_in      "a </s> b" -> (</s>, from character 2 up to 6)

`in_text` decides which texts come here. Marks stand for the special tokens of literals, which are
tokens all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import failures_told, flatten
from dataprep.pipeline.engine.special import AddedToken
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets

if TYPE_CHECKING:
    from dataprep.pipeline.engine.models.parsed import ParsedTokenizer

Spelled = tuple[AddedToken, int, int]  # with its first character in a text, and its end
_Located = tuple[int, tuple[int, int]]  # an id with its characters
MARK = "\ufdd0"  # in every mark; not a character, so hardly ever in a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What a mark stands for."""

    id: int
    spelled: str  # in the literal


class PlainEngine:
    """`tokenizers`, taking special tokens in texts for text, but marks for the ids they stand for.

    `parsed` is the same tokenizer, which does find special tokens.
    """

    name = "tokenizers"
    version = ""

    def __init__(
        self, files: TokenizerFiles, parsed: ParsedTokenizer, marks: Mapping[str, Marked]
    ) -> None:
        self._parsed = parsed
        self._tokens = tokens = {token.id: token for token in files.special}
        with failures_told():
            meant = {mark: tokens[marked.id] for mark, marked in marks.items()}
            self._plain = parsed.plain(files.special, meant)
        self._marks = marks
        added = {token.content: token.id for token in self._plain.added_tokens()}
        self._ids = {mark: added[mark] for mark in marks}
        self._any_mark = re.compile("|".join(map(re.escape, marks)))
        for mark, marked in marks.items():
            if self._plain.encode([mark])[0].tolist() != [self._ids[mark]]:
                raise ConfigError(
                    f"the special token {marked.spelled!r} in prepend_text or subfield_separator "
                    f"cannot be told from text, because tokenizer {files.path} rewrites what marks "
                    "it; leave it out, or set --special-in-text parse"
                )

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():
            ids, offsets = self._plain.encode(texts)
            each = (ids[start:stop].tolist() for start, stop in pairwise(offsets.tolist()))
            pairs = zip(texts, each, strict=True)
            return flatten([self._checked(text, found) for text, found in pairs])

    def locate(self, text: str) -> tuple[Ids, Sequence[tuple[int, int]]]:
        """Return the ids of a text, marks among them, and the characters that each stands for."""
        with failures_told():
            ids, places = self._plain.locate(text)
        if any(text.count(mark) != (ids == id).sum() for mark, id in self._ids.items()):
            raise ValueError(
                "spells a special token where the tokenizer does not find those of the template "
                "any more; remove it, or set chat.allow_special_in_content"
            )
        return ids, places

    def spelled_in(self, text: str) -> Iterator[Spelled]:
        return spelled_in(self._parsed, text, self._tokens)

    def without_marks(self, ids: Ids) -> Ids:
        """Return the ids with those that marks stand for."""
        result = ids.copy()
        for mark, marked in self._marks.items():
            result[ids == self._ids[mark]] = marked.id
        return result

    def _checked(self, text: str, ids: list[int]) -> list[int]:
        """Return the ids of a text in which every mark is found, or else is put back as text."""
        while any(text.count(mark) != ids.count(id) for mark, id in self._ids.items()):
            located, places = self._plain.locate(text)
            found = list(zip(located.tolist(), places, strict=True))

            def kept(match: re.Match[str], found: Sequence[_Located] = found) -> str:
                mark = match[0]
                is_found = any(
                    id == self._ids[mark] and start < match.end() and match.start() < stop
                    for id, (start, stop) in found
                )
                return mark if is_found else self._marks[mark].spelled

            before, text = text, self._any_mark.sub(kept, text)
            if text == before:
                raise ValueError("a special token of prepend_text is not found in it")
            ids = self._plain.encode([text])[0].tolist()
        return ids


def spelled_in(
    parsed: ParsedTokenizer, text: str, tokens: Mapping[int, AddedToken]
) -> Iterator[Spelled]:
    """Yield the special tokens that a text spells, each with its first character and its end."""
    with failures_told():
        ids, places = parsed.locate(text)
    for id, (start, stop) in zip(ids.tolist(), places, strict=True):
        token = tokens.get(id)
        if token is None:
            continue
        taken = text[start:stop]  # with the blanks around it, if the token strips them
        spelled = token.content if token.content in taken else taken.strip()
        if token.in_model:  # the model's "Ġthe" is " the" in the text
            spelled = taken
        if token.is_unknown and _normal(parsed, token, spelled) != _normal(
            parsed, token, token.content
        ):
            continue
        first = start + taken.find(spelled)
        yield token, first, first + len(spelled)


def _normal(parsed: ParsedTokenizer, token: AddedToken, text: str) -> str:
    """Return the text as the token is compared with it."""
    return parsed.normalize(text).strip() if token.flags[-1] else text


def places_of(wanted: Ids, ids: Ids) -> Offsets:
    """Return where any of the wanted ids is.

    >>> places_of(np.array([7, 9], np.uint32), np.array([1, 9, 8, 7], np.uint32)).tolist()
    [1, 3]
    """
    if not len(wanted):
        return np.zeros(0, np.int64)
    # Special ids are neighbours, mostly: within their range there is little else to look at. Ids
    # below it wrap to large ones.
    lowest, highest = wanted.min(), wanted.max()
    is_near = ids == lowest if lowest == highest else (ids - lowest) <= highest - lowest
    places = np.flatnonzero(is_near)
    return places[np.isin(ids[places], wanted)] if len(places) else places
