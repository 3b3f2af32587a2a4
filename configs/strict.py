"""A config model that takes nothing for granted: unknown keys and yes for a number are errors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _yes_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        known = cls.model_fields.get(info.field_name or "")
        if isinstance(value, bool) and known and "bool" not in str(known.annotation):
            raise ValueError("must not be true or false")
        return value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


# 100 or "0.1%"
MaxErrors = Annotated[
    Annotated[str, Field(pattern=r"^(\d+|\d+(\.\d+)?%)$")] | None, BeforeValidator(_as_text)
]
