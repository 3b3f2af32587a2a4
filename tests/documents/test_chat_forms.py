"""The forms in which datasets hold conversations, and what is in their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dataprep.configs.chat import ChatConfig
from dataprep.pipeline.documents.chat.forms import detect, read_messages, read_tools
from dataprep.pipeline.documents.chat.read import conversations_of
from dataprep.pipeline.errors import ConfigError
from support.chat import call, message

OPENAI = [message("user", "hi"), message("assistant", "yo")]
SCHEMA = {"name": "f", "parameters": {"type": "object"}}
WRAPPED = {"type": "function", "function": SCHEMA}


def read(record: dict[str, Any], key: str = "", form: str = "auto", **more: Any) -> list[Any]:
    found = detect([record], key, form, "a.jsonl")
    return read_messages(record, found, **{"drop_nulls": False, **more})


@pytest.mark.parametrize(
    ("form", "record"),
    [
        ("openai", {"messages": OPENAI}),
        ("openai", {"messages": json.dumps(OPENAI)}),
        ("openai", {"conversation": OPENAI}),
        (
            "sharegpt",
            {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]},
        ),
        ("pairs", {"conversation": [{"human": "hi", "assistant": "yo"}]}),
        ("alpaca", {"instruction": "hi", "input": "", "output": "yo"}),
        ("completion", {"prompt": "hi", "completion": "yo"}),
        ("completion", {"question": "hi", "answer": "yo"}),
        ("completion", {"prompt": OPENAI[:1], "completion": OPENAI[1:]}),
    ],
)
def test_each_form_is_found_and_gives_the_same_messages(form: str, record: dict[str, Any]) -> None:
    found = detect([record, record], "", "auto", "a.jsonl")
    assert found.form == form
    messages = read_messages(record, found, drop_nulls=False)
    assert [(m["role"], m["content"]) for m in messages] == [("user", "hi"), ("assistant", "yo")]


def test_two_forms_that_fit_are_an_error_that_names_both() -> None:
    record = {"messages": OPENAI, "prompt": "hi", "completion": "yo"}
    with pytest.raises(ConfigError, match=r"openai \(messages\) and completion .*--chat KEY"):
        detect([record], "", "auto", "a.jsonl")
    assert detect([record], "messages", "auto", "a.jsonl").form == "openai"
    assert detect([record], "", "completion", "a.jsonl").form == "completion"


def test_records_without_a_conversation_are_told_with_their_keys() -> None:
    with pytest.raises(ConfigError, match=r"a\.jsonl have no conversation.*keys: text.*--chat KEY"):
        detect([{"text": "a"}], "", "auto", "a.jsonl")
    with pytest.raises(ConfigError, match="under 'chat'"):
        detect([{"messages": OPENAI}], "chat", "auto", "a.jsonl")


def test_a_bad_record_among_the_first_does_not_hide_the_form() -> None:
    records = [{"messages": []}, {"messages": OPENAI}, {"other": 1}]
    assert detect(records, "", "auto", "a.jsonl").form == "openai"
    with pytest.raises(ConfigError, match="two forms"):
        detect([*records, {"question": "a", "answer": "b"}], "", "auto", "a.jsonl")


@pytest.mark.parametrize("key", ["system", "system_prompt", "system_message"])
def test_a_system_text_may_stand_beside_the_messages(key: str) -> None:
    system = message("system", "be exact")
    assert read({"messages": OPENAI, key: "be exact"}) == [system, *OPENAI]
    assert read({"messages": [system, *OPENAI], key: "be exact"}) == [system, *OPENAI]
    assert read({"messages": OPENAI, key: " "}) == OPENAI
    with pytest.raises(ValueError, match=rf"several system texts \({key}, a message\)"):
        read({"messages": [system, *OPENAI], key: "be brief"})


def test_two_system_texts_must_be_the_same() -> None:
    both = {"messages": OPENAI, "system": "x", "system_prompt": "x"}
    assert read(both) == [message("system", "x"), *OPENAI]
    with pytest.raises(ValueError, match=r"several system texts \(system, system_prompt\)"):
        read({**both, "system": "y"})


def test_alpaca_joins_its_input_and_has_history_and_system() -> None:
    record = {
        "instruction": "add",
        "input": "1 2",
        "output": "3",
        "history": [["q", "a"]],
        "system": "be exact",
    }
    found = [(m["role"], m["content"]) for m in read(record)]
    assert found == [
        ("system", "be exact"),
        ("user", "q"),
        ("assistant", "a"),
        ("user", "add\n1 2"),
        ("assistant", "3"),
    ]


def test_sharegpt_has_calls_and_observations() -> None:
    turns = [
        {"from": "human", "value": "hi"},
        {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
        {"from": "observation", "value": "1"},
        {"from": "gpt", "value": "one"},
    ]
    found = read({"conversations": turns})
    assert [m["role"] for m in found] == ["user", "assistant", "tool", "assistant"]
    assert found[1]["tool_calls"] == [call("f", {"x": 1})]
    with pytest.raises(ValueError, match=r"conversations\[0\]' is from 'alien'"):
        read({"conversations": [{"from": "alien", "value": "x"}]})


def test_blocks_of_anthropic_become_calls_results_and_reasoning() -> None:
    messages = [
        message("user", [{"type": "text", "text": "hi"}]),
        message(
            "assistant",
            [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
            ],
        ),
        message("user", [{"type": "tool_result", "tool_use_id": "1", "content": "found"}]),
    ]
    found = read({"messages": messages})
    assert [m["role"] for m in found] == ["user", "assistant", "tool"]
    assert found[1]["reasoning_content"] == "hm"
    assert found[1]["content"] == "look"
    assert found[1]["tool_calls"] == [{**call("f", {"x": 1}), "id": "1"}]
    assert found[2] == {"role": "tool", "content": "found", "tool_call_id": "1"}


def test_nulls_of_tables_are_no_keys_and_a_call_needs_no_content() -> None:
    padded = {"role": "user", "content": "hi", "tool_calls": None, "name": None}
    calls = [{"function": {"name": "f", "arguments": '{"x": null, "y": 1}'}, "id": None}]
    messages = [padded, {"role": "assistant", "content": None, "tool_calls": calls}]
    found = read({"messages": messages})
    assert found[0] == message("user", "hi")
    assert found[1]["content"] == ""
    assert found[1]["tool_calls"] == [call("f", {"x": None, "y": 1})]
    stripped = read({"messages": messages}, drop_nulls=True)
    assert stripped[1]["tool_calls"] == [call("f", {"y": 1})]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (float("nan"), None),
        ("", None),
        ([], None),
        ([WRAPPED], [WRAPPED]),
        (SCHEMA, [WRAPPED]),
        (json.dumps([SCHEMA]), [WRAPPED]),
        ([json.dumps(WRAPPED)], [WRAPPED]),
        ({"name": "f", "input_schema": {"type": "object"}}, [WRAPPED]),
    ],
)
def test_tools_come_as_lists_of_wrapped_schemas(given: Any, expected: Any) -> None:
    assert read_tools({"tools": given}, "tools", drop_nulls=False) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([{"content": "hi"}], r"messages\[0\]' has no role"),
        ([{"role": "user"}], r"messages\[0\]' has no content"),
        ([{"role": "user", "content": 3}], "must be text or a list, got 3"),
        ([1], r"messages\[0\]' must be a message, got 1"),
        ([], "must be a list of messages"),
        ("{", "is a text, but not JSON"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "no function with a name"),
    ],
)
def test_what_is_wrong_with_messages_is_said_with_the_place(value: Any, reason: str) -> None:
    found = detect([{"messages": OPENAI}], "", "auto", "a.jsonl")
    with pytest.raises(ValueError, match=reason):
        read_messages({"messages": value}, found, drop_nulls=False)


def weights_of(messages: list[Any], **config: Any) -> list[tuple[float, ...]]:
    record = {"messages": messages}
    found = detect([record], "", "auto", "a.jsonl")
    made = conversations_of(record, found, ChatConfig(**config), {}, drop_nulls=False)
    return [each.weights for each in made]


LONG = [
    message("system", "s"),
    message("user", "a"),
    message("assistant", "b"),
    message("tool", "t"),
    message("assistant", "c"),
    message("user", "d"),
    message("assistant", "e"),
]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [(0, 0, 1, 0, 1, 0, 1)]),
        ({"train_on": "last"}, [(0, 0, 0, 0, 0, 0, 1)]),
        ({"train_on": ("user", "tool")}, [(0, 1, 0, 1, 0, 1, 0)]),
        ({"history": "last_turn"}, [(0, 0, 0, 0, 0, 0, 1)]),
        ({"history": "row_per_turn"}, [(0, 0, 1, 0, 1), (0, 0, 0, 0, 0, 0, 1)]),
    ],
)
def test_who_is_trained_on(config: dict[str, Any], expected: list[tuple[int, ...]]) -> None:
    assert weights_of(LONG, **config) == expected


def test_a_message_says_its_own_weight() -> None:
    messages = [
        message("user", "a", train=True),
        message("assistant", "b", weight=0.5),
        message("user", "c"),
        message("assistant", "d", training=False),
    ]
    assert weights_of(messages) == [(1, 0.5, 0, 0)]
    for bad in ({"train": "yes"}, {"weight": -1}, {"weight": "x"}):
        with pytest.raises(ValueError, match="message 2 has"):
            weights_of([message("user", "a"), message("assistant", "b", **bad)])


def test_a_conversation_without_a_target_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no message to train on \(roles: user\)"):
        weights_of([message("user", "a")])
