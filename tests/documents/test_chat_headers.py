"""Role headers have no loss, wherever a template writes them: what cannot be told is refused."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest

from dataprep.pipeline.documents.chat.lay import Laid, Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules
from support.chat import VARIABLES, message

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
TURNS = [
    message("user", "hi"),
    message("assistant", "yo"),
    message("user", "and"),
    message("assistant", "so"),
]


def lay(source: str, messages: list[dict[str, Any]], *roles: str, stop: Any = ()) -> Laid:
    layer = Layer(Renderer(source, NOW), SpanRules(stop=stop))
    weights = [float(m["role"] in (roles or ("assistant",))) for m in messages]
    return layer.lay(Conversation(messages=messages, variables=VARIABLES), weights)


def shown(laid: Laid) -> str:
    pairs = zip(laid.strings, laid.weights, strict=True)
    return "".join(f"⟦{text}⟧" if weight else text for text, weight in pairs).replace("⟧⟦", "")


# The next header is written at the end of a block, and no token ends the turn.
AFTER_EACH = (
    "USER: {% for m in messages %}{{ m.content }}{% if m.role == 'user' %}{{ '\\nASSISTANT: ' }}"
    "{% else %}{{ '\\nUSER: ' }}{% endif %}{% endfor %}"
)
BETWEEN = (
    "{% for m in messages %}{% if loop.first %}{{ '== ' + m.role + ' ==\\n' }}{% endif %}"
    "{{ m.content + '\\n' }}{% if loop.nextitem %}{{ '== ' + loop.nextitem.role + ' ==\\n' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '== assistant ==\\n' }}{% endif %}"
)
ENDED = (
    "<|start|>{{ messages[0].role }}\n{% for m in messages %}{{ m.content + '<|fin|>\\n' }}"
    "{% if loop.nextitem %}{{ '<|start|>' + loop.nextitem.role + '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"
)
HALF = (
    "### {% for m in messages %}{{ m.role + ':\\n' + m.content + '\\n### ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}"
)
# A separator before each header but the first, also before that of the prompt.
JOINED = (
    "{% set between = joiner('<|sep|>') %}{% for m in messages %}{{ between() }}"
    "{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ between() + '<|assistant|>' }}{% endif %}"
)
# The prompt goes on with a blank after the header, which a user's header has not.
BLANK = (
    "{% for m in messages %}{{ '<|user|>' if m.role == 'user' else '<|assistant|>\\n' }}"
    "{{ m.content }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
# What separates turns tells whose turn was before.
ROLES_ENDED = (
    "{% for m in messages %}{% if loop.previtem %}{{ '<|end_' + loop.previtem.role + '|>' }}"
    "{% endif %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|end_' + messages[-1].role + '|><|assistant|>' }}"
    "{% endif %}"
)
# A system prompt of the template's own ends like any turn.
OWN_SYSTEM = (
    "{{ bos_token }}{% if messages[0].role != 'system' %}{{ '<|system|>Be kind.<|fin|>\\n' }}"
    "{% endif %}{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|fin|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# The same, and the next header is written in the block before.
OWN_SYSTEM_AFTER = "Be kind. " + AFTER_EACH
# The same, but an answer at the end of all is not ended.
OWN_SYSTEM_OPEN = (
    "{{ '<|system|>Be kind.<|fin|>\\n' }}{% for m in messages %}"
    "{{ '<|' + m.role + '|>' + m.content }}"
    "{% if not loop.last %}{{ '<|fin|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|fin|>\\n<|assistant|>' }}{% endif %}"
)
# BOS ends turns.
BOS_ENDS = (
    "{{ bos_token }}{% for m in messages %}{{ m.role + ': ' + m.content + bos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
# A turn is ended at the next message, or after all.
ENDED_LATE = (
    "<|system|>{% for m in messages %}{{ '<|fin|>\\n<|' + m.role + '|>' + m.content }}{% endfor %}"
    "{{ '<|fin|>\\n' }}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
NUMBERED = (
    "{% for m in messages %}{{ '<|' ~ m.role ~ ' ' ~ loop.index ~ '|>' ~ m.content ~ '<|fin|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant ' ~ (messages|length + 1) ~ '|>' }}"
    "{% endif %}"
)
# Blanks that are not there before there is an answer.
SPACED = (
    "{% for m in messages %}{{ 'Q: ' + m.content + '\\nA:' if m.role == 'user' else "
    "' ' + m.content + eos_token }}{% endfor %}"
)
# Messages that no loop is at.
MARKED = "{{ '<|' + m.role + '|>' + m.content + '<|fin|>\\n' }}"
PROMPTED = "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
IN_NO_LOOP = {
    "copied": (
        "{% set ns = namespace(all=[]) %}{% for m in messages %}"
        "{% set ns.all = ns.all + [{'role': m.role, 'content': m.content}] %}{% endfor %}"
        "{% for m in ns.all %}" + MARKED + "{% endfor %}"
    ),
    "pairs": (
        "{% set ns = namespace(all=[]) %}{% for m in messages %}"
        "{% set ns.all = ns.all + [(m.role, m.content)] %}{% endfor %}"
        "{% for role, text in ns.all %}{{ '<|' + role + '|>' + text + '<|fin|>\\n' }}{% endfor %}"
    ),
    "numbers": (
        "{% for i in range(messages | length) %}"
        "{{ '<|' + messages[i].role + '|>' + messages[i].content + '<|fin|>\\n' }}{% endfor %}"
    ),
    "recursive": (
        "{% macro rest(all) %}{% if all %}{{ '<|' + all[0].role + '|>' + all[0].content }}"
        "{{ '<|fin|>\\n' }}{{ rest(all[1:]) }}{% endif %}{% endmacro %}{{ rest(messages) }}"
    ),
}
EXPECTED = {
    OWN_SYSTEM_OPEN: (
        "<|system|>Be kind.<|fin|>\n<|user|>hi<|fin|>\n<|assistant|>⟦yo<|fin|>\n⟧<|user|>and"
        "<|fin|>\n<|assistant|>⟦so⟧"
    ),
    BOS_ENDS: "<s>user: hi<s>assistant: ⟦yo<s>⟧user: and<s>assistant: ⟦so<s>⟧",
    ENDED_LATE: (
        "<|system|><|fin|>\n<|user|>hi<|fin|>\n<|assistant|>⟦yo<|fin|>\n⟧<|user|>and<|fin|>\n"
        "<|assistant|>⟦so<|fin|>\n⟧"
    ),
    NUMBERED: (
        "<|user 1|>hi<|fin|><|assistant 2|>⟦yo<|fin|>⟧<|user 3|>and<|fin|>"
        "<|assistant 4|>⟦so<|fin|>⟧"
    ),
    SPACED: "Q: hi\nA:⟦ yo</s>⟧Q: and\nA:⟦ so</s>⟧",
    OWN_SYSTEM: (
        "<s><|system|>Be kind.<|fin|>\n<|user|>hi<|fin|>\n<|assistant|>⟦yo<|fin|>\n⟧<|user|>and"
        "<|fin|>\n<|assistant|>⟦so<|fin|>\n⟧"
    ),
    OWN_SYSTEM_AFTER: "Be kind. USER: hi\nASSISTANT: ⟦yo\n⟧USER: and\nASSISTANT: ⟦so\n⟧USER: ",
    ROLES_ENDED: (
        "<|user|>hi<|end_user|><|assistant|>⟦yo⟧<|end_assistant|><|user|>and<|end_user|>"
        "<|assistant|>⟦so⟧"
    ),
    AFTER_EACH: "USER: hi\nASSISTANT: ⟦yo\n⟧USER: and\nASSISTANT: ⟦so\n⟧USER: ",
    BETWEEN: ("== user ==\nhi\n== assistant ==\n⟦yo\n⟧== user ==\nand\n== assistant ==\n⟦so\n⟧"),
    HALF: "### user:\nhi\n### assistant:\n⟦yo\n⟧### user:\nand\n### assistant:\n⟦so\n⟧### ",
    JOINED: ("<|user|>hi<|sep|><|assistant|>⟦yo⟧<|sep|><|user|>and<|sep|><|assistant|>⟦so⟧"),
    BLANK: "<|user|>hi<|assistant|>\n⟦yo⟧<|user|>and<|assistant|>\n⟦so⟧",
}


@pytest.mark.parametrize("source", EXPECTED)
def test_a_header_is_not_trained_on_wherever_it_is_written(source: str) -> None:
    assert shown(lay(source, TURNS)) == EXPECTED[source]


@pytest.mark.parametrize("stop", [(), ("<|fin|>",)])
def test_what_ends_a_turn_before_the_next_header_is_known_or_not(stop: Any) -> None:
    assert shown(lay(ENDED, TURNS, stop=stop)) == (
        "<|start|>user\nhi<|fin|>\n<|start|>assistant\n⟦yo<|fin|>\n⟧<|start|>user\nand<|fin|>\n"
        "<|start|>assistant\n⟦so<|fin|>\n⟧"
    )


def test_an_end_that_may_be_the_next_header_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"message 1 \(user\) ends with .*ASSISTANT.*chat\.stop"):
        lay(AFTER_EACH, TURNS, "user", "assistant")


def test_a_header_that_may_be_a_separator_is_refused() -> None:
    strict = (
        "{% if messages[0].role == 'assistant' %}{{ raise_exception('a user first') }}{% endif %}"
    )
    with pytest.raises(RefusedError, match="cannot be told from its text"):
        lay(strict + ROLES_ENDED, TURNS)


def test_a_mark_that_ends_turns_is_no_header() -> None:
    source = (
        "{% for m in messages %}{{ m.content }}{{ ' -> ' if m.role == 'user' else ' | ' }}"
        "{% endfor %}"
    )
    assert shown(lay(source, TURNS)) == "hi -> ⟦yo | ⟧and -> ⟦so | ⟧"


@pytest.mark.parametrize("stop", [(), ("</s>",), ("<|fin|>",)])
@pytest.mark.parametrize("name", IN_NO_LOOP)
def test_messages_that_no_loop_is_at_have_their_spans(name: str, stop: Any) -> None:
    laid = lay(IN_NO_LOOP[name] + PROMPTED, TURNS, stop=stop)
    assert shown(laid) == (
        "<|user|>hi<|fin|>\n<|assistant|>⟦yo<|fin|>\n⟧<|user|>and<|fin|>\n<|assistant|>⟦so<|fin|>\n⟧"
    )
    turns = [
        "".join(s for s, m in zip(laid.strings, laid.messages, strict=True) if m == i)
        for i in range(3)
    ]
    assert turns == ["<|user|>hi<|fin|>\n", "<|assistant|>yo<|fin|>\n", "<|user|>and<|fin|>\n"]


def test_an_end_that_cannot_be_told_from_a_header_in_no_block_is_refused() -> None:
    own = "{{ '<|system|>Be kind.<|fin|>\\n' }}"
    with pytest.raises(RefusedError, match="stands in no block of its own"):
        lay(own + IN_NO_LOOP["numbers"].replace("<|fin|>", "<|fin|><|next|>"), TURNS)


def test_an_end_that_the_first_header_has_too_is_refused_unless_it_is_known() -> None:
    source = (
        "<|system|>Be kind.<|fin|><|user|>{% for m in messages %}{{ m.content + '<|fin|>' }}"
        "{{ '<|bot|>' if m.role == 'user' else '<|user|>' }}{% endfor %}"
    )
    with pytest.raises(RefusedError, match=r"may be the header of the next; .*chat\.stop"):
        lay(source, TURNS)
    assert shown(lay(source, TURNS, stop=("<|fin|>",))).endswith("<|bot|>⟦so<|fin|>⟧<|user|>")


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("<|fin|>\\n", "⟦yo<|fin|>\n⟧<|user|>"),  # the newline goes with the token
        ("", "⟦yo<|user|>⟧and"),  # the header is the token
    ],
)
def test_blanks_go_with_a_stop_token_in_the_next_header(between: str, found: str) -> None:
    source = (
        f"{{% for m in messages %}}{{{{ '{between}' if not loop.first else '' }}}}"
        "{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
        f"{{% if add_generation_prompt %}}{{{{ '{between}<|assistant|>' }}}}{{% endif %}}"
    )
    assert found in shown(lay(source, TURNS, stop=("<|fin|>", "<|user|>")))


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'Be kind.\\n' }}" + HALF,  # may as well end the template's own prompt
        (
            "<{% for m in messages %}{{ m.role + '>' + m.content + '<' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'assistant>' }}{% endif %}"
        ),
    ],
)
def test_an_end_that_may_be_half_a_header_is_refused(source: str) -> None:
    for messages in (TURNS, TURNS[:3]):
        with pytest.raises(RefusedError, match="may be the header of the next"):
            lay(source, messages)


THINKING_AFTER_BLANK = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ 'Q> ' + m.content }}{% else %}{{ '\\n' }}"
    "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
    "{{ m.content + eos_token }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("prompt", ["", "{% if add_generation_prompt %}{{ '\\n' }}{% endif %}"])
def test_thinking_after_a_header_of_blanks_has_loss(prompt: str) -> None:
    thinking = [TURNS[0], {**TURNS[1], "reasoning_content": "hm"}, *TURNS[2:]]
    assert shown(lay(THINKING_AFTER_BLANK + prompt, thinking, stop=("</s>",))) == (
        "Q> hi\n⟦<think>hm</think>yo</s>⟧Q> and\n⟦so</s>⟧"
    )


def test_a_header_that_is_there_at_some_places_only_is_refused() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}{{ 'Q: ' + m.content + '\\nA:' }}"
        "{% else %}{{ 'A:' if loop.first or loop.previtem.role != 'user' else '' }}"
        "{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"
    )
    assert shown(lay(source, TURNS[:2], stop=("</s>",))) == "Q: hi\nA:⟦ yo</s>⟧"
    for messages in ([*TURNS[:2], TURNS[3]], TURNS[1:]):
        with pytest.raises(RefusedError, match="header that cannot be told from its text"):
            lay(source, messages, stop=("</s>",))


@pytest.mark.parametrize(
    ("end", "header", "scaffold"),
    [
        ("<|/me|>", "<|bot|>", ""),
        ("<|/me|>", "<|bot|>", "<think></think>"),
        ("</user>\n", "<assistant>\n", ""),
        ("<|me|>Be kind.<|/me|>", "<|bot|>", ""),
        (" [/INST] ", "ASSISTANT: ", ""),
    ],
)
def test_the_end_of_a_question_in_the_header_of_its_answer_is_not_all_of_the_header(
    end: str, header: str, scaffold: str
) -> None:
    own = end + header + scaffold
    source = (
        f"{{% for m in messages %}}{{% if m.role == 'user' %}}<|me|>{{{{ m.content }}}}{{% else %}}"
        f"{{{{ {own!r} + m.content + eos_token }}}}{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{{{{ {own!r} }}}}{{% endif %}}"
    )
    assert shown(lay(source, TURNS[:2], stop=("</s>",))) == (
        f"<|me|>hi{end}{header}⟦{scaffold}yo</s>⟧"
    )


@pytest.mark.parametrize("prompt", ["'ab' * 300000", "'ab' * 1000", "':' * 300000"])
def test_headers_of_any_length_take_no_time(prompt: str) -> None:
    source = (
        "{% for m in messages %}{{ 'ab' * 300000 + m.role + ': ' + m.content + '\\n' }}{% endfor %}"
        f"{{% if add_generation_prompt %}}{{{{ {prompt} + 'assistant: ' }}}}{{% endif %}}"
    )
    before = time.process_time()
    if "1000" in prompt:
        assert "assistant: ⟦yo\n⟧" in shown(lay(source, TURNS))
    else:
        with pytest.raises(RefusedError, match="header"):
            lay(source, TURNS)
    assert time.process_time() - before < 10
