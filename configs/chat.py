"""The section `chat`: conversations, rendered by a chat template, with the loss on some roles."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dataprep.configs.base import Auto, Model, NameOrPath

ChatForm = Literal["auto", "openai", "sharegpt", "pairs", "alpaca", "completion"]
ChatSpan = Literal["turn", "reply"]
ChatHistory = Literal["as_rendered", "last_turn", "row_per_turn"]
TrainOn = Literal["assistant", "last", "all"]

# When nobody says another: results must not depend on the day.
DEFAULT_NOW = "2025-01-01T00:00:00"


def _is_time(value: str) -> str:
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be a time such as 2025-01-02T03:04:05") from None
    return value


def _as_text(value: Any) -> Any:
    is_time = isinstance(value, datetime.datetime | datetime.date)
    return value.isoformat() if is_time else value  # YAML knows times, too


class ChatConfig(Model):
    """Conversations instead of fields."""

    messages: str | None = Field(
        None,
        description="key of the messages; default: messages, conversations or conversation, or the "
        "columns of the form",
    )
    form: ChatForm = Field(
        "auto",
        description="how records hold conversations; auto: the one form that fits the first "
        "records",
    )
    tools: str = Field("tools", description="key of the tools, beside the messages")
    template: NameOrPath = Field(
        "",
        description="file of a chat template, or the name of one: of the tokenizer's, or chatml; "
        "default: the tokenizer's own, tool_use for records with tools if it has that",
    )
    variables: dict[str, Any] = Field(
        default_factory=dict,
        description="given to the template beside the messages: enable_thinking: false",
    )
    now: Annotated[str, BeforeValidator(_as_text), AfterValidator(_is_time)] = Field(
        DEFAULT_NOW, description="what templates that write the date take for the time"
    )
    train_on: TrainOn | tuple[str, ...] = Field(
        "assistant",
        description="whose turns have loss: assistant, last (the last assistant turn), all (every "
        "token), or a list of roles",
    )
    span: ChatSpan = Field(
        "turn",
        description="where the loss of a turn begins: after the role header, or (reply) after the "
        "whole generation prompt",
    )
    history: ChatHistory = Field(
        "as_rendered",
        description="earlier turns of templates that rewrite them: train on them as rendered, on "
        "the last turn only, or make a row of each turn",
    )
    weights: bool | Auto = Field(
        "auto",
        description="keep a loss weight for each token; auto: if one of the first records has a "
        "message with a weight",
    )
    media: bool = Field(
        False,
        description="parts of messages may be pictures, videos and sounds, as codes that become "
        "blocks",
    )
    stop: tuple[str, ...] = Field(
        (),
        description="tokens that end a turn, besides the EOS tokens of the tokenizer's files",
    )
    allow_special_in_content: bool = Field(
        False,
        description="let text of messages that spells a special token become it, instead of text",
    )
    replay: bool = Field(
        True,
        description="render conversations of a shape that was seen before by replaying what the "
        "template did; false: run the template for each",
    )
