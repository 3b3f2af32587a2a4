"""The config of blocks of codes in the token stream: vision, audio, segments."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from dataprep.configs.base import (
    CodebookLayout,
    Model,
    PartialFrame,
    RawDtype,
    TokenId,
)

CodebookSize = Annotated[int, Field(ge=1, le=1 << 31)]


class VisionConfig(Model):
    """Blocks of discrete vision codes; the defaults are LWM's."""

    fields: tuple[str, ...] = Field(
        ("vision*",), description="globs of field names; a field that matches is a block of codes"
    )
    start: str | tuple[TokenId, ...] = Field(
        "<vision>", description="start tag: text, encoded by the tokenizer, or a list of ids"
    )
    end: str | tuple[TokenId, ...] = Field("</vision>", description="end tag, like start")
    tokens_per_frame: int = Field(256, ge=1, le=1 << 31, description="codes in one frame")
    end_of_frame: TokenId = Field(8192, description="id after every frame but the last")
    end_of_media: TokenId = Field(8193, description="id after the last frame")
    max_frames: int | None = Field(
        None,
        ge=1,
        le=1 << 31,
        description="keep at most this many frames of a video, evenly spaced",
    )
    codebook_size: CodebookSize = Field(8192, description="codes outside [0, this) are errors")
    code_offset: TokenId = Field(
        0,
        description="added to codes, end_of_frame and end_of_media, for one shared vocabulary",
    )
    partial_frame: PartialFrame = Field(
        "drop",
        description="codes after the last full frame: drop them (counted) or report an error",
    )
    raw_dtype: RawDtype = Field(
        "int32", description="type of codes given as base64 or bytes; an .npy file names its own"
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
        ("audio*",), description="globs of field names; a field that matches is a block of codes"
    )
    start: str | tuple[TokenId, ...] = Field(
        "<audio>", description="start tag: text, encoded by the tokenizer, or a list of ids"
    )
    end: str | tuple[TokenId, ...] = Field("</audio>", description="end tag, like start")
    codebooks: int = Field(1, ge=1, le=1 << 13, description="codes in one frame")
    codebook_size: CodebookSize = Field(1024, description="codes outside [0, this) are errors")
    layout: CodebookLayout = Field(
        "flatten",
        description="flatten: frame by frame; delay: each codebook one step later than the one "
        "before; first: only the first codebook (the others are counted as thinned)",
    )
    separate_codebooks: bool = Field(
        True, description="ids of codebook k start at k times codebook_size"
    )
    fill: TokenId | None = Field(
        None,
        description="id of the empty cells of delay; default: the first id after all codes",
    )
    code_offset: TokenId = Field(
        0, description="added to codes and fill, for one shared vocabulary"
    )
    partial_frame: PartialFrame = Field(
        "error",
        description="codes after the last full frame: drop them (counted) or report an error",
    )
    raw_dtype: RawDtype = Field(
        "int32", description="type of codes given as base64 or bytes; an .npy file names its own"
    )

    @model_validator(mode="after")
    def _fill_is_no_code(self) -> AudioConfig:
        highest = self.codebook_size * (self.codebooks if self.separate_codebooks else 1)
        if self.fill is not None and self.fill < highest:
            raise ValueError(f"fill {self.fill} is also a code; set it to {highest} or more")
        return self


class ModalitiesConfig(Model):
    """How fields of codes become blocks of ids."""

    vision: VisionConfig = Field(default_factory=lambda: VisionConfig())
    audio: AudioConfig = Field(default_factory=lambda: AudioConfig())
    segments: tuple[str, ...] = Field(
        ("segments",),
        description="globs of field names; a field that matches is an interleaved document: a "
        "list of {type: text|vision|audio, text or codes, loss}",
    )

    def section(self, modality: str) -> VisionConfig | AudioConfig:
        """Return the settings of a modality by its name."""
        found: VisionConfig | AudioConfig = getattr(self, modality)
        return found
