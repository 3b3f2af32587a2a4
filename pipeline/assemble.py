"""Texts and literal ids side by side: the tokens and masks of many documents in one stroke.

    parts    BOS | text 0 | text 1 | EOS | BOS | text 2 | …      each with its flags
    tokens   ids of the texts in order, literals put between them

What the parts of a document are is decided in `process`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dataprep.pipeline.record import Documents, runs_of_parts
from dataprep.pipeline.types import Ids, Mask, Offsets


@dataclass(slots=True)
class Parts:
    """Parts of consecutive documents, being laid out."""

    texts: list[str] = field(default_factory=list)
    literals: list[Ids] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # -1 for a text
    loss: list[bool] = field(default_factory=list)
    vision: list[bool] = field(default_factory=list)
    document_ends: list[int] = field(default_factory=list)  # in parts

    def add_text(self, text: str, loss: bool) -> None:
        self.texts.append(text)
        self._add(-1, loss, False)

    def add_ids(self, ids: Ids, loss: bool, vision: bool = False) -> None:
        self.literals.append(ids)
        self._add(len(ids), loss, vision)

    def extend(self, other: Parts) -> None:
        """Append the parts of one document."""
        self.texts += other.texts
        self.literals += other.literals
        self.lengths += other.lengths
        self.loss += other.loss
        self.vision += other.vision
        self.document_ends.append(len(self.lengths))

    def _add(self, length: int, loss: bool, vision: bool) -> None:
        self.lengths.append(length)
        self.loss.append(loss)
        self.vision.append(vision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Parts of consecutive documents as arrays, texts not yet encoded."""

    texts: Sequence[str]
    literals: Ids  # all literal ids, in order
    lengths: Offsets  # of each part; a text's is filled in after encoding
    is_text: Mask
    loss: Mask
    vision: Mask
    document_ends: Offsets  # in parts
    kept: Offsets  # which of the batch's records the documents are
    codes_dropped: Offsets  # by each document


def assemble(
    layout: Layout, ids: Ids, offsets: Offsets, masks: Sequence[str], dtype: np.dtype[Any]
) -> tuple[Documents, Mask]:
    """Interleave encoded texts and literals; also which documents have tokens."""
    lengths = layout.lengths.copy()
    lengths[layout.is_text] = np.diff(offsets)
    part_ends = np.cumsum(lengths)
    total = int(part_ends[-1]) if len(part_ends) else 0
    tokens = np.empty(total, dtype)
    places = _places(part_ends[~layout.is_text], lengths[~layout.is_text])
    of_text = np.ones(total, bool)
    of_text[places] = False
    tokens[of_text] = ids
    tokens[places] = layout.literals
    ends = part_ends[layout.document_ends - 1]
    has_tokens = np.diff(ends, prepend=0) > 0
    flags = {"loss": layout.loss, "vision": layout.vision}
    documents = Documents(
        tokens=tokens,
        ends=ends[has_tokens],
        runs=tuple(runs_of_parts(flags[name], lengths) for name in masks),
    )
    return documents, has_tokens


def _places(ends: Offsets, lengths: Offsets) -> Offsets:
    """Token positions of parts: ends [1, 5], lengths [1, 2] -> [0, 3, 4]."""
    if len(lengths) and int(lengths.max()) == 1 == int(lengths.min()):
        return ends - 1
    firsts = np.repeat(ends - np.cumsum(lengths), lengths)
    return firsts + np.arange(len(firsts))
