"""The config of `dataprep encode`: its keys, their defaults, what is allowed."""

from __future__ import annotations

from pydantic import Field, model_validator

from dataprep.configs.base import Loudness, MaxErrors, Model, OnError

Settings = dict[str, bool | int | float | str]


class EncodeConfig(Model):
    """Raw pictures, videos or sounds to a dataset of codes."""

    inputs: tuple[str, ...] = Field(
        (), description="folders, files, tars, tables or globs of media, in order"
    )
    encoder: str = Field("", description="which encoder; --list shows all")
    weights: str | None = Field(None, description="file of the encoder's weights (safetensors)")
    settings: Settings = Field(
        default_factory=dict, description="settings of the encoder: --set settings.NAME=VALUE"
    )
    out: str = Field("", description="folder to write the dataset to")

    column: str | None = Field(
        None, description="which column of a table has the media; default: image or audio"
    )
    into: str | None = Field(
        None, description="name of the column for codes; default: vision or audio"
    )
    keep: tuple[str, ...] | None = Field(
        None, description="globs of the other columns to keep; default: all"
    )
    fps: float | None = Field(None, gt=0, description="videos: how many frames to take per second")
    frames: int | None = Field(
        None, ge=1, description="videos: how many frames to take, evenly spaced"
    )
    exif_rotate: bool = Field(
        False, description="rotate pictures as their EXIF says; off by default, as in LWM"
    )
    loudness: Loudness = Field(
        "peak", description="sounds: scale the peak to 1, or the RMS to 0.1, or change nothing"
    )

    limit: int | None = Field(None, ge=1, description="encode only the first N records")
    shard_records: int = Field(1024, ge=1, description="put at most this many records into a shard")
    on_error: OnError = Field(
        "fail",
        description="bad records: stop, leave them out (counted), or list them in errors.jsonl too",
    )
    max_errors: MaxErrors = Field(
        None, description="stop the run if there are more bad records than this: N or P%"
    )
    allow_empty: bool = Field(False, description="do not fail if there are no records")
    workers: int | None = Field(
        None, ge=1, description="number of processes; default: one per core"
    )

    @model_validator(mode="after")
    def _fps_or_frames(self) -> EncodeConfig:
        if self.fps is not None and self.frames is not None:
            raise ValueError("fps and frames both say how many frames to take; set one of them")
        return self
