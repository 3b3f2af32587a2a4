"""The forms in which datasets hold conversations, and how each is read.

    openai      {"messages": [{"role": "user", "content": "hi"}, …], "tools": […]}
    sharegpt    {"conversations": [{"from": "human", "value": "hi"}, …], "system": …}
    pairs       {"conversation": [{"human": "hi", "assistant": "hello"}, …]}
    alpaca      {"instruction": "Add", "input": "1 2", "output": "3", "history": [["q", "a"]]}
    completion  {"prompt": "hi", "completion": "hello"}      texts, or lists of messages

FORMS is the table. `detect` looks at several records: exactly one form must fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dataprep.pipeline.documents.chat.messages import clean_messages, clean_tools, parsed
from dataprep.pipeline.documents.lookup import find_value
from dataprep.pipeline.errors import ConfigError, short
from dataprep.pipeline.sources.keys import CONVERSATIONS
from dataprep.pipeline.types import Record

LIST_KEYS = CONVERSATIONS
KWARGS = "chat_template_kwargs"
RESERVED = frozenset(("messages", "tools", "documents", "add_generation_prompt"))
SYSTEM = ("system", "system_prompt", "system_message")  # keys of a text beside the messages
BESIDE = (*SYSTEM, KWARGS)  # keys of a record that every form may have
ROLES = {
    **dict.fromkeys(("human", "user", "prompter"), "user"),
    **dict.fromkeys(("gpt", "assistant", "bot", "chatgpt", "bing", "bard", "model"), "assistant"),
    "system": "system",
    **dict.fromkeys(("observation", "tool", "tool_response", "function_response"), "tool"),
    "function_call": "function_call",
}
PROMPTS = ("prompt", "query", "question", "problem")
COMPLETIONS = ("completion", "response", "answer", "output", "solution")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundForm:
    """The form of an input's records, and under which keys the conversation is."""

    form: str
    keys: tuple[str, ...]  # what the form needs
    maybe: tuple[str, ...] = ()
    has_weights: bool = False  # messages have weights of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    name: str
    find: Callable[[Record, str], FoundForm | None]  # given the key that the user named, or ""
    read: Callable[[Record, FoundForm, bool], list[dict[str, Any]]]


def detect(
    records: Sequence[Record], key: str, form: str, place: str, weights: bool | str = "auto"
) -> FoundForm:
    """Return the one form that some records have; ConfigError if there is none, or two."""
    known = [FORMS[form]] if form != "auto" else list(FORMS.values())
    found: list[FoundForm] = []
    for each in known:
        # A bad record among the first says nothing of the form, and is refused by itself.
        fits = [each.find(record, key) for record in records]
        found += dict.fromkeys(fit for fit in fits if fit is not None)
    if len(found) == 1:
        has = any(_has_weights(record, found[0]) for record in records)
        return replace(found[0], has_weights=has if weights == "auto" else bool(weights))
    keys = ", ".join(sorted({k for record in records for k in record})[:20])
    if found:
        both = " and ".join(f"{fit.form} ({', '.join(fit.keys)})" for fit in found)
        raise ConfigError(
            f"the records of {place} have two forms of conversation: {both}; name the key with "
            "--chat KEY, or the form with --set chat.form=NAME"
        )
    named = f" under {key!r}" if key else ""
    forms = ", ".join(FORMS) if form == "auto" else form
    raise ConfigError(
        f"the first records of {place} have no conversation{named} (keys: {keys}; looked for: "
        f"{forms}); name the key of the messages with --chat KEY"
    )


def _has_weights(record: Record, found: FoundForm) -> bool:
    lists = [_items(record, key) or () for key in found.keys]
    return any(
        isinstance(message, dict) and message.get("weight") not in (None, 0, 1)
        for messages in lists
        for message in messages
    )


def read_messages(record: Record, found: FoundForm, *, drop_nulls: bool) -> list[dict[str, Any]]:
    """Return the messages of a record; the system text beside them comes first."""
    messages = FORMS[found.form].read(record, found, drop_nulls)
    given = {
        key: value for key in SYSTEM if isinstance(value := record.get(key), str) and value.strip()
    }
    own = [message.get("content") for message in messages if message.get("role") == "system"]
    texts = list(dict.fromkeys(given.values()))
    if not texts or own == texts:
        return messages
    if own or len(texts) > 1:
        raise ValueError(
            f"has several system texts ({', '.join([*given, *(['a message'] if own else [])])}); "
            "leave all but one of them out"
        )
    return [{"role": "system", "content": texts[0]}, *messages]


def read_tools(record: Record, key: str, *, drop_nulls: bool) -> list[Any] | None:
    return clean_tools(record.get(key), key, drop_nulls=drop_nulls)


def read_kwargs(record: Record) -> dict[str, Any]:
    value = parsed(record.get(KWARGS), f"field {KWARGS!r}")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"field {KWARGS!r} must be an object, got {short(repr(value))}")
    own = sorted(RESERVED & value.keys())
    if own:
        raise ValueError(f"field {KWARGS!r} sets {own[0]!r}, which is not its own")
    return {key: inner for key, inner in value.items() if inner is not None}


def _items(record: Record, key: str) -> list[Any] | None:
    """Return the list under a key, of which the first item is an object; None if there is none."""
    try:
        value = parsed(find_value(record, key), key)
    except ValueError:
        return None
    is_list = isinstance(value, list) and value and isinstance(value[0], dict)
    return value if is_list else None


