"""The config of `dataprep tokenize`, with sections for the other commands: one file for them all.

Every key is also a flag of `dataprep tokenize` (`add_bos` is `--add-bos/--no-add-bos`) and can be
set with `--set key=value`, nested keys with dots: `--set modalities.vision.max_frames=4`. Loading
and overrides are in `load`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dataprep.configs.base import (
    Auto,
    Compat,
    EngineName,
    MaxErrors,
    Model,
    OnError,
)
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.modalities import ModalitiesConfig
from dataprep.configs.pack import PackConfig


class InputConfig(Model):
    """One input with settings of its own; a plain string is the same with none."""

    path: str = Field(description="a path, glob, URL, hf:NAME or synthetic:KIND")
    fields: str | None = Field(None, description="overrides the top-level fields")
    fields_from: str | None = Field(None, description="overrides the top-level fields_from")
    text_separator: str | None = Field(None, description="overrides the top-level text_separator")


def _input_of(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


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
