"""Text that spells a special token: make it the token, keep it as text, or refuse it.

    text            hello <|endoftext|> world
    parse           31373   220 50256   995                     as `tokenizers` does
    text            31373   1279 91 437 1659 5239 91 29   995   as with its `encode_special_tokens`
    error           BadTextsError: spells the special token '<|endoftext|>' at character 6

Engines parse, and each special token in a text is an id in what they give. So a look-up of every id
finds the texts to count, to encode again or to refuse; all others are done. Special are the added
tokens that say so, and BOS, EOS and padding; other added tokens are found in texts in every mode.
BOS, EOS and padding may also be words of the model, which text cannot be kept from becoming: under
`text` such a text is refused. So it is with SentencePiece, whose other special pieces text never
becomes.

Literals of the config (`prepend_text`) are not content, and always parsed. Under `text` and `error`
the special tokens in them are replaced by marks, which no content can spell:

    prepend_text    <|im_start|>user      ─►  MARK user        before any document is read
    its ids         151644 872                                 MARK becomes 151644 again

A mark has the flags of its token. Where these forbid the token, as a single word before a letter,
the mark is not found either: then it is replaced by what was spelled, and never tokenized itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataprep.pipeline.engine.files import (
    TokenizerFiles,
    parse_json,
    parse_sentencepiece,
    read_defining_file,
)
from dataprep.pipeline.engine.interface import failures_told, flatten
from dataprep.pipeline.engine.reference import SentencePieceEngine
from dataprep.pipeline.engine.special import AddedToken
from dataprep.pipeline.engine.texts import BadTextsError, EncodedTexts, encode_texts
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets

Spelled = tuple[AddedToken, int, int]  # with its first character in a text, and its end
MARK = "\ufdd0"  # in every mark; not a character, so hardly ever in a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What a mark stands for."""

    id: int
    spelled: str  # in the literal


class SpecialInText:
    """Settles what becomes of special tokens in texts; `marks` tell what each stands for."""

    def __init__(self, files: TokenizerFiles, mode: str, marks: Mapping[str, Marked]) -> None:
        self._files = files
        self._mode = mode
        self._marks = marks
        self._tokens = {token.id: token for token in files.special}
        self._unknown = next((token for token in files.special if token.is_unknown), None)
        self._known = np.array([t.id for t in files.special if not t.is_unknown], np.uint32)
        self._plain: PlainEngine | PiecesEngine | None = None

    def settle(self, texts: Sequence[str], ids: Ids, offsets: Offsets) -> EncodedTexts:
        """Return the ids as the mode wants them, given those of an engine."""
        if int(ids.max(initial=0)) >= self._files.vocab_size:
            raise ConfigError(
                f"tokenizer {self._files.path} gives the id {ids.max()}, which is outside its "
                f"vocabulary of {self._files.vocab_size}; name another"
            )
        special = self._count(texts, ids, offsets)
        spelled = np.flatnonzero(special).tolist()
        if self._mode == "error" and spelled:
            raise BadTextsError(
                {i: self._refusal(texts[i]) for i in spelled},
                {i: int(special[i]) for i in spelled},
            )
        marked = [i for i, text in enumerate(texts) if MARK in text] if self._marks else []
        again = sorted({*marked, *(spelled if self._mode == "text" else ())})
        if again:
            try:
                plain = self._encode_plain([texts[i] for i in again])
            except BadTextsError as bad:
                found = {again[i]: reason for i, reason in bad.reasons.items()}
                raise BadTextsError(found, {i: int(special[i]) for i in found}) from None
            ids, offsets = replaced(ids, offsets, again, plain)
        return EncodedTexts(ids=ids, offsets=offsets, special=special)

    def _count(self, texts: Sequence[str], ids: Ids, offsets: Offsets) -> Offsets:
        owners = _owners(places_of(self._known, ids), offsets)
        counts = np.bincount(owners, minlength=len(texts)).astype(np.int64, copy=False)
        if self._unknown is not None:
            # Its id mostly stands for text that the model does not know.
            places = np.flatnonzero(ids == self._unknown.id)
            for i in np.unique(_owners(places, offsets)).tolist():
                if self._unknown.flags[-1] or self._unknown.content in texts[i]:
                    found = self._plain_engine().spelled_in(texts[i])
                    counts[i] += sum(token.is_unknown for token, *_ in found)
        return counts

    def _refusal(self, text: str) -> str:
        token, start, _ = next(self._plain_engine().spelled_in(text))
        before, after = self._unmarked(text[:start]), self._unmarked(text[start:])
        # What is a word of the model cannot be kept as text.
        way = "" if token.in_model else "--special-in-text text keeps it as text, "
        return (
            f"spells the special token {token.content!r} at character {len(before)} "
            f"({before[-20:] + short(after, 40 + len(token.content))!r}); "
            f"{way or '--special-in-text '}parse makes it the token"
        )

    def _unmarked(self, text: str) -> str:
        for mark, marked in self._marks.items():
            text = text.replace(mark, marked.spelled)
        return text

    def _encode_plain(self, texts: Sequence[str]) -> tuple[Ids, Offsets]:
        ids, offsets = encode_texts(self._plain_engine(), texts)
        still = places_of(self._known, ids)
        if len(still):
            owners = _owners(still, offsets).tolist()
            tokens = [self._tokens[id] for id in ids[still].tolist()]
            raise BadTextsError(
                {
                    i: "cannot be kept as text: the tokenizer's model itself has "
                    f"{token.content!r} (id {token.id}) among its words; --special-in-text "
                    "parse makes it the token"
                    for i, token in zip(owners, tokens, strict=True)
                }
            )
        return self._plain_engine().without_marks(ids), offsets

    def _plain_engine(self) -> PlainEngine | PiecesEngine:
        if self._plain is None:
            is_pieces = self._files.kind == "sentencepiece"
            self._plain = (
                PiecesEngine(self._files) if is_pieces else PlainEngine(self._files, self._marks)
            )
        return self._plain


