"""The config of `dataprep pack`: its keys, their defaults, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self, get_args

from pydantic import Field, field_validator, model_validator

from dataprep.configs.base import (
    COUNT_NAME,
    EXECUTOR,
    OF_RAY,
    RAY_ADDRESS,
    TASK_TIMEOUT,
    AllowDuplicates,
    Compat,
    Compression,
    Count,
    ExecutorName,
    FilePath,
    Model,
    Needs,
    Overflow,
    Paths,
    ShardBytes,
    Side,
    StrategyName,
    TaskTimeout,
    TokenId,
    TurnsKept,
    Workers,
)


def _strategies(*names: StrategyName) -> Needs:
    what = f"strategy {' or '.join(names)}"
    return Needs("strategy", what, lambda config: config.strategy in names)


def _strategies_but(*others: StrategyName) -> Needs:
    """Return what a key needs that any strategy but these has a use for."""
    return _strategies(*(name for name in get_args(StrategyName) if name not in others))


_TAKEN = frozenset(
    f"documents_{fate}"
    for fate in ("read", "written", "empty", "quarantined", "split", "truncated", "dropped")
)
DocumentNumber = Annotated[int, Field(ge=0, le=255)]
CountName = Annotated[str, Field(pattern=COUNT_NAME)]


class SelectConfig(Model):
    """Which documents of the inputs are packed."""

    file: FilePath = Field(
        "", description=".npy of uint8: a number for each document of all inputs, in order"
    )
    value: DocumentNumber = Field(0, description="the number of the documents that are packed")
    reasons: dict[str, CountName] = Field(
        default_factory=dict,
        description="by number, the name of the count of documents that are not packed because of "
        "it; the others are documents_elsewhere",
    )

    @field_validator("reasons")
    @classmethod
    def _names_are_free(cls, reasons: dict[str, str]) -> dict[str, str]:
        for number, name in reasons.items():
            if not (number.isdecimal() and number == str(int(number)) and int(number) < 256):
                raise ValueError(f"{number!r} is no number from 0 to 255")
            if name in _TAKEN:
                raise ValueError(f"{name} counts something else; use another name")
        return reasons

    @model_validator(mode="after")
    def _value_has_no_reason(self) -> Self:
        if str(self.value) in self.reasons:
            raise ValueError(f"documents of number {self.value} are packed, so it has no reason")
        return self


class PackConfig(Model):
    """Tokenized documents to fixed-length rows."""

    goes_with: ClassVar[Mapping[str, Needs]] = {
        "ray_address": OF_RAY,
        "overflow": _strategies_but("concat"),
        "turns": Needs("overflow", "overflow turns", lambda config: config.overflow == "turns"),
        "truncate_side": Needs(
            "overflow", "overflow truncate", lambda config: config.overflow == "truncate"
        ),
        "pad_side": _strategies("pad"),
        "max_segments": _strategies("best_fit", "first_fit"),
        "drop_tail": _strategies("concat"),
        "open_rows": _strategies("first_fit"),
        # Rows of another strategy would have LWM's padding, but not its loss.
        "compat": _strategies("concat", "pad")._replace(may_wait=False),
    }

    inputs: Paths = Field((), description="folders of tokenized datasets, in order")
    allow_duplicates: AllowDuplicates = False
    select: SelectConfig | None = Field(
        None, description="pack some of the documents; default: all"
    )
    out: FilePath = Field(
        "", description="folder to write the dataset to, also in a bucket: s3://, gs://, az://"
    )

    seq_len: int = Field(
        0,  # nobody's choice: whoever packs must make one
        ge=0,
        le=1 << 26,
        description="input tokens in a row, which stores one token more; must be set",
    )
    strategy: StrategyName = Field("best_fit", description="how documents are put into rows")
    all_masks: bool = Field(
        False,
        description="give rows every mask that their documents may have, so that what is packed "
        "later has the same; else those that mark any token",
    )
    overflow: Overflow = Field(
        "split",
        description="documents longer than a row: split them, truncate them, leave them out, or "
        "keep whole turns of conversations; not with concat",
    )
    turns: TurnsKept = Field(
        "drop_oldest",
        description="with overflow turns: drop the oldest turns but keep what is before them "
        "(system), cut off the newest, or drop the conversation",
    )
    truncate_side: Side = Field("right", description="with overflow truncate: which end is cut off")
    pad_side: Side = Field("right", description="with strategy pad: where padding goes")
    max_segments: Count | None = Field(
        None, description="with best_fit, first_fit: put at most this many documents into a row"
    )
    keep_blocks: bool = Field(
        True, description="do not cut inside a block of vision or audio codes; not with concat"
    )
    drop_tail: bool = Field(
        False, description="with concat: drop the last tokens if they do not fill a row"
    )
    drop_empty_targets: bool = Field(False, description="leave out rows without a target")
    open_rows: Count = Field(
        256, description="with first_fit: how many rows stay open to be filled"
    )
    window: int = Field(
        1 << 22, ge=1, le=1 << 31, description="how many pieces are planned together"
    )
    pad_id: TokenId | None = Field(
        None, description="id of padding; default: the tokenizer's pad, else 0"
    )
    seed: int = Field(
        0, ge=-(1 << 63), lt=1 << 63, description="with best_fit: seed of the order of rows"
    )
    compat: Compat = Field(
        "none",
        description="lwm: LWM's loss: across documents (concat), or of codes shifted (pad)",
    )
    compression: Compression = Field(
        "none", description="zstd: smaller files for archives, which cannot be memory-mapped"
    )
    shard_rows: Count = Field(16384, description="put at most this many rows into a shard")
    shard_bytes: ShardBytes = Field(
        256 << 20, description="approximate limit on the size of a shard"
    )
    workers: Workers | None = Field(
        None, description="number of processes; default: one per core, fewer for little data"
    )
    task_timeout: TaskTimeout = TASK_TIMEOUT
    executor: ExecutorName = EXECUTOR
    ray_address: str | None = RAY_ADDRESS
