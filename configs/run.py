"""The config of `dataprep run`: several corpora, each tokenized, split and packed in its own way.

    tokenizer: gpt2/tokenizer.json         the keys of `dataprep tokenize`: for all corpora …
    corpora:
      web:  {inputs: [raw/web/*.jsonl]}
      chat: {inputs: [raw/chat.jsonl], chat: {}}        … and what one of them does otherwise
    splits: {train: 0.99, validation: 0.01}
    seq_lens: [2048, 8192]
    out: data

Without `corpora`, the inputs of the file are one corpus, called `data`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dataprep.configs.base import FilePath, Model
from dataprep.configs.encode import EncodeConfig
from dataprep.configs.flags import flags_told, in_config
from dataprep.configs.load import merged
from dataprep.configs.pack import PackConfig
from dataprep.configs.tokenize import TokenizeConfig

OnChanged = Literal["error", "rebuild", "ignore"]
Dedup = Literal["none", "exact"]

OF_ALL_STEPS = ("workers", "executor", "ray_address")  # said once, but in a section of its own
ONLY_CORPUS = "data"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def _names_folder(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} names a folder: letters, digits, '_', '-' and '.' are allowed")
    return name


FolderName = Annotated[str, AfterValidator(_names_folder)]
Rate = Annotated[float, Field(gt=0, le=1)]
SeqLen = Annotated[int, Field(ge=1, le=1 << 26)]


class CorpusConfig(TokenizeConfig):
    """One corpus: its inputs, and whatever is done otherwise than for the others."""


class RunConfig(TokenizeConfig):
    """Raw data to packed datasets, again and again as the data grows."""

    out: Annotated[FilePath, AfterValidator(os.path.expanduser)] = Field(
        "", description="folder for the datasets of all corpora"
    )
    corpora: dict[FolderName, CorpusConfig] = Field(
        default_factory=dict,
        description="by name: inputs, and any key of tokenize, encode and pack that differs",
    )
    splits: dict[FolderName, Rate] = Field(
        default_factory=dict,
        description="share of the documents for each split, such as {train: 0.99, validation: "
        "0.01}; none: one dataset of all",
    )
    split_by: str = Field(
        "content",
        description="what decides the split of a document: its content, or key:NAME, the value of "
        "a key of its record",
    )
    dedup: Dedup = Field(
        "none", description="exact: of documents of the same content, the first is kept"
    )
    seq_lens: tuple[SeqLen, ...] = Field(
        (), description="pack rows of each of these lengths; default: pack.seq_len"
    )
    mixture: dict[FolderName, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict,
        description="share of each corpus in a loader's rows; default: by its tokens",
    )
    on_changed: OnChanged = Field(
        "error",
        description="inputs that changed or are gone since they were read: stop, make the corpus "
        "anew, or keep what was made of them",
    )
    append: bool = Field(
        False,
        description="read only the new lines of a .jsonl that was appended to; its old lines are "
        "compared with what was read",
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.inputs and self.corpora:
            raise ValueError("has inputs and corpora; name the inputs in one of the corpora")
        shares = sum(Fraction(str(rate)) for rate in self.splits.values())
        if self.splits and shares != 1:
            raise ValueError(f"splits: the rates sum to {float(shares):g}, they must sum to 1")
        if self.split_by != "content" and not re.fullmatch("key:.+", self.split_by):
            raise ValueError(f"split_by {self.split_by!r} must be content or key:NAME")
        unknown = sorted(set(self.mixture) - set(self.names))
        if unknown:
            there = ", ".join(self.names)
            raise ValueError(f"mixture names {unknown[0]!r}, but the corpora are {there}")
        twice = [length for length, count in Counter(self.seq_lens).items() if count > 1]
        if twice:
            raise ValueError(f"seq_lens names {twice[0]} twice")
        return self

    @property
    def names(self) -> list[str]:
        """Return the names of the corpora, in order."""
        return [*self.corpora] or [ONLY_CORPUS]

    def tokenize(self, name: str) -> TokenizeConfig:
        """Return how a corpus is tokenized; its `encode` and `pack` are how it is encoded and
        packed."""
        run_keys = {*RunConfig.model_fields} - {*TokenizeConfig.model_fields}
        shared: dict[str, Any] = self.model_dump(exclude_unset=True, exclude={*run_keys, "out"})
        own = self.corpora.get(name)
        if own is not None:
            shared = merged(shared, own.model_dump(exclude_unset=True))
        of_all = {key: shared[key] for key in OF_ALL_STEPS if key in shared}
        for section in ("encode", "pack") if of_all else ():
            shared[section] = {**of_all, **shared.get(section, {})}
        # Always keyed by content, so that what was forgotten is known when it comes in again.
        keys = {"keys": self.split_by if self.splits else "content"}
        return TokenizeConfig.model_validate({**shared, **keys})

    def pack_all(self, name: str) -> list[PackConfig]:
        """Return how a corpus is packed, once for each length."""
        pack = self.tokenize(name).pack
        lengths = self.seq_lens or ((pack.seq_len,) if pack.seq_len else ())
        return [pack.model_copy(update={"seq_len": length}) for length in lengths]


def keys_told(verb: str = "") -> AbstractContextManager[None]:
    """Let errors of steps speak of keys of the config: `run` has few flags of its own. What encode
    does is set in its section, though it may be the name of a key of tokenize, too."""
    models: dict[str, type[Model]] = {"": RunConfig, "pack.": PackConfig, "encode.": EncodeConfig}
    if verb == "encode":
        models = {"encode.": EncodeConfig, **models}
    return flags_told(models, in_config, kept=("out", "workers"))
