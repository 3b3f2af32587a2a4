"""The config of `dataprep tokenize`, with sections for the other commands, so that one file does.

Every key but `keys` and those of HOW_READ is also a flag of `dataprep tokenize` (`add_bos` is
`--add-bos/--no-add-bos`), and all can be set with `--set key=value`, nested keys with dots:
`--set modalities.vision.max_frames=4`. Loading and overrides are in `load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dataprep.configs.base import (
    EXECUTOR,
    IS_PATH,
    OF_RAY,
    RAY_ADDRESS,
    TASK_TIMEOUT,
    AllowDuplicates,
    Auto,
    Bound,
    Compat,
    Count,
    DocumentKeys,
    End,
    EngineName,
    ExecutorName,
    FilePath,
    LossMasks,
    MaxErrors,
    MaxRatio,
    Model,
    NameOrPath,
    Needs,
    OnError,
    RecordForm,
    ShardBytes,
    SpecialInTextMode,
    TaskTimeout,
    TokenId,
    Workers,
    as_list,
)
from dataprep.configs.budget import BudgetConfig
from dataprep.configs.chat import ChatConfig
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.modalities import ModalitiesConfig
from dataprep.configs.objective import ObjectiveConfig
from dataprep.configs.pack import PackConfig
from dataprep.configs.pretokenized import Pretokenized
from dataprep.pipeline.errors import short
from dataprep.pipeline.guards.secrets import hidden
from dataprep.pipeline.types import DEFAULT_MAX_RATIO

# Keys that say how files without a schema are read.
HOW_READ = ("records", "document_end", "document_start", "loss_masks")

M = TypeVar("M", bound="InputConfig | TokenizeConfig")


# What records are, if not fields; and what then would never be looked at.
_KINDS = {"chat": "records are conversations", "pretokenized": "records are token ids"}
_UNUSED = {
    "chat": ("fields", "fields_from"),
    "pretokenized": ("fields", "fields_from", "chat", "objective", "budget", "prepend_text"),
}


def _is_of_one_kind(config: M) -> M:
    """Raise if there are settings beside chat or token ids that would never be looked at."""
    known = type(config).model_fields
    for kind, unused in _UNUSED.items():
        said = [k for k in unused if k in known and getattr(config, k) != known[k].default]
        if said and getattr(config, kind) is not None:
            value = getattr(config, said[0])
            shown = f" {short(repr(value), 60)}" if isinstance(value, str) else ""
            raise ValueError(
                f"has both {kind} and {said[0]}{shown}: {_KINDS[kind]}, or have fields; "
                f"leave {said[0]} out, or {kind}"
            )
    return config


def _is_bounded_once(config: M) -> M:
    """Raise if documents of a flat file are to end at a token, and to start at one as well."""
    if config.document_end is not None and config.document_start is not None:
        raise ValueError(
            f"has both document_end {config.document_end} and document_start "
            f"{config.document_start}; leave one of them out"
        )
    return config


class InputConfig(Model):
    """One input with settings of its own; a plain string is an input without any."""

    path: FilePath = Field(description="a path, glob, URL, hf:NAME, synthetic:KIND, or - for stdin")
    fields: str | None = Field(
        None, description="overrides the top-level fields and fields_from; not with fields_from"
    )
    fields_from: str | None = Field(
        None, description="overrides the top-level fields and fields_from; not with fields"
    )
    text_separator: str | None = Field(None, description="overrides the top-level text_separator")
    chat: ChatConfig | None = Field(None, description="overrides the top-level chat")
    objective: ObjectiveConfig | None = Field(None, description="overrides the top-level objective")
    pretokenized: Pretokenized | None = Field(
        None, description="overrides the top-level pretokenized"
    )
    records: RecordForm | None = Field(None, description="overrides the top-level records")
    document_end: TokenId | End | None = Field(
        None, description="overrides the top-level document_end and document_start"
    )
    document_start: TokenId | Bound | None = Field(
        None, description="overrides the top-level document_end and document_start"
    )
    loss_masks: LossMasks | None = Field(None, description="overrides the top-level loss_masks")

    _bounded = model_validator(mode="after")(_is_bounded_once)

    @model_validator(mode="after")
    def _has_one_kind_of_fields(self) -> Self:
        if self.fields is not None and self.fields_from is not None:
            raise ValueError(
                f"has both fields {short(repr(self.fields), 60)} and fields_from "
                f"{short(repr(self.fields_from), 60)}; leave one of them out"
            )
        return _is_of_one_kind(self)


def _input_of(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


def _hide_credentials(inputs: tuple[InputConfig, ...]) -> tuple[InputConfig, ...]:
    names = hidden(item.path for item in inputs)
    pairs = zip(inputs, names, strict=True)
    return tuple(item.model_copy(update={"path": name}) for item, name in pairs)


_Input = Annotated[
    InputConfig, BeforeValidator(_input_of, json_schema_input_type=str | InputConfig)
]
Inputs = Annotated[
    tuple[_Input, ...],
    IS_PATH,
    BeforeValidator(as_list, json_schema_input_type=_Input | tuple[_Input, ...]),
    AfterValidator(_hide_credentials),
]


def _has_fields_from(config: Any) -> bool:
    return any(item.fields_from is not None for item in (config, *config.inputs))


class TokenizeConfig(Model):
    """Raw corpora to a tokenized dataset."""

    _one_kind = model_validator(mode="after")(_is_of_one_kind)
    _bounded = model_validator(mode="after")(_is_bounded_once)

    goes_with: ClassVar[Mapping[str, Needs]] = {
        "ray_address": OF_RAY,
        "fields_index": Needs("fields_from", "fields_from", _has_fields_from),
        "fields": Needs("fields_from", "fields_from: null", lambda config: not config.fields_from),
    }

    inputs: Inputs = Field(
        (),
        description="what to read, in order: paths, globs, URLs, hf:NAME, synthetic:KIND, or - for "
        "JSONL from stdin",
    )
    tokenizer: NameOrPath = Field(
        "", description="tokenizer.json, a folder with one, a hub name, a .model, or bytes"
    )
    out: FilePath = Field(
        "", description="folder to write the dataset to, also in a bucket: s3://, gs://, az://"
    )

    fields: str = Field(
        "text",
        description="fields of a document, in order: [x] without loss, x*0.5 with half, x? left "
        "out where absent or null, a.b in an object, a+b joined, 'text' as it is",
    )
    fields_from: str | None = Field(
        None, description="key under which each record has a spec of its own"
    )
    fields_index: int | None = Field(
        None,
        ge=0,
        lt=1 << 31,
        description="which spec of a list to use; default: chosen by line number",
    )
    chat: ChatConfig | None = Field(
        None, description="records are conversations, rendered by a chat template"
    )
    pretokenized: Pretokenized | None = Field(
        None,
        description="records are token ids: the key of these, or a table of keys with those of "
        "labels or masks",
    )
    objective: ObjectiveConfig | None = Field(
        None, description="what is made of each document: fill in the middle, span corruption …"
    )
    budget: BudgetConfig | None = Field(
        None, description="how many tokens a document and its fields may have; longer ones are cut"
    )
    add_bos: bool | Auto = Field(
        "auto",
        description="put BOS before each document; auto: if the tokenizer has one that is not also "
        "its EOS, and never before token ids",
    )
    add_eos: bool | Auto = Field(
        "auto",
        description="put EOS after each document; auto: if the tokenizer has one, and never after "
        "token ids",
    )
    special_in_text: SpecialInTextMode = Field(
        "parse",
        description="text that spells a special token: parse it to that token, keep it as text, or "
        "treat the record as bad; counted in any case",
    )
    bos_token: str | TokenId | None = Field(
        None, description="BOS token or id; default: the tokenizer's"
    )
    eos_token: str | TokenId | None = Field(
        None, description="EOS token or id; default: the tokenizer's"
    )
    pad_token: str | TokenId | None = Field(
        None, description="pad token or id; default: the tokenizer's"
    )
    subfield_separator: str = Field(" ", description="put between the values of a+b")
    prepend_text: str = Field(
        "", description="put before the first field of a document, if that is text"
    )
    text_separator: str = Field(
        "", description="splits .txt files into documents; '': one document"
    )
    records: RecordForm | None = Field(
        None,
        description="what files without a schema hold: of ArrayRecord text, example or "
        "tokens_int32 and the like, default: as some records tell; the type of raw token ids "
        "(.npy, .bin) and of bytes in MDS; of Megatron sequences, default: documents",
    )
    document_end: TokenId | End | None = Field(
        None,
        description="of flat files of token ids: the token that ends a document, eos or an id; "
        "none: a file is one document",
    )
    document_start: TokenId | Bound | None = Field(
        None, description="the same for a token that starts a document"
    )
    loss_masks: LossMasks | None = Field(
        None,
        description="of flat files of token ids: OLD=NEW, which of the path of such a file makes "
        "that of its loss mask, a byte for each id; shards=masks for what export --to olmo writes",
    )
    field_special_tokens: bool | Auto = Field(
        "auto",
        description="let the tokenizer add its own special tokens around every text field; "
        "auto: only under compat lwm with fields_from, as LWM's vision processor does",
    )
    compat: Compat = Field("none", description="lwm: also reproduce LWM's quirks")
    modalities: ModalitiesConfig = Field(default_factory=lambda: ModalitiesConfig())

    engine: EngineName = Field(
        "auto",
        description="tokenizer engine; auto: fastokens, gigatoken, splintr or tokenizers, the "
        "first that is installed and proven exact; small jobs do not wait for a proof",
    )
    keys: DocumentKeys | None = Field(
        None,
        description="also write a hash of each document's content, and of the group it belongs to: "
        "content (equal ones together), or key:NAME (those with the same value there)",
    )
    limit: Count | None = Field(None, description="read only the first N records")
    shard_bytes: ShardBytes = Field(
        256 << 20, description="approximate limit on the size of a shard"
    )
    max_record_bytes: int = Field(
        1 << 30, ge=1024, le=1 << 40, description="a record longer than this is an error"
    )
    max_ratio: MaxRatio = DEFAULT_MAX_RATIO
    on_error: OnError = Field(
        "fail",
        description="bad records: stop, leave them out (counted), or list them in errors.jsonl too",
    )
    max_errors: MaxErrors = Field(
        None, description="stop the run if there are more bad records than this: N or P%"
    )
    allow_empty: bool = Field(False, description="do not fail if there are no records")
    allow_duplicates: AllowDuplicates = False
    workers: Workers | None = Field(
        None, description="number of processes; default: one per core, fewer for little data"
    )
    task_timeout: TaskTimeout = TASK_TIMEOUT
    executor: ExecutorName = EXECUTOR
    ray_address: str | None = RAY_ADDRESS
    encode: EncodeConfig = Field(
        default_factory=lambda: EncodeConfig(), description="settings of dataprep encode"
    )
    pack: PackConfig = Field(
        default_factory=lambda: PackConfig(), description="settings of dataprep pack"
    )

    def how_read(self, index: int) -> dict[str, str]:
        """Return how files without a schema of an input are read, as far as is said."""
        item = self.inputs[index]
        has_own = item.document_end is not None or item.document_start is not None
        ends = item if has_own else self
        masks = item.loss_masks or self.loss_masks
        given = (item.records or self.records, ends.document_end, ends.document_start, masks)
        named = zip(HOW_READ, given, strict=True)
        return {name: str(value) for name, value in named if value is not None}
