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
from typing import Any

import numpy as np

from dataprep.pipeline.engine.files import TokenizerFiles
from dataprep.pipeline.engine.interface import failures_told, flatten
from dataprep.pipeline.engine.special import AddedToken
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.types import Ids, Offsets

Spelled = tuple[AddedToken, int, int]  # with its first character in a text, and its end
MARK = "\ufdd0"  # in every mark; not a character, so hardly ever in a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What a mark stands for."""

    id: int
    spelled: str  # in the literal


class PlainEngine:
    """`tokenizers`, taking special tokens in texts for text, but marks for the ids they stand for.

    The parser is the same tokenizer, which does find special tokens; `tokenizer` is changed.
    """

    name = "tokenizers"
    version = ""

    def __init__(
        self, files: TokenizerFiles, parser: Any, tokenizer: Any, marks: Mapping[str, Marked]
    ) -> None:
        from tokenizers import AddedToken as Token

        def added(content: str, token: AddedToken, *, special: bool) -> Any:
            names = ("single_word", "lstrip", "rstrip", "normalized")
            flags = dict(zip(names, token.flags, strict=True))
            return Token(content, special=special, **flags)

        self._parser, self._tokenizer = parser, tokenizer
        self._tokens = tokens = {token.id: token for token in files.special}
        # BOS and EOS may be among the added tokens without being called special there.
        self._tokenizer.add_special_tokens(
            [added(token.content, token, special=True) for token in files.special]
        )
        self._tokenizer.add_tokens(
            [added(mark, tokens[marked.id], special=False) for mark, marked in marks.items()]
        )
        self._tokenizer.encode_special_tokens = True
        self._marks = marks
        self._ids = {mark: self._tokenizer.token_to_id(mark) for mark in marks}
        self._any_mark = re.compile("|".join(map(re.escape, marks)))
        for mark, marked in marks.items():
            if self._tokenizer.encode(mark, add_special_tokens=False).ids != [self._ids[mark]]:
                raise ConfigError(
                    f"the special token {marked.spelled!r} in prepend_text or subfield_separator "
                    f"cannot be told from text, because tokenizer {files.path} rewrites what marks "
                    "it; leave it out, or set --special-in-text parse"
                )

    def encode(self, texts: Sequence[str], /) -> tuple[Ids, Offsets]:
        with failures_told():
            found = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
            pairs = zip(texts, found, strict=True)
            return flatten([self._checked(text, encoding.ids) for text, encoding in pairs])

    def locate(self, text: str) -> tuple[Ids, list[tuple[int, int]]]:
        """Return the ids of a text, marks among them, and the characters that each stands for."""
        with failures_told():
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
        if any(text.count(mark) != encoding.ids.count(id) for mark, id in self._ids.items()):
            raise ValueError(
                "spells a special token where the tokenizer does not find those of the template "
                "any more; remove it, or set chat.allow_special_in_content"
            )
        return np.array(encoding.ids, np.uint32), encoding.offsets

    def spelled_in(self, text: str) -> Iterator[Spelled]:
        return spelled_in(self._parser, text, self._tokens)

    def without_marks(self, ids: Ids) -> Ids:
        """Return the ids with those that marks stand for."""
        result = ids.copy()
        for mark, marked in self._marks.items():
            result[ids == self._ids[mark]] = marked.id
        return result

    def _checked(self, text: str, ids: list[int]) -> list[int]:
        """Return the ids of a text in which every mark is found, or else is put back as text."""
        while any(text.count(mark) != ids.count(id) for mark, id in self._ids.items()):
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
            found = list(zip(encoding.ids, encoding.offsets, strict=True))

            def kept(match: re.Match[str], found: Sequence[Any] = found) -> str:
                mark = match[0]
                is_found = any(
                    id == self._ids[mark] and start < match.end() and match.start() < stop
                    for id, (start, stop) in found
                )
                return mark if is_found else self._marks[mark].spelled

            before, text = text, self._any_mark.sub(kept, text)
            if text == before:
                raise ValueError("a special token of prepend_text is not found in it")
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def spelled_in(parser: Any, text: str, tokens: Mapping[int, AddedToken]) -> Iterator[Spelled]:
    """Yield the special tokens that a text spells, each with its first character and its end."""
    with failures_told():
        encoding = parser.encode(text, add_special_tokens=False)
    for id, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
        token = tokens.get(id)
        if token is None:
            continue
        taken = text[start:stop]  # with the blanks around it, if the token strips them
        spelled = token.content if token.content in taken else taken.strip()
        if token.in_model:  # the model's "Ġthe" is " the" in the text
            spelled = taken
        if token.is_unknown and _normal(parser, token, spelled) != _normal(
            parser, token, token.content
        ):
            continue
        first = start + taken.find(spelled)
        yield token, first, first + len(spelled)


def _normal(parser: Any, token: AddedToken, text: str) -> str:
    """Return the text as the token is compared with it."""
    if not token.flags[-1] or parser.normalizer is None:
        return text
    return str(parser.normalizer.normalize_str(text)).strip()


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
