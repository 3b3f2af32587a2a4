"""The config: what it holds, its defaults, what is allowed. Loading and overrides are in `load`.

Every key is also a flag of `dataprep tokenize` (`add_bos` is `--add-bos/--no-add-bos`) and can be
set with `--set key=value`, nested keys with dots: `--set modalities.vision.max_frames=4`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from dataprep.configs.base import (
    Auto,
    CodebookLayout,
    Compat,
    Compression,
    EngineName,
    MaxErrors,
    Model,
    OnError,
    Overflow,
    PartialFrame,
    RawDtype,
    Side,
    StrategyName,
)
from dataprep.configs.encode import EncodeConfig

TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
CodebookSize = Annotated[int, Field(ge=1, le=1 << 31)]


class VisionConfig(Model):
    """Blocks of discrete vision codes; the defaults are LWM's."""

    fields: tuple[str, ...] = Field(
        ("vision*",), description="globs over field names; a field that matches is a block of codes"
    )
    start: str | tuple[TokenId, ...] = Field(
        "<vision>", description="start tag: text, encoded by the tokenizer, or a list of ids"
    )
    end: str | tuple[TokenId, ...] = Field("</vision>", description="end tag, like start")
    tokens_per_frame: int = Field(256, ge=1, description="codes in one frame")
    end_of_frame: int = Field(8192, ge=0, description="id after every frame but the last")
    end_of_media: int = Field(8193, ge=0, description="id after the last frame")
    max_frames: int | None = Field(
        None, ge=1, description="longer videos are thinned evenly to this many frames"
    )
    codebook_size: CodebookSize = Field(8192, description="codes outside [0, this) are errors")
    code_offset: int = Field(
        0,
        ge=0,
        description="added to codes, end_of_frame and end_of_media, for one shared vocabulary",
    )
    partial_frame: PartialFrame = Field(
        "drop", description="codes after the last full frame: drop them (counted) or refuse"
    )
    raw_dtype: RawDtype = Field(
        "int32", description="of codes that come as base64 or bytes; an .npy says it by itself"
    )

    @model_validator(mode="after")
    def _ends_are_no_codes(self) -> VisionConfig:
        for key in ("end_of_frame", "end_of_media"):
            value = getattr(self, key)
            if value < self.codebook_size:
                raise ValueError(
                    f"{key} {value} is also a code, as codebook_size is {self.codebook_size}; "
                    f"set {key} to {self.codebook_size} or more"
                )
        return self


class AudioConfig(Model):
    """Blocks of discrete audio codes, of one codebook or several."""

    fields: tuple[str, ...] = Field(
        ("audio*",), description="globs over field names; a field that matches is a block of codes"
    )
    start: str | tuple[TokenId, ...] = Field(
        "<audio>", description="start tag: text, encoded by the tokenizer, or a list of ids"
    )
    end: str | tuple[TokenId, ...] = Field("</audio>", description="end tag, like start")
    codebooks: int = Field(1, ge=1, le=1024, description="codes in one frame")
    codebook_size: CodebookSize = Field(1024, description="codes outside [0, this) are errors")
    layout: CodebookLayout = Field(
        "flatten",
        description="codebooks frame by frame, each one step later than the one before, or only "
        "the first (the others are counted as thinned)",
    )
    separate_codebooks: bool = Field(
        True, description="ids of codebook k start at k times codebook_size"
    )
    fill: int | None = Field(
        None, ge=0, description="id of empty cells of delay; default: the first after all codes"
    )
    code_offset: int = Field(
        0, ge=0, description="added to codes and fill, for one shared vocabulary"
    )
    partial_frame: PartialFrame = Field(
        "error", description="codes after the last full frame: drop them (counted) or refuse"
    )
    raw_dtype: RawDtype = Field(
        "int32", description="of codes that come as base64 or bytes; an .npy says it by itself"
    )

    @model_validator(mode="after")
    def _fill_is_no_code(self) -> AudioConfig:
        highest = self.codebook_size * (self.codebooks if self.separate_codebooks else 1)
        if self.fill is not None and self.fill < highest:
            raise ValueError(f"fill {self.fill} is also a code; set it to {highest} or more")
        return self


