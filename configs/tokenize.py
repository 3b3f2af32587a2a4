"""The config of `dataprep tokenize`, with sections for the other commands, so that one file does.

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
    """One input with settings of its own; a plain string is an input without any."""

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
    out: str = Field("", description="folder to write the dataset to")

    fields: str = Field(
        "text",
        description="fields of a document, in order: [x] without loss, x*0.5 with half, a+b joined",
    )
    fields_from: str | None = Field(
        None, description="key under which each record has a spec of its own"
    )
    fields_index: int | None = Field(
        None, ge=0, description="which spec of a list to use; default: chosen by line number"
    )
    add_bos: bool | Auto = Field(
        "auto", description="put BOS before each document; auto: if the tokenizer has one"
    )
    add_eos: bool | Auto = Field(
        "auto", description="put EOS after each document; auto: if the tokenizer has one"
    )
    bos_token: str | int | None = Field(
        None, description="BOS token or id; default: the tokenizer's"
    )
    eos_token: str | int | None = Field(
        None, description="EOS token or id; default: the tokenizer's"
    )
    pad_token: str | int | None = Field(
        None, description="pad token or id; default: the tokenizer's"
    )
    subfield_separator: str = Field(" ", description="put between the values of a+b")
    prepend_text: str = Field(
        "", description="put before the first field of a document, if that is text"
    )
    text_separator: str = Field(
        "", description="splits .txt files into documents; '': one document"
    )
    field_special_tokens: bool | Auto = Field(
        "auto",
        description="let the tokenizer add its own special tokens around every text field; "
        "auto: only under compat lwm with fields_from, as LWM's vision processor does",
    )
    compat: Compat = Field("none", description="lwm: also reproduce LWM's quirks")
    modalities: ModalitiesConfig = Field(default_factory=lambda: ModalitiesConfig())

    engine: EngineName = Field(
        "auto", description="tokenizer engine; auto: the fastest that is proven exact"
    )
    limit: int | None = Field(None, ge=1, description="read only the first N records")
    shard_bytes: int = Field(
        256 << 20, ge=1 << 16, description="approximate limit on the size of a shard"
    )
    max_record_bytes: int = Field(
        1 << 30, ge=1024, description="a record longer than this is an error"
    )
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
    encode: EncodeConfig = Field(
        default_factory=lambda: EncodeConfig(), description="settings of dataprep encode"
    )
    pack: PackConfig = Field(
        default_factory=lambda: PackConfig(), description="settings of dataprep pack"
    )
