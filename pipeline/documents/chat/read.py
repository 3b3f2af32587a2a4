"""Turn a record into conversations, each message with its weight in the loss.

{"messages": [user, assistant, user, assistant]}   train_on: assistant   ─►  weights 0 1 0 1
                                                   history: row_per_turn ─►  0 1 · 0 0 0 1, two rows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dataprep.configs.chat import ChatConfig
from dataprep.pipeline.documents.chat.cutting import Details
from dataprep.pipeline.documents.chat.forms import FoundForm, read_kwargs, read_messages, read_tools
from dataprep.pipeline.documents.chat.media import Medium, media_in, take_media
from dataprep.pipeline.documents.chat.messages import ANNOTATIONS, parsed
from dataprep.pipeline.documents.chat.messages import is_bare as is_bare_message
from dataprep.pipeline.documents.chat.render import Conversation
from dataprep.pipeline.errors import short
from dataprep.pipeline.types import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedMessages:
    conversation: Conversation
    weights: tuple[float, ...]  # of each message
    details: Mapping[int, Details] = field(default_factory=dict)  # by message
    media: tuple[Medium, ...] = ()


def conversations_of(
    record: Record,
    found: FoundForm,
    config: ChatConfig,
    variables: Mapping[str, Any],
    *,
    drop_nulls: bool,
) -> list[WeighedMessages]:
    """Return the conversations of a record; ValueError says what is wrong with it."""
    given = read_messages(record, found, drop_nulls=drop_nulls)
    is_bare = all(map(is_bare_message, given))  # most are, and have none of what follows
    weights = _weights(given, config, is_bare=is_bare)
    kwargs = read_kwargs(record)
    messages, media = (
        (given, ()) if is_bare else take_media([_without_annotations(message) for message in given])
    )
    if media and not config.media:
        raise ValueError(f"{media[0].label} is {media[0].modality}; set chat.media to true")
    whole = WeighedMessages(
        conversation=Conversation(
            messages=messages,
            tools=read_tools(record, config.tools, drop_nulls=drop_nulls),
            variables={**variables, **kwargs} if kwargs else variables,
        ),
        weights=tuple(weights),
        details={} if is_bare else _details(given),
        media=media,
    )
    if not any(weights):
        roles = ", ".join(dict.fromkeys(str(message["role"]) for message in given))
        raise ValueError(f"has no message to train on (roles: {roles}); set chat.train_on")
    return _HISTORIES[config.history](whole)


def _weights(
    messages: Sequence[Mapping[str, Any]], config: ChatConfig, *, is_bare: bool
) -> list[float]:
    roles = [str(message["role"]) for message in messages]
    if config.train_on == "last":
        last = max((i for i, role in enumerate(roles) if role == "assistant"), default=-1)
        wanted = [i == last for i in range(len(roles))]
    else:
        trained = ("assistant",) if isinstance(config.train_on, str) else config.train_on
        wanted = [role in trained or config.train_on == "all" for role in roles]
    if is_bare:
        return list(map(float, wanted))
    return [_weight(m, float(w), i) for i, (m, w) in enumerate(zip(messages, wanted, strict=True))]


def _details(messages: Sequence[Mapping[str, Any]]) -> dict[int, Details]:
    """Return the characters of contents that have loss: axolotl's `training_detail`."""
    found: dict[int, Details] = {}
    for number, message in enumerate(messages):
        value = parsed(message.get("training_detail"), f"training_detail of message {number + 1}")
        if value is None:
            continue
        try:
            ranges = [
                (int(item["begin_offset"]), int(item["end_offset"]) + 1)
                for item in value
                if item["train"]
            ]
        except (TypeError, KeyError, ValueError):
            raise ValueError(
                f"message {number + 1} has training_detail {short(repr(value))}; use a list of "
                "begin_offset, end_offset and train"
            ) from None
        found[number] = tuple(ranges)
    return found


def _weight(message: Mapping[str, Any], usual: float, number: int) -> float:
    """Return what a message says about its own loss, else the usual."""
    weight = usual if message.get("weight") is None else 1.0
    for key in ("train", "training", "loss", "loss_mask"):
        value = message.get(key)
        if value is None:
            continue
        if value not in (0, 1):  # also true and false
            raise ValueError(
                f"message {number + 1} has {key} {short(repr(value))}; use true or false"
            )
        weight = float(value)
    value = message.get("weight")
    if value is None:
        return weight
    if not isinstance(value, int | float) or not 0 <= value <= 65504:
        raise ValueError(
            f"message {number + 1} has weight {short(repr(value))}; use a number from 0 to 65504"
        )
    return weight * float(value)


def _without_annotations(message: dict[str, Any]) -> dict[str, Any]:
    if not any(key in message for key in ANNOTATIONS):
        return message
    return {key: value for key, value in message.items() if key not in ANNOTATIONS}


def _turns(roles: Sequence[str]) -> list[int]:
    """Return where each turn of the assistant ends: before the next user, or at the end.

    >>> _turns(["system", "user", "assistant", "tool", "assistant", "user", "assistant"])
    [5, 7]
    """
    starts = [i for i, role in enumerate(roles) if role == "user"]
    return [*starts[1:], len(roles)]


def _last_turn(whole: WeighedMessages) -> list[WeighedMessages]:
    roles = [str(message["role"]) for message in whole.conversation.messages]
    last = max((i for i, role in enumerate(roles) if role == "user"), default=-1)
    weights = [weight if i > last else 0.0 for i, weight in enumerate(whole.weights)]
    if not any(weights):
        raise ValueError("has no loss on its last turn, and chat.history is last_turn")
    return [replace(whole, weights=tuple(weights))]


def _row_per_turn(whole: WeighedMessages) -> list[WeighedMessages]:
    messages = whole.conversation.messages
    found: list[WeighedMessages] = []
    start = 0
    for stop in _turns([str(message["role"]) for message in messages]):
        weights = [w if i >= start else 0.0 for i, w in enumerate(whole.weights[:stop])]
        start = stop
        if any(weights):
            part = replace(whole.conversation, messages=messages[:stop])
            num_media = sum(len(media_in(message)) for message in messages[:stop])
            found.append(
                WeighedMessages(
                    conversation=part,
                    weights=tuple(weights),
                    details={i: d for i, d in whole.details.items() if i < stop},
                    media=whole.media[:num_media],
                )
            )
    return found


_HISTORIES = {
    "as_rendered": lambda whole: [whole],
    "last_turn": _last_turn,
    "row_per_turn": _row_per_turn,
}
