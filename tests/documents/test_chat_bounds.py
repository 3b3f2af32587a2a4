"""Templates are somebody else's programs: none fills memory, goes on for ever, or draws lots."""

from __future__ import annotations

import datetime
import threading
import tracemalloc

import pytest

from dataprep.pipeline.documents.chat import bounds
from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from support.chat import message

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
TURNS = Conversation(messages=[message("user", "hi"), message("assistant", "yo")], variables={})

MANY = "{% set ns = namespace(x='ab', l=[1], t=(1,), d={'a': 1}) %}{% for i in range(60) %}"
LONG = "{% set a = 'a' * 100000 %}"
ROWS = "{% set a = '\\n\\t' * 50000 %}"
BOMBS = (
    "{{ 'a' * 10 ** 9 }}",
    "{{ [1] * 10 ** 9 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 1.5 | round(100000000, 'floor') }}",
    # Widths that a pattern or its values name.
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '{:>1000000000}'.format('a') }}",
    "{{ '{:>{}}'.format('a', 1000000000) }}",
    "{{ '{a:>{w}}'.format_map({'a': 1, 'w': 1000000000}) }}",
    "{{ '{:>{w}}'.format('a', w='300000000') }}",
    "{{ '{:>٣٠٠٠٠٠٠٠٠}'.format('a') }}",
    "{{ strftime_now('%Y' * 20000) }}",
    LONG + "{{ '%(a)s' * 1000 % {'a': a} }}",
    LONG + "{{ ('{0}' * 1000).format(a) }}",
    # Bytes, which no template needs, and numbers of any size.
    "{% set a = 'a'.encode() * 300000000 %}",
    "{% set a = (1).to_bytes(300000000, 'big') %}",
    "{% set a = messages[0].content.encode().ljust(300000000) %}",
    "{% set n = ('f' * 50000) | int(base=16) %}{{ n // (n // 3) }}",
    # Methods and filters that make a text many times as long.
    "{{ 5 | center(300000000) }}",
    "{{ none | center(300000000) | length }}",
    "{{ 'a'.center(1000000000) }}",
    "{{ 'a' | center(1000000000) }}",
    ROWS + "{{ a.expandtabs(100000) }}",
    ROWS + "{{ a | indent(100000) }}",
    ROWS + "{{ a | indent('x' * 100000, blank=true) }}",
    LONG + "{{ a.replace('a', a) }}",
    LONG + "{{ a | replace('', a) }}",
    LONG + "{{ a.translate({97: a}) }}",
    LONG + "{{ a.join(range(100000) | map('string')) }}",
    LONG + "{{ range(100000) | join(a) }}",
    LONG + "{{ a | wordwrap(1, wrapstring=a) }}",
    "{{ range(100000) | list | tojson(indent=100000) }}",
    "{{ range(9999) | list | tojson(separators=('x' * 100000, 'y')) }}",
    "{% set a = messages[0].content * 100000 %}{{ a.replace('h', a) }}",
    "{{ ('ab ' * 60000) | title }}",
    "{{ ('ab ' * 60000) | wordcount }}",
    "{{ ('ab ' * 60000) | striptags }}",
    "{{ ('ab ' * 60000) | urlize }}",
    # What takes long, and looks at no clock.
    LONG + "{{ a.strip('b' * 100000 + 'a') }}",
    LONG + "{{ a | trim('b' * 100000 + 'a') }}",
    LONG + "{{ a.rfind('ab' + 'a' * 50000) }}",
    LONG + "{{ a.rsplit('ab' + 'a' * 50000) }}",
    LONG + "{{ a.rpartition('ab' + 'a' * 50000) }}",
    "{{ ([[1]] * 5000) | sum(start=[]) }}",
    "{{ ([[]] * 5000) | sum(start=[1] * 5000) }}",
    "{{ dict.fromkeys(range(0, 3000 * (2 ** 61 - 1), 2 ** 61 - 1)) }}",
    # Lists of many items.
    "{{ ('a ' * 500000).split() | length }}",
    "{{ ('a' * 500000) | list | length }}",
    "{{ [1] | slice(1000000000) | list }}",
    "{{ [1] | slice(1000000000) | sort }}",
    "{{ [1] | batch(1000000000, 'x') | list }}",
    "{{ (['ab'] * 20000) | pprint }}",
    "{{ dict.fromkeys([1] | slice(1000000000)) }}",
    # Twice as much each time; of lists, only for whoever reads them.
    MANY + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    MANY + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    MANY + "{% set ns.l = ns.l + ns.l %}{% endfor %}",
    MANY + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
    MANY + "{% set ns.l = (ns.l * 2) | batch(2) | list %}{% endfor %}{{ ns.l == [] }}",
    MANY + "{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}",
    MANY + "{% set ns.d = {'a': ns.d, 'b': ns.d} %}{% endfor %}{{ ns.d }}",
    MANY + "{% set ns.d = dict(a=ns.d, b=ns.d) %}{% endfor %}{{ ns.d }}",
    # Many texts, none of them long.
    MANY + "{% set ns.l = [ns.l, 'x' * 100000 ~ i] %}{% endfor %}",
    "{% set t = 'x' * 1000 %}{% for i in range(100000) %}{{ t }}{% endfor %}",
    # For ever.
    "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
)


