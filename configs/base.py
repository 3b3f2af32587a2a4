"""The base of every config model: the strict model, and each list of choices, written once.

Model      unknown keys are errors, and so is `yes` where a number is wanted
OnError    "fail" | "skip" | "quarantine"     the same list for a config key and for its flag
MaxErrors  100 or "0.1%"
FilePath   in a config file it is relative to that file; NameOrPath: if it looks like a path
Count      1 or more, and no more than a 64-bit integer holds
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from dataprep.pipeline.guards.secrets import hidden

Auto = Literal["auto"]
OnError = Literal["fail", "skip", "quarantine"]
Compat = Literal["none", "lwm"]

ExecutorName = Literal["local", "ray"]

# tokenize
SpecialInTextMode = Literal["parse", "text", "error"]
EngineName = Literal["auto", "tokenizers", "fastokens", "gigatoken", "splintr"]
PartialFrame = Literal["drop", "error"]
CodebookLayout = Literal["flatten", "delay", "first"]
RawDtype = Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]

RecordForm = Literal[
    "text", "example", "sequences", "tokens_uint16", "tokens_int32", "tokens_uint32", "tokens_int64"
]
Bound = Literal["bos", "eos"]
End = Literal["bos", "eos", "none"]  # none: a file is one document

# pack
StrategyName = Literal["best_fit", "first_fit", "concat", "pad"]
Overflow = Literal["split", "truncate", "drop", "turns"]
TurnsKept = Literal["drop_oldest", "cut", "drop"]
Side = Literal["left", "right"]
Compression = Literal["none", "zstd"]

# export
ExportName = Literal[
    "maxtext",
    "xlstm",
    "megatron",
    "megatron-bridge",
    "hf",
    "olmo",
    "datatrove",
    "mds",
    "nanogpt",
]
BinHeader = Literal["none", "llm.c"]

# encode
Loudness = Literal["peak", "rms", "none"]
Resize = Literal["bicubic", "bilinear", "nearest"]
Fit = Literal["crop", "stretch"]


class Needs(NamedTuple):
    """What a key goes with: alone it has no effect."""

    key: str
    what: str  # for messages: "strategy pad"
    is_given: Callable[[Any], bool]  # of the config
    may_wait: bool = True  # a file may have it for a choice that is not made today


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    goes_with: ClassVar[Mapping[str, Needs]] = {}  # by key; whoever gives one of these means it

    @field_validator("*", mode="before")
    @classmethod
    def _yes_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        known = cls.model_fields.get(info.field_name or "")
        if isinstance(value, bool) and known and "bool" not in str(known.annotation):
            raise ValueError("must not be true or false")
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _no_name_has_a_nul(cls, value: Any, info: ValidationInfo) -> Any:
        known = cls.model_fields.get(info.field_name or "")
        is_path = known is not None and {IS_PATH, MAY_BE_PATH} & {*map(str, known.metadata)}
        names = value if isinstance(value, list | tuple) else (value,)
        if is_path and any(isinstance(name, str) and "\0" in name for name in names):
            raise ValueError("a path must not have a NUL character")
        return value


def as_list(value: Any) -> Any:
    """Return a list of one for an input that stands alone: inputs: data/*.jsonl"""
    return [value] if isinstance(value, str | Mapping) else value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) else value


def _at_most_all(value: str | None) -> str | None:
    if value is not None and value.endswith("%") and float(value[:-1]) > 100:
        raise ValueError("must not be more than 100%")
    return value


# 100 or "0.1%"
_MAX_ERRORS = r"^(\d{1,18}|\d{1,3}(\.\d{1,18})?%)$"
_KEYS = r"^(content|key:.+)$"
SPLIT_NAME = r"^[a-z][a-z0-9_]{0,40}$"
_REPLACED = r"^[^=]+=[^=]*$"
COUNT_NAME = r"^documents_[a-z_]{1,40}$"
COLOUR = r"^(white|black|#[0-9a-fA-F]{6})$"
PATTERNS = {
    COLOUR: "white, black or a colour such as #ffe0c0",
    _MAX_ERRORS: "a number of records or a percentage, such as 100 or 0.1%",
    COUNT_NAME: "the name of a count, such as documents_forgotten",
    _REPLACED: "OLD=NEW, such as shards=masks",
    SPLIT_NAME: "a name of small letters, digits and _, such as train",
    _KEYS: "content, or key:NAME with the name of a key of the records",
}
_MaxErrorsText = Annotated[str, Field(pattern=_MAX_ERRORS)]
MaxErrors = Annotated[
    _MaxErrorsText | None,
    BeforeValidator(_as_text, json_schema_input_type=_MaxErrorsText | int | None),
    AfterValidator(_at_most_all),
]

# In the path of a file of ids, the last OLD is replaced by NEW.
LossMasks = Annotated[str, Field(pattern=_REPLACED)]
DocumentKeys = Annotated[str, Field(pattern=_KEYS)]

IS_PATH, MAY_BE_PATH = "is a path", "may be a path"
FilePath = Annotated[str, IS_PATH]
NameOrPath = Annotated[str, MAY_BE_PATH]

Count = Annotated[int, Field(ge=1, lt=1 << 63)]
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]  # batches hold 32-bit integers
Workers = Annotated[int, Field(ge=1, le=1 << 16)]
ShardBytes = Annotated[int, Field(ge=1 << 16, le=1 << 50)]

Paths = Annotated[
    tuple[str, ...],
    IS_PATH,
    BeforeValidator(as_list, json_schema_input_type=str | tuple[str, ...]),
]
# Those that may hold credentials; the config has their public names.
Addresses = Annotated[Paths, AfterValidator(lambda given: tuple(hidden(given)))]

AllowDuplicates = Annotated[
    bool, Field(description="read a file twice if it is given twice; else that is an error")
]
MaxRatio = Annotated[
    int,
    Field(
        ge=1,
        lt=1 << 31,
        description="a compressed file that grows by more than this factor is an error, after its "
        "first 64 MB",
    ),
]

# The same key for every command that runs workers.
TaskTimeout = Annotated[float, Field(gt=0)] | None
TASK_TIMEOUT: Any = Field(
    None,
    description="seconds without a sign of life before a worker is killed and its task tried "
    "again; default: 3600",
)

# The same keys for every command that runs workers on several machines.
EXECUTOR: Any = Field(
    "local", description="what runs the workers: processes of this machine, or a cluster of Ray"
)
RAY_ADDRESS: Any = Field(
    None,
    description="with executor ray: the address of the cluster, or auto; default: RAY_ADDRESS, "
    "else a cluster that is started on this machine",
)
OF_RAY = Needs("executor", "executor ray", lambda config: config.executor == "ray")
