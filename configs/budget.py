"""The section `budget`: how many tokens a document and each of its fields may have.

budget: {tokens: 2048, truncate: sentence, fields: {context: {keep: end}, answer: {priority: 1}}}
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dataprep.configs.base import Count, Model

BudgetBy = Literal["priority", "ratio"]
Truncate = Literal["sentence", "word", "token"]
Keep = Literal["start", "end"]


class FieldBudget(Model):
    """What one field may have."""

    max: Count | None = Field(None, description="most tokens of the field")
    min: int = Field(
        0, ge=0, lt=1 << 31, description="tokens kept for it before others get more, by priority"
    )
    priority: int = Field(
        0, ge=-(1 << 31), lt=1 << 31, description="by priority: the highest is cut last"
    )
    ratio: float = Field(1.0, gt=0, le=1e9, description="by ratio: its share of what there is")
    keep: Keep = Field("start", description="which end of its text stays")


class BudgetConfig(Model):
    """How many tokens a document may have, and what is cut if it has more."""

    tokens: Count | None = Field(
        None, description="most tokens of a document, BOS and EOS included; null: no limit"
    )
    by: BudgetBy = Field(
        "priority",
        description="fields get what they need in the order of their priority, or shares by ratio",
    )
    truncate: Truncate = Field(
        "token",
        description="cut texts after the last whole sentence, word or token that fits; where no "
        "sentence fits, after a word, and where no word does, after a token",
    )
    fields: dict[str, FieldBudget] = Field(
        default_factory=dict, description="limits of fields, by their keys"
    )