def _in_list(
    name: str, fits: Callable[[Mapping[str, Any]], bool]
) -> Callable[..., FoundForm | None]:
    def find(record: Record, key: str) -> FoundForm | None:
        for each in (key,) if key else LIST_KEYS:
            items = _items(record, each)
            if items is not None and fits(items[0]):
                return FoundForm(form=name, keys=(each,))
        return None

    return find


def _read_openai(record: Record, found: FoundForm, drop_nulls: bool) -> list[dict[str, Any]]:
    (key,) = found.keys
    return clean_messages(_given(record, key), key, drop_nulls=drop_nulls)


def _read_sharegpt(record: Record, found: FoundForm, drop_nulls: bool) -> list[dict[str, Any]]:
    (key,) = found.keys
    messages: list[dict[str, Any]] = []
    for i, item in enumerate(parsed(_given(record, key), f"field {key!r}")):
        where = f"field '{key}[{i}]'"
        if not isinstance(item, dict) or not isinstance(item.get("from"), str):
            raise ValueError(f"{where} must have 'from' and 'value', got {short(repr(item))}")
        role = ROLES.get(item["from"].lower())
        if role is None:
            raise ValueError(f"{where} is from {item['from']!r}; known: {', '.join(ROLES)}")
        rest = {k: v for k, v in item.items() if k not in ("from", "value") and v is not None}
        value = item.get("value")
        if role == "function_call":
            calls = parsed(value, where)
            messages.append(
                {
                    "role": "assistant",
                    "tool_calls": calls if isinstance(calls, list) else [calls],
                    **rest,
                }
            )
        else:
            messages.append({"role": role, "content": value, **rest})
    return clean_messages(messages, key, drop_nulls=drop_nulls)


def _read_pairs(record: Record, found: FoundForm, drop_nulls: bool) -> list[dict[str, Any]]:
    (key,) = found.keys
    messages: list[dict[str, Any]] = []
    for i, item in enumerate(parsed(_given(record, key), f"field {key!r}")):
        if not isinstance(item, dict):
            raise ValueError(f"field '{key}[{i}]' must be an object, got {short(repr(item))}")
        unknown = [name for name, value in item.items() if name not in ROLES and value is not None]
        if unknown:
            raise ValueError(f"field '{key}[{i}]' has an unknown key {unknown[0]!r}")
        said = {ROLES[name]: value for name, value in item.items() if value is not None}
        order = ("system", "user", "assistant")
        messages += [{"role": role, "content": said[role]} for role in order if role in said]
    return clean_messages(messages, key, drop_nulls=drop_nulls)


def _find_alpaca(record: Record, key: str) -> FoundForm | None:
    if key or not isinstance(record.get("instruction"), str) or "output" not in record:
        return None
    return FoundForm(form="alpaca", keys=("instruction", "output"), maybe=("input", "history"))


def _read_alpaca(record: Record, found: FoundForm, drop_nulls: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for turn in record.get("history") or ():
        if not isinstance(turn, list) or len(turn) != 2:
            raise ValueError(f"field 'history' must hold pairs of texts, got {short(repr(turn))}")
        messages += [
            {"role": "user", "content": turn[0]},
            {"role": "assistant", "content": turn[1]},
        ]
    texts = [_given(record, "instruction"), record.get("input") or ""]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"field 'input' must be text, got {short(repr(texts[1]))}")
    asked = "\n".join(text for text in texts if text)
    messages += [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": _given(record, "output")},
    ]
    return clean_messages(messages, "history", drop_nulls=drop_nulls)


def _find_completion(record: Record, key: str) -> FoundForm | None:
    if key:
        return None
    prompts = [name for name in PROMPTS if _is_side(record.get(name))]
    answers = [name for name in COMPLETIONS if _is_side(record.get(name))]
    if len(prompts) != 1 or len(answers) != 1:
        return None
    return FoundForm(form="completion", keys=(prompts[0], answers[0]))


def _is_side(value: Any) -> bool:
    return isinstance(value, str) or _are_messages(value)


def _are_messages(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return is_list and "role" in value[0]


def _side(value: Any, role: str) -> Any:
    """Return a prompt or completion as messages: a list, JSON of one, or the text of one."""
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        try:
            found = json.loads(value)
        except ValueError:
            found = None
        value = found if _are_messages(found) else value
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def _read_completion(record: Record, found: FoundForm, drop_nulls: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for key, role in zip(found.keys, ("user", "assistant"), strict=True):
        side = _side(_given(record, key), role)
        cleaned = clean_messages(side, key, drop_nulls=drop_nulls)
        # The loss is on the completion alone.
        messages += cleaned if role == "assistant" else [{**m, "train": False} for m in cleaned]
    return messages


def _given(record: Record, key: str) -> Any:
    value = find_value(record, key)
    if value is None:
        keys = ", ".join(sorted(record)[:20])
        raise ValueError(f"field {key!r} is missing or null (keys: {keys}); set --chat KEY")
    return value


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form(
            name="openai",
            find=_in_list("openai", lambda item: "role" in item),
            read=_read_openai,
        ),
        Form(
            name="sharegpt",
            find=_in_list("sharegpt", lambda item: "from" in item and "role" not in item),
            read=_read_sharegpt,
        ),
        Form(
            name="pairs",
            find=_in_list(
                "pairs", lambda item: "assistant" in item and bool({"human", "user"} & item.keys())
            ),
            read=_read_pairs,
        ),
        Form(name="alpaca", find=_find_alpaca, read=_read_alpaca),
        Form(name="completion", find=_find_completion, read=_read_completion),
    )
}
