"""The config of `dataprep pack`: what it holds, its defaults, what is allowed."""

from __future__ import annotations

from pydantic import Field

from dataprep.configs.base import (
    Compat,
    Compression,
    Model,
    Overflow,
    Side,
    StrategyName,
)


class PackConfig(Model):
    """Tokenized documents to fixed-length rows."""

    inputs: tuple[str, ...] = Field((), description="folders of tokenized datasets, in order")
    out: str = Field("", description="folder of the dataset")

    seq_len: int = Field(
        2048, ge=1, le=1 << 26, description="inputs a row; it holds one token more"
    )
    strategy: StrategyName = Field("best_fit", description="how documents are laid into rows")
    overflow: Overflow = Field(
        "split", description="documents longer than a row: cut them up, shorten or leave out"
    )
    truncate_side: Side = Field("right", description="with truncate: which end is lost")
    pad_side: Side = Field("right", description="with strategy pad: where padding goes")
    max_segments: int | None = Field(None, ge=1, description="documents a row, at most")
    keep_blocks: bool = Field(
        True, description="do not cut inside a block of vision or audio codes"
    )
    drop_tail: bool = Field(False, description="with concat: lose the end that fills no row")
    drop_empty_targets: bool = Field(False, description="leave out rows without any target")
    open_rows: int = Field(256, ge=1, description="with first_fit: rows that may still be filled")
    window: int = Field(1 << 22, ge=1, description="pieces that are planned together")
    pad_id: int | None = Field(None, ge=0, description="default: the tokenizer's pad, else 0")
    seed: int = Field(0, description="of the order of rows")
    compat: Compat = Field(
        "none", description="lwm: reproduce LWM's loss across documents (concat) or shifted (pad)"
    )
    compression: Compression = Field(
        "none", description="zstd: smaller, for archives; cannot be memory-mapped"
    )
    shard_rows: int = Field(16384, ge=1, description="rows a shard, at most")
    shard_bytes: int = Field(256 << 20, ge=1 << 16, description="size of a shard, at most about")
    workers: int | None = Field(None, ge=1, description="processes; default: all cores")
