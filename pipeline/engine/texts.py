"""Encode the texts of documents, and say of each that cannot be encoded what is wrong with it.

    engine fails on ["ab", "\\ud800", "c"]  ─►  each by itself  ─►  BadTextsError({1: "holds a …"})

An engine fails as a whole; a user wants to know the one text, and to leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dataprep.pipeline.engine.interface import Engine, EngineFailedError
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.types import Ids, Offsets

NONE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTexts:
    ids: Ids
    offsets: Offsets
    special: Offsets  # i64[texts], how many special tokens each text spells


class BadTextsError(Exception):
    """Texts that cannot be used: why, by their place, and how many special tokens they spell."""

    def __init__(self, reasons: Mapping[int, str], special: Mapping[int, int] = NONE) -> None:
        super().__init__("; ".join(reasons.values()))
        self.reasons = reasons
        self.special = special


def encode_texts(engine: Engine, texts: Sequence[str]) -> tuple[Ids, Offsets]:
    """Do as `engine.encode`; raise BadTextsError if some of the texts cannot be encoded."""
    try:
        return engine.encode(texts)
    except EngineFailedError:
        return _one_by_one(engine, texts)


def _one_by_one(engine: Engine, texts: Sequence[str]) -> tuple[Ids, Offsets]:
    reasons: dict[int, str] = {}
    found: list[Ids] = [np.zeros(0, np.uint32)]
    for place, text in enumerate(texts):
        try:
            found.append(engine.encode([text])[0])
        except EngineFailedError as error:
            reasons[place] = (
                f"cannot be encoded by {engine.name} ({error})"
                if is_text(text)
                else "holds a lone surrogate, which is not text; remove it"
            )
    if reasons:
        raise BadTextsError(reasons)
    return np.concatenate(found), offsets_of([len(ids) for ids in found[1:]])


def is_text(text: str) -> bool:
    """Return whether the text has a UTF-8 form: lone surrogates have none.

    >>> is_text("é"), is_text("\\ud800")
    (True, False)
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