class PlainEngine:
    """`tokenizers`, taking special tokens in texts for text, but marks for the ids they stand for.

    The parser is the same tokenizer, which does find special tokens.
    """

    name = "tokenizers"
    version = ""

    def __init__(self, files: TokenizerFiles, marks: Mapping[str, Marked]) -> None:
        from tokenizers import AddedToken as Token

        def added(content: str, token: AddedToken, *, special: bool) -> Any:
            names = ("single_word", "lstrip", "rstrip", "normalized")
            flags = dict(zip(names, token.flags, strict=True))
            return Token(content, special=special, **flags)

        data = read_defining_file(files)
        self._parser = parse_json(data, files.path)
        self._tokenizer = parse_json(data, files.path)
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


class PiecesEngine(SentencePieceEngine):
    """SentencePiece, which has no way to keep what is one of its pieces as text, and no marks."""

    def __init__(self, files: TokenizerFiles) -> None:
        super().__init__(parse_sentencepiece(read_defining_file(files), files.path))
        self._tokens = {token.id: token for token in files.special}

    def spelled_in(self, text: str) -> Iterator[Spelled]:
        """Yield as the function does; places are those where the text of a piece is."""
        stop = 0
        for id in self.encode([text])[0].tolist():
            if id in self._tokens:
                spelled = self._tokens[id].content.replace("▁", " ").strip()
                start = max(text.find(spelled, stop), 0)
                stop = start + len(spelled)
                yield self._tokens[id], start, stop

    def without_marks(self, ids: Ids) -> Ids:
        return ids


def mark_literals(
    files: TokenizerFiles, literals: Sequence[str]
) -> tuple[list[str], dict[str, Marked]]:
    """Replace the special tokens in literals of the config by marks; return what these stand for.

    Marks are random, since content that spelled one would become the token.
    """
    marks: dict[Marked, str] = {}
    marked: list[str] = []
    for literal, found in zip(literals, special_in_literals(files, literals), strict=True):
        if found and files.kind == "sentencepiece":
            raise ConfigError(
                f"the special token {found[0][0].content!r} in prepend_text or subfield_separator "
                "cannot be told from text in a SentencePiece model; leave it out, or set "
                "--special-in-text parse"
            )
        for token, start, stop in reversed(found):
            meant = Marked(id=token.id, spelled=literal[start:stop])
            mark = marks.setdefault(meant, _new_mark(meant.spelled))
            literal = literal[:start] + mark + literal[stop:]
        marked.append(literal)
    return marked, {mark: meant for meant, mark in marks.items()}


def special_in_literals(files: TokenizerFiles, literals: Sequence[str]) -> list[list[Spelled]]:
    """Return the special tokens that each literal spells, as `spelled_in` does."""
    tokens = {token.id: token for token in files.special}
    if not tokens or not any(map(str.strip, literals)):
        return [[] for _ in literals]
    if files.kind == "sentencepiece":
        return [list(PiecesEngine(files).spelled_in(literal)) for literal in literals]
    parser = parse_json(read_defining_file(files), files.path)
    return [list(spelled_in(parser, literal, tokens)) for literal in literals]


def _new_mark(spelled: str) -> str:
    """Return a new mark that begins and ends with a letter or digit if `spelled` does.

    So that tokens beside it, which may have to be single words, see what they would see.
    """
    left, right = ("" if re.match(r"\w", end) else MARK for end in (spelled[:1], spelled[-1:]))
    return f"{left}{secrets.token_hex(16)}{MARK}{secrets.token_hex(16)}{right}"


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


def replaced(
    ids: Ids, offsets: Offsets, places: Sequence[int], by: tuple[Ids, Offsets]
) -> tuple[Ids, Offsets]:
    """Return an encoding in which the texts at `places` have other ids."""
    lengths = np.diff(offsets)
    lengths[list(places)] = np.diff(by[1])
    parts, stop = [], 0
    for i, place in enumerate(places):
        parts += [ids[stop : offsets[place]], by[0][by[1][i] : by[1][i + 1]]]
        stop = int(offsets[place + 1])
    return np.concatenate([*parts, ids[stop:]]), offsets_of(lengths)


def _owners(places: Offsets, offsets: Offsets) -> Offsets:
    """Return which text each place in the ids belongs to."""
    return np.searchsorted(offsets, places, side="right") - 1


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