class ModalitiesConfig(Model):
    vision: VisionConfig = Field(default_factory=lambda: VisionConfig())
    audio: AudioConfig = Field(default_factory=lambda: AudioConfig())
    segments: tuple[str, ...] = Field(
        ("segments",),
        description="globs over field names; a field that matches is an interleaved document: a "
        "list of {type: text|vision|audio, text or codes, loss}",
    )


class InputConfig(Model):
    """One input with settings of its own; a plain string is the same with none."""

    path: str = Field(description="a path, glob, URL, hf:NAME or synthetic:KIND")
    fields: str | None = Field(None, description="overrides the top-level fields")
    fields_from: str | None = Field(None, description="overrides the top-level fields_from")
    text_separator: str | None = Field(None, description="overrides the top-level text_separator")


def _input_of(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class PackConfig(Model):
    """Tokenized documents to fixed-length rows."""

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


class TokenizeConfig(Model):
    """Raw corpora to a tokenized dataset."""

    inputs: tuple[Annotated[InputConfig, BeforeValidator(_input_of)], ...] = Field(
        (), description="what to read, in order"
    )
    tokenizer: str = Field(
        "", description="tokenizer.json, a folder with one, a hub name, a .model, or bytes"
    )
    out: str = Field("", description="folder of the dataset")

    fields: str = Field("text", description="which fields, in order: [x] without loss, a+b joined")
    fields_from: str | None = Field(None, description="key whose value is the record's own spec")
    fields_index: int | None = Field(
        None, ge=0, description="which of a listed spec to take; default: chosen by line number"
    )
    add_bos: bool | Auto = Field("auto", description="auto: where the tokenizer names a BOS")
    add_eos: bool | Auto = Field("auto", description="auto: where the tokenizer names an EOS")
    bos_token: str | int | None = Field(None, description="BOS token or id; default: as named")
    eos_token: str | int | None = Field(None, description="EOS token or id; default: as named")
    pad_token: str | int | None = Field(None, description="pad token or id; default: as named")
    subfield_separator: str = Field(" ", description="joins the values of a+b")
    prepend_text: str = Field("", description="put before a document's first field, if it is text")
    text_separator: str = Field("", description="parts .txt files into documents; '': whole file")
    field_special_tokens: bool | Auto = Field(
        "auto",
        description="let the tokenizer add its own special tokens around every text field; "
        "auto: only under compat lwm with fields_from, as LWM's vision processor does",
    )
    compat: Compat = Field("none", description="lwm: reproduce LWM's quirks too")
    modalities: ModalitiesConfig = Field(default_factory=lambda: ModalitiesConfig())

    engine: EngineName = Field(
        "auto", description="tokenizer engine; auto: the fastest that is proven equal"
    )
    limit: int | None = Field(None, ge=1, description="read only the first N records")
    shard_bytes: int = Field(256 << 20, ge=1 << 16, description="size of a shard, at most about")
    max_record_bytes: int = Field(1 << 30, ge=1024, description="a longer record is an error")
    on_error: OnError = Field(
        "fail", description="bad records: stop, leave out (counted), or list in errors.jsonl too"
    )
    max_errors: MaxErrors = Field(None, description="more bad records end the run: N or P%")
    allow_empty: bool = Field(False, description="zero records are not an error")
    workers: int | None = Field(None, ge=1, description="processes; default: all cores")
    encode: EncodeConfig = Field(
        default_factory=lambda: EncodeConfig(), description="settings of dataprep encode"
    )
    pack: PackConfig = Field(
        default_factory=lambda: PackConfig(), description="settings of dataprep pack"
    )
