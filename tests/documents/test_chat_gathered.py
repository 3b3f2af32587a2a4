"""Templates that put messages together anew, or write parts of them elsewhere: all that has loss is
in the span, or the conversation is refused."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dataprep.pipeline.documents.chat.lay import Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules
from support.chat import VARIABLES, call, message

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
TURNS = [message("user", "hi"), message("assistant", "yo")]
CALLING = [
    message("user", "hi"),
    message("assistant", "hm", tool_calls=[call("look", {"at": "it"})]),
    message("tool", "a thing"),
    message("assistant", "yo"),
]

# Messages are copied in one loop and written in another.
COPIED = (
    "{% set ns = namespace(all=[]) %}{% for m in messages %}"
    "{% set ns.all = ns.all + [{'role': m.role, 'said': m.content ~ '', 'calls': m.tool_calls}] %}"
    "{% endfor %}{% for m in ns.all %}{{ '<' + m.role + '>' }}{SCAFFOLD}{{ m.said }}"
    "{% for c in m.calls or [] %}{{ c.function.name }}({{ c.function.arguments | tojson }})"
    "{% endfor %}</s>{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
# What a tool answers is written with what it was asked.
AT_RESULT = (
    "{% for m in messages %}{{ '<' + m.role + '>' }}{% if m.role == 'tool' %}"
    "{% for c in messages[loop.index0 - 1].tool_calls %}{{ c.function.WHAT | tojson }}: "
    "{% endfor %}{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{IN_BLOCK}{% endfor %}</s>{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


def shown(source: str, messages: list[dict[str, Any]]) -> str:
    layer = Layer(Renderer(source, NOW), SpanRules(stop=("</s>",)))
    weights = [float(m["role"] == "assistant") for m in messages]
    laid = layer.lay(Conversation(messages=messages, variables=VARIABLES), weights)
    pairs = zip(laid.strings, laid.weights, strict=True)
    return "".join(f"⟦{text}⟧" if weight else text for text, weight in pairs).replace("⟧⟦", "")


def test_copied_messages_have_their_span() -> None:
    assert shown(COPIED.replace("{SCAFFOLD}", ""), TURNS) == "<user>hi</s><assistant>⟦yo</s>⟧"


def test_calls_that_are_written_apart_from_their_message_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"message 2 .* outside of its block"):
        shown(COPIED.replace("{SCAFFOLD}", ""), CALLING)


def test_what_stands_between_a_header_and_its_text_is_not_left_out() -> None:
    scaffold = "{% if m.role == 'assistant' %}<think></think>{% endif %}"
    with pytest.raises(RefusedError, match=r"message 2 .*'<think></think>'"):
        shown(COPIED.replace("{SCAFFOLD}", scaffold), TURNS)


@pytest.mark.parametrize(
    ("what", "in_block"),
    [
        ("name", ""),
        ("arguments", ""),
        ("arguments", "{{ c.function.name }}"),
    ],
)
def test_calls_that_are_written_with_their_results_alone_are_refused(
    what: str, in_block: str
) -> None:
    source = AT_RESULT.replace("WHAT", what).replace("{IN_BLOCK}", in_block)
    with pytest.raises(RefusedError, match="message 2 "):
        shown(source, CALLING)


def test_arguments_that_a_template_leaves_out_are_refused() -> None:
    source = AT_RESULT.replace("WHAT", "name").replace("{IN_BLOCK}", "{{ c.function.name }}")
    with pytest.raises(RefusedError, match="arguments that the template leaves out"):
        shown(source, CALLING)


def test_calls_may_be_told_again_with_their_results() -> None:
    source = AT_RESULT.replace("WHAT", "name").replace("{IN_BLOCK}", "{{ c | tojson }}")
    found = shown(source, CALLING)
    assert '<assistant>⟦hm{"' in found
    assert '"look"' in found.partition("⟧<tool>")[2]


def test_blanks_of_a_prompt_of_which_only_the_beginning_is_written_have_no_loss() -> None:
    source = (
        "{% for m in messages %}{{ {'by': m.role, 'text': m.content} | tojson }}</s>{% endfor %}"
        """{% if add_generation_prompt %}{{ '{"by": "assistant", "text": "' }}{% endif %}"""
    )
    assert shown(source, TURNS).endswith('{"by": "assistant", "text": ⟦"yo"}</s>⟧')
