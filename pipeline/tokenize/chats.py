"""Find, for each input that holds conversations, their form and the templates for them.

The first records of an input's first source that has any tell the form, which is part of the plan:
it does not depend on which worker reads what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dataprep.configs.chat import ChatConfig
from dataprep.configs.tokenize import TokenizeConfig
from dataprep.pipeline.documents.chat.forms import FoundForm, detect
from dataprep.pipeline.documents.chat.rules import ChatRules
from dataprep.pipeline.documents.chat.templates import ChatTemplates, file_of, find_templates
from dataprep.pipeline.documents.objectives.preference import COMPLETION, PROMPT
from dataprep.pipeline.documents.rules import chat_of, pairs_of
from dataprep.pipeline.engine import TokenizerFiles
from dataprep.pipeline.engine.hub import fetch_templates
from dataprep.pipeline.errors import ConfigError
from dataprep.pipeline.hashes import fingerprint
from dataprep.pipeline.sources import format_of, read_source
from dataprep.pipeline.types import Record, Source

LOOKED_AT = 64  # records of a source
EMPTY = FoundForm(form="openai", keys=("messages",))  # of no record, so that any form would do
PAIRED = FoundForm(form="completion", keys=(PROMPT, COMPLETION))  # rows of preferences


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlan:
    """What was found out about the conversations of one input."""

    templates: ChatTemplates
    found: FoundForm
    drop_nulls: bool
    stops: bool = True  # a token that ends a turn has loss

    def rules(self, config: ChatConfig, files: TokenizerFiles) -> ChatRules:
        return ChatRules(
            config=config,
            templates=self.templates,
            found=self.found,
            files=files,
            drop_nulls=self.drop_nulls,
        )

    def identity(self) -> dict[str, Any]:
        """Return what the documents depend on, beside the config."""
        return {
            "form": self.found.form,
            "keys": list(self.found.keys),
            "has_weights": self.found.has_weights,
            "templates": {n: fingerprint({"source": s}) for n, s in self.templates.sources.items()},
            "variables": dict(self.templates.variables),
            "stop": list(self.templates.stop),
        }


def find_chats(
    config: TokenizeConfig,
    files: TokenizerFiles,
    sources: Sequence[Source],
    inputs: Sequence[int],
) -> tuple[ChatPlan | None, ...]:
    """Return the chat of each input; None for those that have fields, or of which nothing is
    read."""
    found: list[ChatPlan | None] = []
    for i, chat in enumerate(_chats(config, files)):
        own = [source for source, number in zip(sources, inputs, strict=True) if number == i]
        if chat is None or not own:
            found.append(None)
            continue
        has_schema = all(format_of(source.kind).schema(source) is not None for source in own)
        found.append(_plan(config, i, chat, files, partial(_form, chat, own), has_schema))
    return tuple(found)


def chats_like(
    config: TokenizeConfig, files: TokenizerFiles, examples: Sequence[Record], name: str
) -> tuple[ChatPlan | None, ...]:
    """Return the chat of each input, as if these were its first records."""

    def plan(i: int, chat: ChatConfig) -> ChatPlan:
        tell = partial(
            detect, examples[:LOOKED_AT], chat.messages or "", chat.form, name, chat.weights
        )
        return _plan(config, i, chat, files, tell, has_schema=False)

    chats = _chats(config, files)
    return tuple(None if chat is None else plan(i, chat) for i, chat in enumerate(chats))


def _chats(config: TokenizeConfig, files: TokenizerFiles) -> list[ChatConfig | None]:
    chats = [chat_of(config, i) for i in range(len(config.inputs))]
    if any(chats) and files.path and not files.note:  # a note: the hub did not answer
        fetch_templates(config.tokenizer, Path(files.path))
    return chats


def _plan(
    config: TokenizeConfig,
    index: int,
    chat: ChatConfig,
    files: TokenizerFiles,
    tell: Callable[[], FoundForm],
    has_schema: bool,
) -> ChatPlan:
    paired = replace(PAIRED, has_weights=chat.weights is True) if pairs_of(config, index) else None
    plan = ChatPlan(
        templates=find_templates(chat, files), found=paired or tell(), drop_nulls=has_schema
    )
    return replace(plan, stops=_check_templates(plan.rules(chat, files)))


def with_weights(config: TokenizeConfig) -> TokenizeConfig:
    """Return the config, by which messages have weights unless it says otherwise."""

    def told(chat: ChatConfig | None) -> ChatConfig | None:
        is_open = chat is not None and chat.weights == "auto"
        return chat.model_copy(update={"weights": True}) if chat and is_open else chat

    inputs = tuple(item.model_copy(update={"chat": told(item.chat)}) for item in config.inputs)
    return config.model_copy(update={"chat": told(config.chat), "inputs": inputs})


def template_files(config: TokenizeConfig) -> list[str]:
    """Return the files of chat templates that the config names."""
    chats = [chat_of(config, i) for i in range(len(config.inputs))]
    found = {file_of(chat) for chat in chats if chat is not None}
    return sorted(found - {""})


def _form(chat: ChatConfig, sources: Sequence[Source]) -> FoundForm:
    for source in sources:
        records = list(_first_records(source))
        if records:
            return detect(records, chat.messages or "", chat.form, source.path, chat.weights)
    return EMPTY  # files of a night on which nothing came in


def _first_records(source: Source) -> Iterator[Record]:
    left = LOOKED_AT
    for _, records in read_source(source, None, batch_bytes=1 << 16):
        for record in records.as_rows():
            if not left:
                return
            left -= 1
            yield record


def _check_templates(rules: ChatRules) -> bool:
    """Return whether the loss is also on a token that ends a turn; raise if it is no template."""
    from dataprep.pipeline.documents.chat.batch import layer_of, trains_to_stop  # and jinja2
    from dataprep.pipeline.documents.chat.bounds import TemplateFailedError

    for has_tools in (False, True):
        try:
            layer_of(rules, has_tools=has_tools)
        except TemplateFailedError as error:
            raise ConfigError(f"the chat template {error}; name another: --chat-template") from None
    return trains_to_stop(rules)
