"""What a template does is replayed for others of the same shape; what it gathers has an owner."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dataprep.pipeline.documents.chat.lay import MAX_VARIABLES, Laid, Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer, Rendering
from dataprep.pipeline.documents.chat.spans import SpanRules
from support.chat import STOP, VARIABLES, message

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
AROUND = (
    "{{% for m in messages %}}{{{{ '<|' + m.role + '|>' }}}}{}{{{{ '<|stop|>' }}}}{{% endfor %}}"
    "{{% if add_generation_prompt %}}{{{{ '<|assistant|>' }}}}{{% endif %}}"
)


class Counting(Renderer):
    """Counts how often the template is run with marks."""

    def __init__(self, source: str) -> None:
        super().__init__(source, NOW)
        self.count = 0

    def render(self, conversation: Conversation, *, prompt: bool = False) -> Rendering:
        self.count += 1
        return super().render(conversation, prompt=prompt)


def talk(said: str) -> list[dict[str, Any]]:
    return [message("user", f"about {said}"), message("assistant", said)]


def shown(laid: Laid) -> str:
    pairs = zip(laid.strings, laid.weights, strict=True)
    return "".join(f"⟦{text}⟧" if weight else text for text, weight in pairs).replace("⟧⟦", "")


def lay(layer: Layer, said: str, **more: Any) -> Laid:
    given = Conversation(messages=talk(said), variables={**VARIABLES, **more})
    return layer.lay(given, [0.0, 1.0])


@pytest.mark.parametrize(
    "body",
    [
        "{{ m.content | replace('\\n', ' ') }}",
        "{{ m.content.replace('\\r\\n', '\\n') }}",
        "{{ m.content | replace('<br>', '|') }}",  # is not there
        "{% if m.content | length > 0 %}{{ m.content }}{% endif %}",
        "{% if m.content | length %}{{ m.content }}{% endif %}",
        "{% if m.content | trim | length == 0 %}nothing{% else %}{{ m.content }}{% endif %}",
    ],
)
def test_replacing_and_measuring_do_not_keep_a_template_from_being_replayed(body: str) -> None:
    renderer = Counting(AROUND.format(body))
    layer, plain = (
        Layer(renderer, SpanRules(stop=STOP)),
        Layer(Renderer(AROUND.format(body), NOW), SpanRules(stop=STOP), replay=False),
    )
    said = ["yes\n" * (i % 5) + "x" * i for i in range(1, 60)]
    for each in said:
        assert lay(layer, each) == lay(plain, each)
    assert renderer.count < 25


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{{ m.content | replace('a', '<|start|>') }}", [("b", True), ("<|start|>", False)]),
        ("{{ m.content | replace('b', '  ') }}", [("  a", True)]),
    ],
)
def test_what_a_template_puts_for_something_is_its_own_unless_it_is_blank(
    body: str, expected: list[tuple[str, bool]]
) -> None:
    layer = Layer(Renderer(AROUND.format(body), NOW), SpanRules(stop=STOP))
    laid = lay(layer, "ba")
    own = [
        (text, content)
        for text, content, number in zip(laid.strings, laid.is_content, laid.messages, strict=True)
        if number == 1
    ]
    found = [(text.removesuffix("<|stop|>"), content) for text, content in own[1:]]
    assert [pair for pair in found if pair[0]] == expected


def test_lengths_decide_as_they_do_without_a_tape() -> None:
    body = "{% if m.content | length > 3 %}long {% endif %}{{ m.content }}"
    layer = Layer(Renderer(AROUND.format(body), NOW), SpanRules(stop=STOP))
    texts = [shown(lay(layer, said)) for said in ("a", "abc", "abcd", "ab", "abcde")]
    assert [("⟦long " in text) for text in texts] == [False, False, True, False, True]


def test_arguments_that_a_template_does_not_look_at_do_not_matter() -> None:
    renderer = Counting(AROUND.format("{{ m.content }}{{ mood }}"))
    layer = Layer(renderer, SpanRules(stop=STOP))
    for i in range(200):
        assert "glad" in shown(lay(layer, "yes", mood="glad", day=f"day {i}"))
    assert renderer.count < 15
    assert "sad" in shown(lay(layer, "yes", mood="sad"))


def test_arguments_that_differ_in_each_record_are_not_all_kept() -> None:
    layer = Layer(Renderer(AROUND.format("{{ m.content }}{{ mood }}"), NOW), SpanRules(stop=STOP))
    for i in range(MAX_VARIABLES + 5):
        assert f"yes{i}<" in shown(lay(layer, "yes", mood=str(i)))
    assert len(layer._known) == MAX_VARIABLES


# --- texts that are gathered, and texts that are elsewhere ---------------------------------------

GATHERED = (
    "{% set ns = namespace(out=bos_token) %}{% for m in messages %}"
    "{% set ns.out = ns.out + '<|' + m.role + '|>' + m.content %}"
    "{% if m.role == 'assistant' %}{% set ns.out = ns.out ~ '<|stop|>\\n' %}{% endif %}{% endfor %}"
    "{{ ns.out | trim }}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def test_what_is_gathered_in_one_text_belongs_to_the_message_it_was_gathered_at() -> None:
    layer = Layer(Renderer(GATHERED, NOW), SpanRules(stop=STOP))
    messages = [*talk("yo"), *talk("so")]
    laid = layer.lay(Conversation(messages=messages, variables=VARIABLES), [0.0, 1.0] * 2)
    assert shown(laid) == (
        "<s><|user|>about yo<|assistant|>⟦yo<|stop|>\n⟧<|user|>about so<|assistant|>⟦so<|stop|>⟧"
    )


def test_text_of_a_message_outside_of_its_block_is_refused() -> None:
    source = "{{ messages[-1].content + '\\n' }}" + AROUND.format("{{ m.content }}")
    layer = Layer(Renderer(source, NOW), SpanRules(stop=STOP))
    with pytest.raises(RefusedError, match=r"message 2 \(assistant\) has text outside of its"):
        lay(layer, "yo")
