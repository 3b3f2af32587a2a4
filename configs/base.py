"""The base of every config model: the strict model, and each list of choices, written once.

Model      unknown keys are errors, and so is `yes` where a number is wanted
OnError    "fail" | "skip" | "quarantine"     the same list for a config key and for its flag
MaxErrors  100 or "0.1%"
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

Auto = Literal["auto"]
OnError = Literal["fail", "skip", "quarantine"]
Compat = Literal["none", "lwm"]

# tokenize
EngineName = Literal["auto", "tokenizers", "fastokens", "gigatoken", "splintr"]
PartialFrame = Literal["drop", "error"]
CodebookLayout = Literal["flatten", "delay", "first"]
RawDtype = Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]

# pack
StrategyName = Literal["best_fit", "first_fit", "concat", "pad"]
Overflow = Literal["split", "truncate", "drop"]
Side = Literal["left", "right"]
Compression = Literal["none", "zstd"]

# encode
Loudness = Literal["peak", "rms", "none"]


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
