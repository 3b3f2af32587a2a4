"""The config of `dataprep encode`: its keys, their defaults, what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from dataprep.configs.augment import AugmentConfig
from dataprep.configs.base import (
    COLOUR,
    EXECUTOR,
    IS_PATH,
    OF_RAY,
    RAY_ADDRESS,
    TASK_TIMEOUT,
    Addresses,
    AllowDuplicates,
    Count,
    ExecutorName,
    FilePath,
    Fit,
    Loudness,
    MaxErrors,
    MaxRatio,
    Model,
    Needs,
    OnError,
    Resize,
    TaskTimeout,
    Workers,
)
from dataprep.pipeline.types import DEFAULT_MAX_RATIO

Settings = dict[str, bool | int | float | str]
Colour = Annotated[str, Field(pattern=COLOUR)]


class EncodeConfig(Model):
    """Raw pictures, videos or sounds to a dataset of codes."""

    goes_with: ClassVar[Mapping[str, Needs]] = {"ray_address": OF_RAY}

    inputs: Addresses = Field(
        (), description="folders, files, tars, tables or globs of media, in order"
    )
    encoder: str = Field("", description="which encoder; --list shows all")
    weights: Annotated[str | None, IS_PATH] = Field(
        None, description="file of the encoder's weights (safetensors)"
    )
    settings: Settings = Field(
        default_factory=dict, description="settings of the encoder: --set settings.NAME=VALUE"
    )
    out: FilePath = Field(
        "", description="folder to write the dataset to, also in a bucket: s3://, gs://, az://"
    )

    column: str | None = Field(
        None, description="which column of a table has the media; default: image or audio"
    )
    into: str | None = Field(
        None, description="name of the column for codes; default: vision or audio"
    )
    keep: tuple[str, ...] | None = Field(
        None, description="globs of the other columns to keep; default: all"
    )
    fps: float | None = Field(
        None, ge=1e-6, le=1e6, description="videos: how many frames to take per second"
    )
    frames: Count | None = Field(None, description="videos: how many frames to take, evenly spaced")
    exif_rotate: bool = Field(
        False, description="rotate pictures as their EXIF says; off by default, as in LWM"
    )
    resize: Resize = Field("bicubic", description="pictures: how they are scaled")
    fit: Fit = Field(
        "crop",
        description="pictures: cut off at the centre what the encoder's height and width leave no "
        "room for, as LWM does, or stretch all of it",
    )
    grayscale: bool = Field(False, description="pictures: make them grey")
    background: Colour | None = Field(
        None,
        description="pictures: the colour behind transparent pixels, white, black or #rrggbb; "
        "default: alpha is dropped, as LWM does",
    )
    augment: AugmentConfig | None = Field(
        None, description="pictures: change them at random, in several variants"
    )
    duration: float | None = Field(
        None,
        gt=0,
        le=10_000_000,
        description="sounds: seconds; longer ones are cut off, shorter ones end in silence",
    )
    loudness: Loudness = Field(
        "peak", description="sounds: scale the peak to 1, or the RMS to 0.1, or change nothing"
    )

    max_frames: Count = Field(
        1 << 16, description="videos: more frames than this in one record are an error"
    )
    max_pixels: int = Field(
        178_956_970,
        ge=1,
        lt=1 << 40,
        description="pictures: one with more pixels than this is an error",
    )
    max_seconds: int = Field(
        7200,
        ge=1,
        le=10_000_000,
        description="sounds: one that is longer than this is an error, or has more samples than "
        "this takes at 48 kHz",
    )
    max_ratio: MaxRatio = DEFAULT_MAX_RATIO
    allow_outside: bool = Field(
        False, description="let the rows of a table name files outside its folder"
    )
    allow_duplicates: AllowDuplicates = False

    limit: Count | None = Field(None, description="encode only the first N records")
    shard_records: Count = Field(1024, description="put at most this many records into a shard")
    on_error: OnError = Field(
        "fail",
        description="bad records: stop, leave them out (counted), or list them in errors.jsonl too",
    )
    max_errors: MaxErrors = Field(
        None, description="stop the run if there are more bad records than this: N or P%"
    )
    allow_empty: bool = Field(False, description="do not fail if there are no records")
    workers: Workers | None = Field(None, description="number of processes; default: one per core")
    task_timeout: TaskTimeout = TASK_TIMEOUT
    executor: ExecutorName = EXECUTOR
    ray_address: str | None = RAY_ADDRESS

    @model_validator(mode="after")
    def _fps_or_frames(self) -> EncodeConfig:
        if self.fps is not None and self.frames is not None:
            raise ValueError("fps and frames both say how many frames to take; set one of them")
        return self
