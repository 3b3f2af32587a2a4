"""Find the characters that tokens stand for, by their spelling alone.

    text "né <x>!"   tokens  n | c3 | a9 | <x>, which takes blanks before it | !
    places                  0–1 | 1–2 | 1–2 | 2–6                            | 6–7

For a `tokenizers` that does not tell. The tokens must spell the text from its first to its last
byte, as it is or as its normalization has it: so places are right, or there are none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from dataprep.pipeline.engine.models.model import CharacterPlaces
from dataprep.pipeline.engine.special import FLAGS, AddedToken
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Offsets

Form = Literal["NFC", "NFKC", "NFD", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFKC", "NFD", "NFKD")
_LSTRIP, _RSTRIP = FLAGS.index("lstrip"), FLAGS.index("rstrip")
_BLANKS = re.compile(rb"\s*")
_NOT_ASCII = re.compile(r"(?s).?[^\x00-\x7f]+")  # with what it may combine with


def characters_of(
    text: str,
    ids: Sequence[int],
    spelled: Mapping[int, bytes],
    added: Mapping[int, AddedToken],
    forms: Sequence[Form] = (),
) -> CharacterPlaces | None:
    """Return the first character of each token and its end; None if they do not spell the text.

    >>> characters_of("né", [7, 8, 9], {7: b"n", 8: b"\\xc3", 9: b"\\xa9"}, {})
    [(0, 1), (1, 2), (1, 2)]
    """
    for given, firsts, ends in _readings(text, forms):
        places = list(_matched(given, ids, spelled, added))
        if len(places) == len(ids) and (places[-1][1] if places else 0) == len(given):
            return [(int(firsts[a]), int(ends[b - 1] if b > a else firsts[a])) for a, b in places]
    return None


def _readings(text: str, forms: Sequence[Form]) -> Iterator[tuple[bytes, Offsets, Offsets]]:
    """Yield the text as bytes, and of each byte the first character that it comes from and the end
    of those: as it is, then normalized."""
    yield _with_owners(list(text), list(text))
    for form in forms:
        chunks = list(_chunks(text, form))
        normal = [unicodedata.normalize(form, chunk) for chunk in chunks]
        if "".join(normal) == unicodedata.normalize(form, text):
            yield _with_owners(normal, chunks)


def _with_owners(parts: Sequence[str], owners: Sequence[str]) -> tuple[bytes, Offsets, Offsets]:
    data = [part.encode("utf-8") for part in parts]
    sizes = [len(each) for each in data]
    bounds = offsets_of([len(owner) for owner in owners])
    firsts = np.append(np.repeat(bounds[:-1], sizes), bounds[-1])  # one more: where the text ends
    return b"".join(data), firsts, np.repeat(bounds[1:], sizes)


def _chunks(text: str, form: Form) -> Iterator[str]:
    """Yield the text in pieces that can be normalized one by one."""
    at = 0
    for found in _NOT_ASCII.finditer(text):
        yield from text[at : found.start()]
        chunk = ""
        for character in found[0]:
            joined = unicodedata.normalize(form, chunk + character)
            apart = unicodedata.normalize(form, chunk) + unicodedata.normalize(form, character)
            if chunk and joined == apart and not unicodedata.combining(character):
                yield chunk
                chunk = ""
            chunk += character
        yield chunk
        at = found.end()
    yield from text[at:]


def _matched(
    given: bytes, ids: Sequence[int], spelled: Mapping[int, bytes], added: Mapping[int, AddedToken]
) -> Iterator[tuple[int, int]]:
    """Yield the first byte of each token and its end, as far as they spell what is given."""
    at, may_begin = 0, True
    for id in ids:
        token, flags = spelled.get(id), added[id].flags if id in added else None
        if not token:
            return
        start, place = at, at
        if flags is not None and flags[_LSTRIP]:
            place = _after_blanks(given, at)
        if flags is None and may_begin and not given.startswith(token, place):
            token = token.removeprefix(b" ")  # that the tokenizer puts before a text
        if not given.startswith(token, place):
            return
        at = place + len(token)
        if flags is not None and flags[_RSTRIP]:
            at = _after_blanks(given, at)
        may_begin = flags is not None
        yield start, at


def _after_blanks(given: bytes, at: int) -> int:
    found = _BLANKS.match(given, at)
    return found.end() if found else at
