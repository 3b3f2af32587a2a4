"""Text that spells a special token: make it the token, keep it as text, or refuse it.

    text            hello <|endoftext|> world
    parse           31373   220 50256   995                     as `tokenizers` does
    text            31373   1279 91 437 1659 5239 91 29   995   as with its `encode_special_tokens`
    error           BadTextsError: spells the special token '<|endoftext|>' at character 6

Engines parse, and each special token in a text is an id in what they give. So a look-up of every id
finds the texts to count, to encode again or to refuse; all others are done. Special are the added
tokens that say so, and BOS, EOS and padding; other added tokens are found in texts in every mode.
BOS and EOS may also be words of the model, which text cannot be kept from becoming: under `text`
such a text is refused. So it is with SentencePiece, whose other special pieces text never becomes.
Padding that is a word of the model is not special: it is known by its place.

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
from collections.abc import Mapping, Sequence

import numpy as np

from dataprep.pipeline.engine.files import (
    TokenizerFiles,
    parse_json,
    read_defining_file,
)
from dataprep.pipeline.engine.plain import (
    MARK,
    Marked,
    PiecesEngine,
    PlainEngine,
    Spelled,
    places_of,
    spelled_in,
)
from dataprep.pipeline.engine.texts import BadTextsError, EncodedTexts, encode_texts
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets


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
        spelled = list(self._plain_engine().spelled_in(text))
        token, start, _ = spelled[0]
        before, after = self._unmarked(text[:start]), self._unmarked(text[start:])
        # What is a word of the model cannot be kept as text.
        is_kept = not any(each.in_model for each, *_ in spelled)
        way = "--special-in-text text keeps it as text, " if is_kept else ""
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
                f"the special token {found[0][0].content!r} in prepend_text, subfield_separator or "
                "fields cannot be told from text in a SentencePiece model; leave it out, or set "
                "--special-in-text parse"
            )
        for token, start, stop in reversed(found):
            meant = Marked(id=token.id, spelled=literal[start:stop])
            mark = marks.setdefault(meant, new_mark(meant.spelled))
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


def new_mark(spelled: str) -> str:
    """Return a new mark that begins and ends with a letter or digit if `spelled` does.

    So that tokens beside it, which may have to be single words, see what they would see.
    """
    left, right = ("" if re.match(r"\w", end) else MARK for end in (spelled[:1], spelled[-1:]))
    return f"{left}{secrets.token_hex(16)}{MARK}{secrets.token_hex(16)}{right}"


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