def test_a_conversation_that_is_too_much_says_nothing_about_the_next() -> None:
    renderer = Renderer("{{ 'x' * (messages[0].content | int) }}", NOW)
    large, small = (
        Conversation(messages=[{"role": "user", "content": content}], variables={})
        for content in ("999999999", "3")
    )
    with pytest.raises(TemplateFailedError, match="too much text"):
        renderer.render(large)
    assert renderer.render(small).text == "xxx"


@pytest.mark.parametrize("mode", ["plain", "render"])
@pytest.mark.parametrize("source", BOMBS)
def test_no_template_fills_memory(source: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST", 1 << 20)
    monkeypatch.setattr(bounds, "MAX_STEPS", 20_000)
    tracemalloc.start()
    try:
        with pytest.raises(TemplateFailedError):
            getattr(Renderer(source, NOW), mode)(TURNS)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "source", ["{{ 1" + "0" * 5000 + " }}", "{% for a in b %}" * 30 + "{% endfor %}" * 30]
)
def test_what_python_cannot_compile_is_no_template(source: str) -> None:
    with pytest.raises(TemplateFailedError, match="is not a template"):
        Renderer(source, NOW)


def test_functions_may_be_looked_up_in_a_table() -> None:
    source = (
        "{% macro a(m) %}[{{ m.content }}]{% endmacro %}{% set by = {'user': a, 'assistant': a} %}"
        "{% for m in messages %}{{ by[m.role](m) }}{% endfor %}"
        "{{ messages | map(attribute='content') | first | upper }}"
    )
    assert Renderer(source, NOW).render(TURNS).text == "[hi][yo]HI"


def test_texts_of_nothing_but_marks_fill_no_memory() -> None:
    source = (
        "{% set b %}{% for i in [1] %}{% endfor %}{% endset %}{% set ns = namespace(x=b) %}"
        "{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
    )
    with pytest.raises(TemplateFailedError, match="too much text"):
        Renderer(source, NOW).render(TURNS)


def test_a_long_conversation_may_be_gathered_in_one_text() -> None:
    source = (
        "{% set ns = namespace(x='') %}{% for m in messages %}"
        "{% set ns.x = ns.x ~ m.role ~ m.content | replace('\\n', '  ') ~ '\\n' %}{% endfor %}"
        "{{ ns.x }}{{ '%d' % 1700000000 }}{{ '{}'.format(1700000000) }}"
    )
    messages = [message("user", "word\n" * 40)] * 800
    given = Conversation(messages=messages, variables={})
    renderer = Renderer(source, NOW)
    assert renderer.render(given).text == renderer.plain(given)


def test_the_time_is_bounded_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", 0.2)
    source = (
        "{% set a = 'x' * 10000000 %}{% set b = 'x' * 10000000 %}"
        "{% for i in range(9999) %}{% if a == b %}{% endif %}{% endfor %}"
    )
    said: list[str] = []

    def run() -> None:
        with pytest.raises(TemplateFailedError) as error:
            Renderer(source, NOW).plain(TURNS)
        said.append(str(error.value))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert said
    assert "longer than" in said[0]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | random }}",
        "{{ messages | map('random') | list }}",
        "{{ lipsum(1) }}",
        "{{ raise_exception }}",  # its address
        "{{ messages[0].content.upper }}",
        "{{ messages | map(attribute='content') }}",
        "{{ ''['upper'] }}",  # also where jinja computes constants
        "{{ ''['upper'] ~ '' }}",
        "{{ [raise_exception] }}",
        "{{ {'a': raise_exception} | string }}",
        "{{ raise_exception | upper }}",
        "{{ [raise_exception] | pprint }}",
        "{{ messages | map('upper') | e }}",
        "{{ '%s' % raise_exception }}",
        "{{ '%s' % [raise_exception] }}",
        "{{ '%s' | format(raise_exception) }}",
        "{{ '{}'.format(raise_exception) }}",
        "{{ '{a}'.format_map({'a': raise_exception}) }}",
    ],
)
def test_what_would_be_another_text_each_time_is_refused(source: str) -> None:
    renderer = Renderer(source, NOW)
    for run in (renderer.plain, renderer.render):
        with pytest.raises(TemplateFailedError):
            run(TURNS)


def test_a_text_of_a_message_may_be_a_pattern() -> None:
    source = "{% for m in messages %}{{ m.content.format('x', a=m.role) }}{% endfor %}"
    given = Conversation(messages=[message("user", "{0} {")], variables={})
    renderer = Renderer(source, NOW)
    with pytest.raises(TemplateFailedError):
        renderer.render(given)
    given = Conversation(messages=[message("user", "{0} {a}")], variables={})
    assert renderer.render(given).text == renderer.plain(given) == "x user"
