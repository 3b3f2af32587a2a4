"""The config of `dataprep encode`: what it holds, its defaults, what is allowed."""

from __future__ import annotations

from pydantic import Field, model_validator

from dataprep.configs.base import Loudness, MaxErrors, Model, OnError

Settings = dict[str, bool | int | float | str]


class EncodeConfig(Model):
    """Raw pictures, videos or sounds to a dataset of codes."""

    inputs: tuple[str, ...] = Field(
        (), description="folders, files, tars, tables or globs of media, in order"
    )
    encoder: str = Field("", description="which encoder; --list shows them")
    weights: str | None = Field(None, description="file of the encoder's weights (safetensors)")
    settings: Settings = Field(
        default_factory=dict, description="of the encoder: --set settings.NAME=VALUE"
    )
    out: str = Field("", description="folder of the dataset")

    column: str | None = Field(
        None, description="which column of a table has the media; default: image or audio"
    )
    into: str | None = Field(
        None, description="name of the column for codes; default: vision or audio"
    )
    keep: tuple[str, ...] | None = Field(
        None, description="globs over the other columns: which to keep; default: all"
    )
    fps: float | None = Field(None, gt=0, description="of videos: frames a second to take")
    frames: int | None = Field(None, ge=1, description="of videos: take so many, evenly spread")
    exif_rotate: bool = Field(
        False, description="turn pictures as their EXIF says; LWM does not, so neither do we"
    )
    loudness: Loudness = Field(
        "peak", description="of sounds: scale the peak to 1, or the RMS to 0.1, or leave it"
    )

    limit: int | None = Field(None, ge=1, description="encode only the first N records")
    shard_records: int = Field(1024, ge=1, description="records a shard, at most")
    on_error: OnError = Field(
        "fail", description="bad records: stop, leave out (counted), or list in errors.jsonl too"
    )
    max_errors: MaxErrors = Field(None, description="more bad records end the run: N or P%")
    allow_empty: bool = Field(False, description="zero records are not an error")
    workers: int | None = Field(None, ge=1, description="processes; default: all cores")

    @model_validator(mode="after")
    def _fps_or_frames(self) -> EncodeConfig:
        if self.fps is not None and self.frames is not None:
            raise ValueError("fps and frames say the same thing twice; set one of them")
        return self
