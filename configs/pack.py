"""The config of `dataprep pack`: its keys, their defaults, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from dataprep.configs.base import (
    TASK_TIMEOUT,
    AllowDuplicates,
    Compat,
    Compression,
    Count,
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


class PackConfig(Model):
    """Tokenized documents to fixed-length rows."""

    goes_with: ClassVar[Mapping[str, Needs]] = {
        "overflow": _strategies("best_fit", "first_fit", "pad"),
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
    out: FilePath = Field("", description="folder to write the dataset to")

    seq_len: int = Field(
        0,  # nobody's choice: whoever packs must make one
        ge=0,
        le=1 << 26,
        description="input tokens in a row, which stores one token more; must be set",
    )
    strategy: StrategyName = Field("best_fit", description="how documents are put into rows")
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
        "none", description="lwm: reproduce LWM's loss across documents (concat) or shifted (pad)"
    )
    compression: Compression = Field(
        "none", description="zstd: smaller files for archives, which cannot be memory-mapped"
    )
    shard_rows: Count = Field(16384, description="put at most this many rows into a shard")
    shard_bytes: ShardBytes = Field(
        256 << 20, description="approximate limit on the size of a shard"
    )
    workers: Workers | None = Field(None, description="number of processes; default: one per core")
    task_timeout: TaskTimeout = TASK_TIMEOUT
