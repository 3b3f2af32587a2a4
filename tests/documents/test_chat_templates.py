"""Templates: the text of `transformers`, spans that are right, replays that are equal."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers.utils import chat_template_utils

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.lay import Laid, Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules
from support.chat import STOP, TEMPLATES, VARIABLES, call, message

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
RENDERERS = {name: Renderer(source, NOW) for name, source in TEMPLATES.items()}


def conversation(messages: list[dict[str, Any]], tools: Any = None) -> Conversation:
    return Conversation(messages=messages, tools=tools, variables=VARIABLES)


def weights(messages: list[dict[str, Any]], *roles: str) -> list[float]:
    return [float(m["role"] in (roles or ("assistant",))) for m in messages]


def lay(name: str, messages: list[dict[str, Any]], tools: Any = None, **rules: Any) -> Laid:
    layer = Layer(RENDERERS[name], SpanRules(**{"stop": STOP, **rules}))
    return layer.lay(conversation(messages, tools), weights(messages))


def shown(laid: Laid) -> str:
    """Return the text with what has loss in brackets."""
    pairs = zip(laid.strings, laid.weights, strict=True)
    return "".join(f"⟦{text}⟧" if weight else text for text, weight in pairs).replace("⟧⟦", "")


# --- conversations of any kind -----------------------------------------------------------------

texts = st.lists(
    st.sampled_from([*"ab \n<>'\"{}%\\", "é", "😀", "</think>", "<think>", "<|im_end|>", "\u0301"]),
    max_size=8,
).map("".join)
arguments = st.dictionaries(st.sampled_from("xy"), texts | st.integers() | st.none(), max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Any]:
    messages: list[dict[str, Any]] = []
    tools = draw(st.sampled_from([None, None, [TOOL]]))
    if draw(st.booleans()):
        messages.append(message("system", draw(texts)))
    for _ in range(draw(st.integers(1, 3))):
        messages.append(message("user", draw(texts)))
        if tools and draw(st.booleans()):
            calls = [call(draw(texts), draw(arguments)) for _ in range(draw(st.integers(1, 2)))]
            messages.append(message("assistant", draw(texts), tool_calls=calls))
            messages += [message("tool", draw(texts)) for _ in calls]
        answer = message("assistant", draw(texts))
        if draw(st.booleans()):
            answer["reasoning_content"] = draw(texts)
        messages.append(answer)
    return messages, tools


def by_transformers(
    source: str, given: Conversation, *, prompt: bool, tags: bool = False
) -> tuple[str, list[tuple[int, int]]] | None:
    try:
        found, indices = chat_template_utils.render_jinja_template(
            [list(given.messages)],
            tools=given.tools,
            chat_template=source,
            add_generation_prompt=prompt,
            return_assistant_tokens_mask=tags,
            **VARIABLES,
        )
    except Exception:
        return None
    return found[0], indices[0] if tags else []


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=40, deadline=None)
@given(drawn=conversations(), prompt=st.booleans())
def test_the_text_is_that_of_transformers_to_the_character(
    name: str, drawn: tuple[list[dict[str, Any]], Any], prompt: bool
) -> None:
    given = conversation(*drawn)
    expected = by_transformers(TEMPLATES[name], given, prompt=prompt)
    if expected is None:
        with pytest.raises(TemplateFailedError):
            RENDERERS[name].render(given, prompt=prompt)
        return
    assert RENDERERS[name].plain(given, prompt=prompt) == expected[0]
    assert RENDERERS[name].render(given, prompt=prompt).text == expected[0]


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=25, deadline=None)
@given(several=st.lists(conversations(), min_size=2, max_size=6))
def test_what_is_replayed_equals_what_the_template_does(
    name: str, several: list[tuple[list[dict[str, Any]], Any]]
) -> None:
    rules = SpanRules(stop=STOP)
    replaying = Layer(RENDERERS[name], rules)
    running = Layer(RENDERERS[name], rules, replay=False)
    for messages, tools in several:
        found = [
            outcome(layer, conversation(messages, tools), weights(messages))
            for layer in (replaying, running)
        ]
        assert found[0] == found[1]


def outcome(layer: Layer, given: Conversation, each: list[float]) -> Any:
    try:
        laid = layer.lay(given, each)
    except (RefusedError, TemplateFailedError) as error:
        return str(error)
    return list(laid.strings), laid.weights, laid.is_content, laid.messages


@settings(max_examples=40, deadline=None)
@given(drawn=conversations())
def test_tags_win_where_the_template_has_them(drawn: tuple[list[dict[str, Any]], Any]) -> None:
    messages, _ = drawn
    messages = [m for m in messages if "tool_calls" not in m]
    assume(any(m["role"] == "assistant" for m in messages))
    given = conversation(messages)
    expected = by_transformers(TEMPLATES["tagged"], given, prompt=False, tags=True)
    assert expected is not None
    text, spans = expected
    laid = lay("tagged", messages)
    pairs = zip(laid.strings, laid.weights, strict=True)
    mask = [bool(weight) for string, weight in pairs for _ in string]
    assert "".join(laid.strings) == text
    assert mask == [any(a <= i < b for a, b in spans) for i in range(len(text))]


# --- spans by hand -----------------------------------------------------------------------------

TURNS = [
    message("user", "hi"),
    message("assistant", "yo"),
    message("user", "and"),
    message("assistant", "so"),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "chatml",
            (
                "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦yo<|im_end|>\n⟧"
                "<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n⟦so<|im_end|>\n⟧"
            ),
        ),
        (
            "thinking",
            (
                "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n⟦yo<|im_end|>\n⟧"
                "<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n"
                "⟦<think>\n\n</think>\n\nso<|im_end|>\n⟧"
            ),
        ),
        ("instruction", "<s>[INST] hi [/INST]⟦ yo</s>⟧[INST] and [/INST]⟦ so</s>⟧"),
        (
            "no_prompt",
            "### User:\nhi\n\n### Assistant:\n⟦yo\n\n⟧### User:\nand\n\n### Assistant:\n⟦so\n\n⟧",
        ),
        (
            "after_loop",
            (
                "<|user|>\nhi<|stop|>\n<|assistant|>\n⟦yo<|stop|>\n⟧"
                "<|user|>\nand<|stop|>\n<|assistant|>\n⟦so<|stop|>\n</s>⟧"
            ),
        ),
        (
            "next_ends",
            (
                "<s><|start|>user\nhi<|stop|><|start|>assistant\n⟦yo<|stop|>⟧"
                "<|start|>user\nand<|stop|><|start|>assistant\n⟦so⟧"
            ),
        ),
        ("macro", "<|user|>hi</s><|assistant|>⟦yo</s>⟧<|user|>and</s><|assistant|>⟦so</s>⟧"),
        ("tagged", "<|user|>hi<|assistant|>⟦yo</s>⟧<|user|>and<|assistant|>⟦so</s>⟧"),
        (
            "parts",
            (
                "USER: hi<|stop|>\nASSISTANT: ⟦yo<|stop|>\n⟧"
                "USER: and<|stop|>\nASSISTANT: ⟦so<|stop|>\n⟧"
            ),
        ),
    ],
)
def test_the_header_is_out_and_the_text_and_the_end_of_the_turn_are_in(
    name: str, expected: str
) -> None:
    assert shown(lay(name, TURNS)) == expected


def test_a_reply_begins_after_the_whole_generation_prompt() -> None:
    header = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    messages = [message("user", "hi"), message("assistant", "yo", reasoning_content="hm")]
    turn, reply = (shown(lay("thinking", messages, span=span)) for span in ("turn", "reply"))
    assert turn == header + "⟦<think>\nhm\n</think>\n\nyo<|im_end|>\n⟧"
    assert reply == header + "<think>\n⟦hm\n</think>\n\nyo<|im_end|>\n⟧"


def test_tool_calls_have_loss_and_what_tools_answer_has_none() -> None:
    messages = [
        message("user", "hi"),
        message("assistant", "", tool_calls=[call("look", {"at": "it"})]),
        message("tool", "a thing"),
        message("assistant", "a thing"),
    ]
    found = shown(lay("thinking", messages, [TOOL]))
    assert '⟦<think>\n\n</think>\n\n<call>look {"at": "it"}</call><|im_end|>\n⟧' in found
    assert (
        "<|im_start|>user\n<result>\na thing\n</result><|im_end|>\n<|im_start|>assistant\n⟦"
        in found
    )


def test_other_roles_and_everything_can_have_loss() -> None:
    layer = Layer(RENDERERS["chatml"], SpanRules(stop=STOP))
    found = shown(layer.lay(conversation(TURNS[:2]), weights(TURNS[:2], "user")))
    assert found == "<|im_start|>user\n⟦hi<|im_end|>\n⟧<|im_start|>assistant\nyo<|im_end|>\n"
    everything = Layer(RENDERERS["chatml"], SpanRules(is_everything=True))
    assert set(everything.lay(conversation(TURNS), [1.0] * 4).weights) == {1.0}
    assert shown(everything.lay(conversation(TURNS), [0.0, 1.0, 1.0, 1.0])).startswith(
        "<|im_start|>user\nhi<|im_end|>\n⟦<|im_start|>assistant\nyo"
    )


# --- right or refused --------------------------------------------------------------------------

REFUSED = {
    "{% for m in messages %}{{ m.role + m.content }}{% endfor %}": r"tool_calls\[0\] that the t",
    "{% for m in messages if m.role != 'system' %}{{ m.role + m.content + m.tool_calls | string }}"
    "{% endfor %}": r"message 1 \(system\) has content that the template leaves out",
    "{{ messages | map(attribute='content') | join(' ') }}{{ messages | tojson }}": "no block",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_a_template_loses_or_mixes_is_refused_with_the_reason(source: str) -> None:
    calls = [call("look", {"at": "it"})]
    messages = [
        message("system", "s"),
        message("user", "u"),
        message("assistant", "a", tool_calls=calls),
    ]
    layer = Layer(Renderer(source, NOW), SpanRules(stop=STOP))
    with pytest.raises(RefusedError, match=REFUSED[source]):
        layer.lay(conversation(messages), weights(messages))


def test_a_second_tool_call_that_is_lost_is_noticed() -> None:
    source = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% if m.tool_calls %}"
        "{{ m.tool_calls[0].function.name }}{% endif %}{% endfor %}"
    )
    messages = [
        message("user", "u"),
        message("assistant", "", tool_calls=[call("f", {}), call("g", {})]),
    ]
    layer = Layer(Renderer(source, NOW), SpanRules())
    with pytest.raises(RefusedError, match=r"tool_calls\[1\]"):
        layer.lay(conversation(messages), weights(messages))


def test_the_order_of_conversations_changes_nothing() -> None:
    blank = [message("user", "u"), message("assistant", "")]
    lost = [message("user", "u"), message("assistant", "<think>x</think>")]
    source = (
        "{% for m in messages %}{% set c = m.content.split('</think>')[-1] %}"
        "{{ '<|' + m.role + '|>' }}{% if c %}{{ c }}{% endif %}{{ eos_token }}{% endfor %}"
    )
    for first, second in ((blank, lost), (lost, blank)):
        layer = Layer(Renderer(source, NOW), SpanRules(stop=STOP))
        found = {
            str(m): outcome(layer, conversation(m), weights(m)) for m in (first, second, first)
        }
        assert "leaves out" in found[str(lost)]
        assert "leaves out" not in found[str(blank)]


# --- templates are somebody else's programs ----------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__ }}{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages.append(1) }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ 'a' | center(1000000000) }}",
        (
            "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
            "{% endfor %}"
        ),
        "{{ raise_exception('no') }}",
        "{{ undefined_thing.x }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
    ],
)
def test_a_hostile_template_reaches_nothing_and_fills_no_memory(source: str) -> None:
    with pytest.raises(TemplateFailedError):
        Renderer(source, NOW).render(conversation(TURNS))


def test_a_template_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = "".join(f"{{% for a{i} in range(9999) %}}" for i in range(4)) + "{% endfor %}" * 4
    with pytest.raises(TemplateFailedError, match="without end"):
        Renderer(loops, NOW).render(conversation(TURNS))
    monkeypatch.setattr("dataprep.pipeline.documents.chat.bounds.SECONDS", 0.3)
    with pytest.raises(TemplateFailedError, match="longer than"):
        Renderer(loops, NOW).plain(conversation(TURNS))


@pytest.mark.parametrize("source", ["{% for %}", "{{ x", "{% generation %}", "{% include 'a' %}"])
def test_what_is_no_template_is_told(source: str) -> None:
    with pytest.raises(TemplateFailedError):
        Renderer(source, NOW).render(conversation(TURNS))


def test_the_clock_stands_still() -> None:
    renderer = Renderer("{{ strftime_now('%d %b %Y') }}", NOW)
    assert renderer.plain(conversation(TURNS)) == "02 Jan 2025"


# --- what a template learns is recorded, and what is not its own is not taken for it -------------


@pytest.mark.parametrize(
    ("body", "first", "second"),
    [
        ("{% if m.content[0] == '/' %}CMD{% endif %}{{ m.content }}", "", "/go"),
        ("{{ m.content }}{% if m.content[-1] != '.' %}.{% endif %}", "x", "x."),
        ("{{ 'NAME: ' | replace('NAME', m.content) }}{{ m.content }}", "bob", "eve"),
        ("{{ '</think>'.removeprefix(m.content) }}{{ m.content }}", "a", "</"),
        ("{% if m.content in 'yes no' != 'x' %}short{% endif %}{{ m.content }}", "yes", "what"),
        ("{% if m.content in ('yes no' | safe) %}short{% endif %}{{ m.content }}", "no", "what"),
        ("{{ m.tool_calls[0].function.arguments | tojson }}{{ m.content }}", "a", "b"),
    ],
)
def test_a_replay_never_differs_from_the_template(body: str, first: str, second: str) -> None:
    source = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}" + body + "{{ eos_token }}{% endfor %}"
    )
    renderer = Renderer(source, NOW)
    layers = [Layer(renderer, SpanRules(stop=STOP), replay=replay) for replay in (True, False)]
    for said, arguments in ((first, {}), (first, {}), (second, []), (second, {}), (first, [])):
        calls = [call("f", arguments)]
        messages = [
            message("user", "u", tool_calls=calls),
            message("assistant", said, tool_calls=calls),
        ]
        given = conversation(messages)
        found = [outcome(layer, given, weights(messages)) for layer in layers]
        assert found[0] == found[1]


@pytest.mark.parametrize(
    "source",
    [
        # A name, or a number, in the header: it is not known where that ends.
        (
            "{% for m in messages %}{{ '<|im_start|>' + m.role }}{% if m.name %}{{ ' ' + m.name }}"
            "{% endif %}"
            "{{ '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
        ),
        (
            "{% for m in messages %}{{ '<|im_start|>' + m.role + ' ' + (loop.index | string) }}"
            "{{ '\n' + m.name }}"
            "{{ m.content + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant 2\n' }}{% endif %}"
        ),
    ],
)
def test_a_header_is_never_trained_on_but_refused(source: str) -> None:
    messages = [message("user", "u", name="bo"), message("assistant", "a", name="al")]
    layer = Layer(Renderer(source, NOW), SpanRules(stop=STOP))
    with pytest.raises(RefusedError):
        layer.lay(conversation(messages), weights(messages))


def test_a_template_that_ignores_the_prompt_has_its_header_found_by_two_answers() -> None:
    source = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}{{ eos_token }}"
    )
    layer = Layer(Renderer(source, NOW), SpanRules(stop=STOP))
    assert (
        shown(layer.lay(conversation(TURNS[:2]), [0.0, 1.0])) == "<|user|>hi<|assistant|>⟦yo</s>⟧"
    )


def test_what_methods_of_texts_hold_is_closed_to_templates() -> None:
    for source in ("{{ ''.upper.func }}", "{{ ''.upper.args }}", "{{ strftime_now.args }}"):
        assert Renderer(source, NOW).plain(conversation(TURNS)) == ""
    with pytest.raises(TemplateFailedError, match="not its own"):
        Renderer("{{ _dataprep_begin(1) }}", NOW)
