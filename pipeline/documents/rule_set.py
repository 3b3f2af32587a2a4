"""How the records of one input become documents; `rules` makes it of the config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataprep.pipeline.documents.budgets import Budget
from dataprep.pipeline.documents.chat.rules import ChatRules
from dataprep.pipeline.documents.field import Field, Grammar
from dataprep.pipeline.documents.objectives.objective import Objective
from dataprep.pipeline.documents.objectives.preference import Pairs
from dataprep.pipeline.modalities.block import Block
from dataprep.pipeline.ragged import HeldBy, Holds
from dataprep.pipeline.types import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKeys:
    """Which keys of a record hold its token ids, and what is said of each of these."""

    roles: tuple[tuple[str, str], ...]  # (tokens | labels | loss_mask …, the key), tokens first

    def holds(self, name: str) -> Holds:
        return "numbers" if any(name == key for _, key in self.roles) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the records of one source become documents."""

    fields: tuple[Field, ...]  # used where fields_from is ""
    fields_from: str
    fields_index: int | None
    grammar: Grammar
    bos: int | None  # the id of <|bos|>
    eos: int | None  # the id of <|eos|>
    add_bos: bool
    add_eos: bool
    prepend_text: str
    subfield_separator: str
    prepend_special: int  # as in `Vocabulary`
    separator_special: int
    text_prefix: Ids  # special ids put before every text field, mostly none
    text_suffix: Ids  # the same after it
    blocks: Mapping[str, Block]  # by modality
    vocab_size: int
    masks: tuple[str, ...]  # "loss", then modalities
    dtype: np.dtype[Any]  # of tokens on disk
    chat: ChatRules | None = None  # conversations instead of fields
    objective: Objective | None = None  # what is made of the documents
    pairs: Pairs | None = None  # records are preferences
    budget: Budget | None = None  # how many tokens documents may have
    keys: str | None = None  # which keys documents get: `storage.keys`
    pretokenized: TokenKeys | None = None  # records are token ids

    @property
    def held_by(self) -> HeldBy:
        """Return which keys of a record hold codes, segments or numbers."""
        return self.grammar.holds if self.pretokenized is None else self.pretokenized.holds
