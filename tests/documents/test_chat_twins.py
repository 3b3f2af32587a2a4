"""Templates with {% generation %} tags and their twins without: both have the same masks."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers.utils import chat_template_utils

from dataprep.loaders import open_dataset
from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.lay import Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules
from support.chat import STOP, TWINS, VARIABLES, call, message, twins, write_chat_tokenizer
from support.here import make_here

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
RENDERERS = {name: [Renderer(source, NOW) for source in twins(name)] for name in TWINS}

texts = st.lists(
    st.sampled_from([*"ab \n<>'\"{}%\\", "é", "😀", "</think>", "<think>", "<|stop|>", "e\u0301"]),
    max_size=6,
).map("".join)
calls = st.builds(call, texts, st.dictionaries(texts, texts | st.integers(), max_size=2))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Any]:
    tools = draw(st.sampled_from([None, [TOOL]]))
    messages = [message("system", draw(texts))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(message("user", draw(texts)))
        if tools and draw(st.booleans()):
            several = draw(st.lists(calls, min_size=1, max_size=2))
            messages.append(message("assistant", draw(texts), tool_calls=several))
            messages += [message("tool", draw(texts)) for _ in several]
        answer = message("assistant", draw(texts))
        if draw(st.booleans()):
            answer["reasoning_content"] = draw(texts)
        messages.append(answer)
    return messages, tools


def by_transformers(source: str, messages: Any, tools: Any) -> tuple[str, list[tuple[int, int]]]:
    found, spans = chat_template_utils.render_jinja_template(
        [messages],
        tools=tools,
        chat_template=source,
        return_assistant_tokens_mask=True,
        **VARIABLES,
    )
    return found[0], spans[0]


def outcome(layer: Layer, messages: list[dict[str, Any]], tools: Any) -> Any:
    each = [float(m["role"] == "assistant") for m in messages]
    given = Conversation(messages=messages, tools=tools, variables=VARIABLES)
    try:
        laid = layer.lay(given, each)
    except (RefusedError, TemplateFailedError) as error:
        return str(error)
    pairs = zip(laid.strings, laid.weights, strict=True)
    return "".join(laid.strings), [bool(weight) for text, weight in pairs for _ in text]


@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=40, deadline=None)
@given(several=st.lists(conversations(), min_size=1, max_size=4))
def test_twins_have_the_same_spans_which_are_those_of_the_tags(
    name: str, several: list[tuple[list[dict[str, Any]], Any]]
) -> None:
    stock, tagged = (Layer(renderer, SpanRules(stop=STOP)) for renderer in RENDERERS[name])
    for messages, tools in several:
        found = outcome(stock, messages, tools)
        assert outcome(tagged, messages, tools) == found
        if isinstance(found, str):
            assert "leaves out" in found
            continue
        text, spans = by_transformers(twins(name)[1], messages, tools)
        assert found == (text, [any(a <= i < b for a, b in spans) for i in range(len(text))])


@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=8, deadline=None)
@given(several=st.lists(conversations(), min_size=1, max_size=5))
def test_a_token_has_loss_if_it_overlaps_a_tag(
    name: str,
    several: list[tuple[list[dict[str, Any]], Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("twins")
    masks = [tokens_of(folder / str(i), twins(name)[i], several) for i in range(2)]
    assert masks[0] == masks[1]
    loaded = Tokenizer.from_file(str(folder / "1" / "tokenizer" / "tokenizer.json"))
    for line, document in masks[1].items():
        text, spans = by_transformers(twins(name)[1], *several[line])
        encoding = loaded.encode(text, add_special_tokens=False)
        mask = [any(a < stop and start < b for a, b in spans) for start, stop in encoding.offsets]
        assert document == (encoding.ids, mask)


def tokens_of(folder: Path, template: str, several: list[Any]) -> dict[int, Any]:
    """Tokenize conversations; return ids and mask by line, of those that are not refused."""
    tokenizer = write_chat_tokenizer(folder / "tokenizer", template)
    path = folder / "in.jsonl"
    records = [{"messages": messages, "tools": tools} for messages, tools in several]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    chat = {"allow_special_in_content": True}
    config = {"inputs": [str(path)], "tokenizer": str(tokenizer), "chat": chat}
    more = {"on_error": "quarantine", "allow_empty": True}
    make_here("tokenize", folder / "out", {**config, **more})
    errors = folder / "out" / "errors.jsonl"
    bad = [json.loads(line) for line in errors.read_text().splitlines()] if errors.exists() else []
    assert all("leaves out" in entry["reason"] for entry in bad)
    kept = sorted({*range(len(several))} - {entry["line"] - 1 for entry in bad})
    dataset = open_dataset(folder / "out")
    assert len(dataset) == len(kept)
    return {
        line: (dataset[i]["tokens"].tolist(), dataset[i]["loss_mask"].tolist())
        for i, line in enumerate(kept)
    }
