"""The section `objective`: what a model learns from a document, beside its next token.

objective: {kind: fim, rate: 0.5, spm_rate: 0.5}         fill in the middle
objective: {kind: spans, context: 512}                   T5's span corruption
objective: {kind: prefix}                                prefix-LM: a cut at random
objective: {kind: seq2seq}                               "[prompt],answer": no loss | loss
objective: {kind: preference, prompt: null}              chosen, rejected; the prompt in both
objective: {kind: kto}                                   prompt, completion, label
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dataprep.configs.base import Model, TokenId

ObjectiveKind = Literal["fim", "spans", "prefix", "seq2seq", "preference", "kto"]
FimUnit = Literal["character", "token"]

Share = Annotated[float, Field(ge=0, le=1)]


def _has_a_place(value: Any) -> Any:
    if isinstance(value, str) and value.count("{}") != 1:
        raise ValueError("must have {} once, where the number of the sentinel goes")
    return value


class FimTokens(Model):
    """The tokens around the parts of a document; null: those that the tokenizer has for this."""

    prefix: str | TokenId | None = Field(None, description="before the beginning")
    middle: str | TokenId | None = Field(None, description="before the middle")
    suffix: str | TokenId | None = Field(None, description="before the end")
    eot: str | TokenId | None = Field(
        None, description="after the middle; null: nothing but the EOS of the document"
    )


class ObjectiveConfig(Model):
    """What is made of each document."""

    # Which kinds look at a key; those not named here belong to all.
    of_kinds: ClassVar[Mapping[str, tuple[ObjectiveKind, ...]]] = {
        "context": ("fim", "spans", "prefix"),
        "rate": ("fim",),
        "spm_rate": ("fim",),
        "unit": ("fim",),
        "tokens": ("fim",),
        "noise_density": ("spans",),
        "mean_span": ("spans",),
        "sentinels": ("spans",),
        "seed": ("fim", "spans", "prefix"),
        "prompt": ("preference", "kto"),
        "chosen": ("preference",),
        "rejected": ("preference",),
        "completion": ("kto",),
        "label": ("kto",),
    }

    kind: ObjectiveKind = Field(
        description="fim: fill in the middle; spans: T5's span corruption; prefix: a cut at random "
        "into encoder and decoder side; seq2seq: fields without loss are the encoder side; "
        "preference: a chosen and a rejected completion; kto: a completion with a label"
    )
    seed: int = Field(
        0, ge=-(1 << 63), lt=1 << 63, description="of every choice, with the place of the record"
    )
    context: int | None = Field(
        None,
        ge=16,
        le=1 << 30,
        description="cut documents so that none has more tokens than this, all added ones "
        "included; null: do not (spans: 512)",
    )
    rate: Share = Field(0.5, description="fim: share of the documents that are rearranged")
    spm_rate: Share = Field(
        0.5, description="fim: share of these that have the suffix first, then prefix and middle"
    )
    unit: FimUnit = Field(
        "character",
        description="fim: cut between any two characters, or only between tokens",
    )
    tokens: FimTokens = Field(
        default_factory=lambda: FimTokens(), description="fim: tokens or ids around the parts"
    )
    noise_density: float = Field(
        0.15, gt=0, lt=1, description="spans: share of the tokens that are masked"
    )
    mean_span: float = Field(
        3.0, ge=1, le=1 << 20, description="spans: mean length of a masked span, in tokens"
    )
    sentinels: Annotated[str | tuple[TokenId, ...], AfterValidator(_has_a_place)] = Field(
        "<extra_id_{}>",
        description="spans: tokens that stand for masked spans, {} being their number, or ids",
    )

    prompt: str | None = Field(
        "prompt",
        description="preference, kto: key of the prompt; null: what chosen and rejected begin with",
    )
    chosen: str = Field("chosen", description="preference: key of the better completion")
    rejected: str = Field("rejected", description="preference: key of the worse completion")
    completion: str = Field("completion", description="kto: key of the completion")
    label: str = Field("label", description="kto: key of whether it is good: true or false")

    @model_validator(mode="after")
    def _keys_are_of_the_kind(self) -> Self:
        for key, kinds in self.of_kinds.items():
            value = getattr(self, key)
            if self.kind not in kinds and value != type(self).model_fields[key].get_default(
                call_default_factory=True
            ):
                raise ValueError(
                    f"{key} has no effect with kind {self.kind}, only with {' or '.join(kinds)}; "
                    "leave it out"
                )
        if self.kind == "kto" and self.prompt is None:
            raise ValueError("prompt must name a key: with kind kto there is nothing to compare")
        if self.kind == "fim" and self.context is not None and self.unit == "character":
            raise ValueError(
                "context is counted in tokens, before which characters cannot be cut; set unit to "
                "token, or leave context out"
            )
        return self
