"""The section `pretokenized`: records that hold token ids instead of text.

pretokenized: input_ids                                  the same as {tokens: input_ids}
pretokenized: {tokens: input_ids, labels: labels}        as `transformers` has them
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from dataprep.configs.base import Model

_Key = Annotated[str, Field(min_length=1)]


class PretokenizedConfig(Model):
    """Token ids instead of fields; each list but `lengths` is as long as that of the tokens."""

    tokens: _Key = Field(description="key of the token ids: a list of whole numbers")
    labels: _Key | None = Field(
        None,
        description="key of the labels: each the token itself, not shifted, or -100 for no loss",
    )
    loss_mask: _Key | None = Field(
        None, description="key of the loss mask: 1 for tokens with loss, else 0; not with labels"
    )
    weights: _Key | None = Field(
        None, description="key of the weights of the tokens in the loss; 0: no loss"
    )
    attention_mask: _Key | None = Field(
        None, description="key of the attention mask: tokens with 0 are padding, and left out"
    )

    lengths: _Key | None = Field(
        None,
        description="of records that are packed rows: key of the lengths of their documents, into "
        "which they are cut; not with attention_mask",
    )

    @model_validator(mode="after")
    def _cuts_what_is_not_padded(self) -> Self:
        if self.lengths is not None and self.attention_mask is not None:
            raise ValueError("has both lengths and attention_mask; leave one of them out")
        return self

    @model_validator(mode="after")
    def _says_loss_once(self) -> Self:
        if self.labels is not None and self.loss_mask is not None:
            raise ValueError(
                f"has both labels {self.labels!r} and loss_mask {self.loss_mask!r}, which each say "
                "what has loss; leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _reads_weights_of_their_own(self) -> Self:
        if self.weights is not None and self.weights in (self.tokens, self.labels, self.lengths):
            raise ValueError(
                f"weights {self.weights!r} is the key of ids or lengths, not of weights"
            )
        return self

    @property
    def roles(self) -> dict[str, str]:
        """Return the key of each list that is read."""
        return {role: key for role, key in self.model_dump().items() if key is not None}


def _keys_of(value: Any) -> Any:
    return {"tokens": value} if isinstance(value, str) else value


Pretokenized = Annotated[
    PretokenizedConfig,
    BeforeValidator(_keys_of, json_schema_input_type=str | PretokenizedConfig),
]
