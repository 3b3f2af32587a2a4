"""The environment that templates run in: that of transformers, held to bounds.

    instrumented   texts keep their origins (`texts`), marks say where loops and tags are (`marks`)
    plain          the same template on plain texts, to check the other with

A template is somebody else's program: it reaches nothing but its arguments, and what it makes and
how long it takes is bounded.
"""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
from jinja2.compiler import CodeGenerator
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range

from dataprep.pipeline.documents.chat import bounds
from dataprep.pipeline.documents.chat.bounds import (
    ITEM,
    TemplateFailedError,
    check_operands,
    count_step,
    held,
    made,
    spend,
    weigh,
)
from dataprep.pipeline.documents.chat.costs import listed, spend_on
from dataprep.pipeline.documents.chat.filters import FILTERS, TESTS, bounded_filter, text_of
from dataprep.pipeline.documents.chat.marks import (
    HELD,
    MARKS,
    STOP,
    TRAIN,
    counted,
    mark_functions,
    marked,
)
from dataprep.pipeline.documents.chat.origins import Mark, Part
from dataprep.pipeline.documents.chat.tape import Tape
from dataprep.pipeline.documents.chat.texts import joined, make, of_any
from dataprep.pipeline.documents.chat.traced import Traced, first_text, parts_of, plain

PATTERNS = ("format", "format_map")
# Ways to bytes and numbers of any size, whose methods are not held to bounds.
HIDDEN = ("encode", "to_bytes", "from_bytes")
MAX_WIDER = 256  # what strftime makes of a pattern, in times of its size
MAX_RANGE_BITS = 60  # of larger numbers, many have the same hash


class _Dict:
    """`dict` without its other attributes, as transformers gives it to templates."""

    def __call__(self, *args: Any, **named: Any) -> dict[Any, Any]:
        return held(_as_dict(*args, **named))

    def fromkeys(self, keys: Any, *value: Any) -> dict[Any, Any]:
        return held(dict.fromkeys(listed(keys), *value))


def _as_dict(*args: Any, **named: Any) -> dict[Any, Any]:
    given = (arg if isinstance(arg, dict) else listed(arg) for arg in args)
    return dict(*given, **named)


class _Namespace(jinja2.utils.Namespace):
    def __init__(*args: Any, **named: Any) -> None:
        self, *given = args
        attributes = _as_dict(*given, **named)
        for name in attributes:
            _refuse_hidden(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_hidden(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def _refuse_hidden(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


class _GenerationTag(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %}: what the assistant wrote."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_generated")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _generated(self, caller: Callable[[], str]) -> str:
        around = getattr(self.environment, "around_generation", lambda text: text)
        text: str = around(caller())
        return text


class _Generator(CodeGenerator):
    """Computes nothing while it compiles: what a template does is watched while it runs."""

    def _output_child_to_const(self, node: Any, frame: Any, finalize: Any) -> str:
        if not isinstance(node, jinja2.nodes.Const | jinja2.nodes.TemplateData):
            raise jinja2.nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    code_generator_class = _Generator
    # Their results are bounded.
    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))
    concat = staticmethod(lambda values: _joined(values))

    def __init__(self, now: datetime.datetime) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            extensions=[_GenerationTag, jinja2.ext.loopcontrols],
        )
        self.tape: Tape | None = None  # of the conversation that is rendered, if with marks
        bounded = {name: bounded_filter(name, f) for name, f in self.filters.items()}
        self.filters = {**bounded, **FILTERS, HELD: held}
        self.tests = {**self.tests, **TESTS}
        self.globals |= {
            "raise_exception": _raise,
            "strftime_now": lambda pattern: _time_as(pattern, now),
            "dict": _Dict(),
            "namespace": _Namespace,
            "lipsum": FILTERS["random"],
            "range": _range,
            **mark_functions(self._tape),
        }

    def _tape(self) -> Tape:
        assert self.tape is not None
        return self.tape

    def compiled(self, source: str, *, with_marks: bool) -> jinja2.Template:
        """Return the template; with marks, it also keeps the origins of texts."""
        if MARKS in source:
            raise TemplateFailedError(f"uses names that begin with {MARKS}, which are not its own")
        tree = self.parse(source)
        code = self.compile(marked(tree) if with_marks else counted(tree))
        template = self.template_class.from_code(self, code, self.make_globals(None))
        names = template.root_render_func.__globals__  # of the module that jinja made
        names |= {"concat": _joined, "str_join": _joined_any, "str": text_of}
        return template

    def names_in(self, source: str) -> set[str]:
        """Return the variables that a template may look at."""
        return {*jinja2.meta.find_undeclared_variables(self.parse(source)), *self.globals}

    def around_generation(self, text: str) -> str:
        if self.tape is None:
            return text
        return make(self.tape, [Part("", Mark(TRAIN)), *parts_of(text), Part("", Mark(STOP))])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        check_operands(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        if operator == "%" and isinstance(left, str):
            result = of_any((left, right), result)
        return made(result)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in HIDDEN and super().is_safe_attribute(obj, attr, value)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if not isinstance(obj, str):
            return super().getattr(obj, attribute)
        # The sandbox's own `format` makes a text of the same type.
        found = super().getattr(plain(obj) if attribute in PATTERNS else obj, attribute)
        is_method = callable(found) and not isinstance(found, jinja2.Undefined)
        return _method(found, obj, attribute) if is_method else found

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, str) and isinstance(argument, str):
            return self.getattr(obj, argument)
        found = super().getitem(obj, argument)
        return made(found) if isinstance(argument, slice) else found

    def call(__self, __context: Any, __obj: Any, *args: Any, **named: Any) -> Any:
        count_step()
        return made(super().call(__context, __obj, *args, **named))


def _joined(values: Iterable[str]) -> str:
    found: list[str] = []
    for value in values:
        spend(str.__len__(value) + ITEM)
        found.append(value)
    return joined(found)


def _joined_any(values: Iterable[Any]) -> str:
    return _joined(map(text_of, values))


def _method(found: Any, obj: str, attribute: str) -> Callable[..., Any]:
    """Return a method of a text, by which the texts among its arguments keep their origin.

    A closure: a template could look into what `functools.partial` holds.
    """

    def method(*args: Any, **named: Any) -> Any:
        if attribute == "join" and len(args) == 1:
            args = (listed(args[0]),)
        weigh((args, named))
        spend_on(attribute, obj, (*args, *named.values()))
        if attribute in PATTERNS:
            return of_any((obj, args, named), found(*args, **named))
        text = first_text((args, named))
        if text is None or isinstance(obj, Traced):
            return found(*args, **named)
        return getattr(make(text._tape, [Part(obj)]), attribute)(*args, **named)

    return method


def _time_as(pattern: str, now: datetime.datetime) -> str:
    spend(MAX_WIDER * len(pattern))
    return now.strftime(pattern)


def _range(*args: int) -> range:
    if any(number.bit_length() > MAX_RANGE_BITS for number in args):
        raise TemplateFailedError("the template counts to a number that is too large")
    return safe_range(*args)


def _raise(message: str) -> None:
    raise jinja2.exceptions.TemplateError(message)


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise TemplateFailedError in here after some seconds; only the main thread has signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise TemplateFailedError(bounds.TOO_SLOW)

    # Of the processor, so that a slow machine changes nothing; commands use SIGALRM otherwise.
    before = signal.signal(signal.SIGVTALRM, ring)
    # Again and again: whoever catches all exceptions would run on.
    signal.setitimer(signal.ITIMER_VIRTUAL, bounds.SECONDS, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
