"""Tokens of conversations know whose turn they are in."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Sample
from dataprep.loaders import open_dataset
from dataprep.pipeline.documents.chat.lay import Laid, Layer
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules
from dataprep.pipeline.storage.masks import MaskRuns, runs_of_parts
from dataprep.pipeline.storage.turns import SYSTEM, USER, check_turns, find_turns, turn_value
from support.inprocess import tokenize_here, write_lines

NOW = datetime.datetime(2025, 1, 1)
PLAIN = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}"
TALK = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "hé?"},
    {"role": "assistant", "content": "call"},
    {"role": "tool", "content": "four"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "and 3"},
    {"role": "assistant", "content": "three"},
]


def laid(
    template: str, messages: list[dict[str, str]], trained: Collection[int] | None = None
) -> Laid:
    layer = Layer(Renderer(template, NOW), SpanRules(stop=("</s>",)))
    if trained is None:
        trained = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    weights = [float(i in trained) for i in range(len(messages))]
    variables = {"bos_token": "<s>", "eos_token": "</s>"}
    found = [
        layer.lay(Conversation(messages=messages, tools=None, variables=variables), weights)
        for _ in range(2)
    ]
    assert found[0].turns == found[1].turns, "a replay has the same turns"
    return found[1]


def texts_by_turn(found: Laid) -> dict[int, str]:
    texts: dict[int, str] = {}
    for text, turn in zip(found.strings, found.turns, strict=True):
        texts[turn] = texts.get(turn, "") + text
    return texts


def test_each_message_with_its_header_has_a_value_that_tells_its_role() -> None:
    found = texts_by_turn(laid(PLAIN, TALK))
    assert found == {
        turn_value(i, m["role"]): f"<|{m['role']}|>{m['content']}</s>" for i, m in enumerate(TALK)
    }
    assert list(found) == [0, 5, 10, 15, 18, 21, 26]


@pytest.mark.parametrize(
    "begin",
    [
        "{{ bos_token }}",
        "<|system|>You are kind.</s>",
        "{{ bos_token }}<|system|>{{ 'You are ' + 'kind.' }}</s>",
    ],
)
@pytest.mark.parametrize("is_tagged", [False, True])
def test_what_a_template_writes_at_the_first_message_but_before_it_is_of_no_turn(
    begin: str, is_tagged: bool
) -> None:
    first = "{% if loop.first %}" + begin + "{% endif %}"
    answer = "{{ m.content }}</s>"
    if is_tagged:
        answer = (
            "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>{% endgeneration %}"
            "{% else %}{{ m.content }}</s>{% endif %}"
        )
    template = "{% for m in messages %}" + first + "<|{{ m.role }}|>" + answer + "{% endfor %}"
    found = texts_by_turn(laid(template, TALK[1:3]))
    assert found[1] == "<|user|>hé?</s>"
    assert found[0].startswith(("<s>", "<|system|>"))


BETWEEN = (
    "{% for m in messages %}{% if not loop.first %}{{ '\\n' }}</s>{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{% endfor %}</s>"
)


@pytest.mark.parametrize("trained", [{2, 3, 5}, {5}])
def test_the_token_that_ends_an_answer_stays_with_it_where_the_next_header_writes_it(
    trained: set[int],
) -> None:
    found = texts_by_turn(laid(BETWEEN, TALK[1:], trained=trained))
    assert found[turn_value(3, "assistant")].endswith("<|assistant|>4\n</s>")
    assert found[turn_value(4, "user")] == "<|user|>and 3"


def test_the_token_that_ends_a_system_message_stays_with_it_too() -> None:
    found = texts_by_turn(laid(BETWEEN, TALK))
    assert found[0] == "<|system|>be kind\n</s>"
    assert found[turn_value(1, "user")].startswith("<|user|>")
    assert found[turn_value(4, "assistant")].endswith("<|assistant|>4\n</s>")
    assert found[turn_value(5, "user")] == "<|user|>and 3"


@pytest.mark.parametrize("messages", [TALK, TALK[1:]])
def test_a_token_that_ends_turns_and_is_not_known_stays_with_its_turn(messages: Any) -> None:
    template = (
        "{% for m in messages %}{% if not loop.first %}{{ '<|fin|>\\n' }}{% endif %}"
        "<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ '<|fin|>\\n' }}"
    )
    found = texts_by_turn(laid(template, messages))
    assert found[turn_value(len(messages) - 3, "assistant")].endswith("|>4<|fin|>\n")
    assert found[turn_value(len(messages) - 2, "user")] == "<|user|>and 3"


def test_a_token_that_begins_every_message_stays_with_the_message() -> None:
    template = "{% for m in messages %}</s><|{{ m.role }}|>{{ m.content }}{% endfor %}"
    found = texts_by_turn(laid(template, TALK[1:]))
    assert found[turn_value(0, "user")].startswith("</s><|user|>")
    assert found[turn_value(4, "user")] == "</s><|user|>and 3"


def test_a_system_that_is_written_into_the_last_question_is_in_that_turn() -> None:
    template = (
        "{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>"
        "{% if m.content == 'and 3' %}{{ messages[0].content }} {% endif %}"
        "{{ m.content }}</s>{% endfor %}"
    )
    turns = laid(template, TALK).turns
    assert list(turns) == sorted(turns)


def tokenized(folder: Path, sample: Sample, records: list[Any], **config: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_lines(folder / "in.jsonl", records)
    (folder / "chat.jinja").write_text(PLAIN)
    common = {
        "inputs": [str(path)],
        "tokenizer": str(sample.tokenizer),
        "chat": {"template": str(folder / "chat.jinja"), **config.pop("chat", {})},
    }
    tokenize_here(folder / "out", **{**common, **config})
    return open_dataset(folder / "out")


def test_a_document_has_the_turn_of_every_token(tmp_path: Path, sample: Sample) -> None:
    records = [{"messages": TALK}, {"messages": TALK[1:3]}]
    dataset = tokenized(tmp_path, sample, records, add_bos=True, add_eos=True)
    assert dataset.manifest["masks"] == ["loss", "turns"]
    turns = dataset[0]["turns"]
    assert turns.dtype == np.uint32
    assert np.unique(turns).tolist() == [0, 5, 10, 15, 18, 21, 26]
    assert (np.diff(turns.astype(np.int64)) >= 0).all()
    other = dataset[1]["turns"]
    assert (other[0], other[-1]) == (0, 6), "BOS is of no turn, EOS of the last"
    assert not dataset[0]["loss_mask"][turns % 4 != 2].any()
    of_turns = sum(int((document["turns"] > 0).sum()) for document in (dataset[0], dataset[1]))
    assert dataset.manifest["counts"]["turn_tokens"] == of_turns


def test_special_tokens_in_content_move_no_turn(tmp_path: Path, sample: Sample) -> None:
    spelled = [{**m, "content": f"{m['content']} </s> is said"} for m in TALK]
    dataset = tokenized(tmp_path, sample, [{"messages": spelled}, {"messages": TALK}])
    assert dataset.manifest["counts"]["special_in_text"] == len(TALK)
    for document in (dataset[0], dataset[1]):
        turns = document["turns"]
        assert np.unique(turns).tolist() == [0, 5, 10, 15, 18, 21, 26]
        assert not document["loss_mask"][turns % 4 != 2].any()


def test_inputs_with_fields_have_no_turn_beside_conversations(
    tmp_path: Path, sample: Sample
) -> None:
    text = write_lines(tmp_path / "text.jsonl", [{"text": "no conversation"}])
    chats = write_lines(tmp_path / "in.jsonl", [{"messages": TALK}])
    inputs = [{"path": str(chats)}, {"path": str(text), "fields": "text"}]
    dataset = tokenized(tmp_path, sample, [{"messages": TALK}], inputs=inputs)
    assert dataset[0]["turns"].any()
    assert not dataset[1]["turns"].any()


def test_datasets_without_conversations_have_no_turns(tmp_path: Path, sample: Sample) -> None:
    path = write_lines(tmp_path / "in.jsonl", [{"text": "a", "spec": "text"}])
    for number, fields in enumerate(({"fields": "text"}, {"fields_from": "spec"})):
        out = tmp_path / f"out-{number}"
        tokenize_here(out, inputs=[str(path)], tokenizer=str(sample.tokenizer), **fields)
        assert "turns" not in open_dataset(out).manifest["masks"]


DOCUMENTS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), st.integers(1, 4)),
        min_size=1,
        max_size=8,
    ),
    max_size=5,
)


def runs_of(documents: list[list[tuple[str, int]]]) -> tuple[MaskRuns, list[int]]:
    values = [turn_value(i, role) for d in documents for i, (role, _) in enumerate(d)]
    lengths = [length for d in documents for _, length in d]
    runs = runs_of_parts(np.array(values, np.uint32), np.array(lengths, np.int64))
    return runs, np.cumsum([sum(n for _, n in d) for d in documents], dtype=np.int64).tolist()


@given(documents=DOCUMENTS)
def test_a_turn_begins_with_a_user_or_with_the_first_that_is_not_the_system(
    documents: list[list[tuple[str, int]]],
) -> None:
    expected, place = [], 0
    for number, document in enumerate(documents):
        is_begun = False
        for role, length in document:
            if role == "user" or (role != "system" and not is_begun):
                expected.append((number, place))
            is_begun |= role != "system"
            place += length
    runs, ends = runs_of(documents)
    found = find_turns(runs, np.array(ends, np.int64))
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
    assert check_turns(runs, np.array(ends, np.int64)) == ""


def test_messages_that_go_back_within_a_document_are_wrong() -> None:
    values = np.array([4 + USER, SYSTEM], np.uint32)
    runs = MaskRuns(ends=np.array([3, 5]), values=values)
    assert check_turns(runs, np.array([3, 5])) == ""
    assert "do not ascend" in check_turns(runs, np.array([5]))
