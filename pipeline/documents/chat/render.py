"""Render conversations by a template, with the origin of every character.

    messages ─► texts that know where they are from ─► the template ─► parts with owners

The text is what `transformers` renders, to the character.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError, allowance, size_of
from dataprep.pipeline.documents.chat.loops import Loops
from dataprep.pipeline.documents.chat.marks import ChatMessage, MediaPart
from dataprep.pipeline.documents.chat.messages import is_bare
from dataprep.pipeline.documents.chat.origins import NO_MESSAGE, Mark, Part, TextOrigin
from dataprep.pipeline.documents.chat.sandbox import TemplateEnvironment, time_limit
from dataprep.pipeline.documents.chat.tape import Tape
from dataprep.pipeline.documents.chat.texts import make
from dataprep.pipeline.documents.chat.traced import parts_of
from dataprep.pipeline.errors import short

REASONING = ("reasoning_content", "thinking", "reasoning")
# Texts by which templates decide, and of which there are few: part of the shape of a conversation.
PLAIN = frozenset(("role",))
PLAIN_OF_ITEMS = frozenset(("type",))  # of contents and tool calls
NOTHING_PLAIN: frozenset[str] = frozenset()
# Keys that messages, calls, parts and schemas have by their form.
FORMAL = frozenset(
    (
        *("role", "content", "name", "tool_calls", "tool_call_id", "id", "function", "arguments"),
        *("type", "text", "image_url", "url", "input_audio", *REASONING),
        *("description", "parameters", "properties", "required", "items", "enum", "default"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a template is given."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] | None = None
    variables: Mapping[str, Any]  # special tokens, and arguments of the record or the config


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPart:
    """A part of the output, and the message that the template was at when it wrote it; -1: none."""

    part: Part
    owner: int
    is_tagged: bool  # within {% generation %}
    medium: int = -1  # which medium the template writes it for; -1: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    parts: tuple[OwnedPart, ...]
    tape: Tape
    has_tags: bool
    leaves: Mapping[TextOrigin, Sequence[tuple[str, str]]]  # texts and their names on the tape

    @property
    def text(self) -> str:
        return "".join(owned.part.value for owned in self.parts)


# A number may have too many digits, and loops may be deeper in each other than Python has them.
_NO_TEMPLATE = (
    jinja2.TemplateError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    SyntaxError,
    ValueError,
)


class Renderer:
    """Renders by one template. The clock stands at `now`."""

    def __init__(self, source: str, now: datetime.datetime) -> None:
        self._environment = TemplateEnvironment(now)
        self.names: frozenset[str] = frozenset()  # variables that the template looks at
        try:
            with time_limit(), allowance(len(source)):
                self._marked = self._environment.compiled(source, with_marks=True)
                self._plain = self._environment.compiled(source, with_marks=False)
                self.names = frozenset(self._environment.names_in(source))
        except _NO_TEMPLATE as error:
            raise TemplateFailedError(f"is not a template: {_said(error)}") from None

    def plain(self, conversation: Conversation, *, prompt: bool = False) -> str:
        """Return the text, as `transformers` does; `prompt` asks for a generation prompt."""
        messages = [with_reasoning(message) for message in conversation.messages]
        self._environment.tape = None
        return str(self._run(self._plain, conversation, messages, conversation.tools, prompt))

    def render(self, conversation: Conversation, *, prompt: bool = False) -> Rendering:
        leaves: dict[TextOrigin, list[tuple[str, str]]] = {}
        tape = Tape()
        messages = [
            ChatMessage(i, with_reasoning(_with_origins(message, i, leaves, tape)))
            for i, message in enumerate(conversation.messages)
        ]
        tools = _tools_with_origin(conversation.tools, tape)
        self._environment.tape = tape
        output = self._run(self._marked, conversation, messages, tools, prompt)
        parts = owned_parts(parts_of(output))
        has_tags = any(part.is_tagged for part in parts)
        return Rendering(parts=parts, tape=tape, has_tags=has_tags, leaves=leaves)

    def _run(
        self,
        template: jinja2.Template,
        conversation: Conversation,
        messages: Any,
        tools: Any,
        prompt: bool,
    ) -> str:
        given = {
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": prompt,
            **conversation.variables,
        }
        try:
            with time_limit(), allowance(size_of([given])):
                return template.render(given)
        except TemplateFailedError:
            raise
        except (
            jinja2.TemplateError,
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            raise TemplateFailedError(f"the template refuses it: {_said(error)}") from None


def owned_parts(parts: Sequence[Part]) -> tuple[OwnedPart, ...]:
    """Return the parts that have characters or may have some, with the message each belongs to.

    What is written in no loop belongs to the message at which it was put together: some templates
    gather all that they write in one text.
    """
    loops = Loops()
    found: list[OwnedPart] = []
    depth = 0
    for part in parts:
        mark = part.origin
        if not isinstance(mark, Mark):
            if part.value or part.source:
                owner = loops.at if loops.at >= 0 else part.owner
                if loops.medium >= 0 and part.origin is None:
                    part = part._replace(origin=TextOrigin(owner, "media"))
                found.append(
                    OwnedPart(part=part, owner=owner, is_tagged=depth > 0, medium=loops.medium)
                )
        elif mark.kind in ("train", "stop"):
            depth += 1 if mark.kind == "train" else -1
        else:
            loops.move(mark.kind, mark.value)
    return tuple(found)


def with_reasoning(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with its reasoning under the names that templates read."""
    reasoning = next((message[k] for k in REASONING if message.get(k) is not None), None)
    if reasoning is None:
        return dict(message)
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def shape_of_messages(messages: Sequence[Mapping[str, Any]], leaves: list[str]) -> Any:
    """Return the shape of a conversation, as `shape_of` does of a value."""
    shapes: list[Any] = []
    for message in messages:
        if is_bare(message) and next(iter(message)) == "role":
            shapes.append(message["role"])  # of a message with nothing else but a text
            leaves.append(message["content"])
        else:
            shapes.append(shape_of(message, leaves))
    return tuple(shapes)


def shape_of(value: Any, leaves: list[str], plain: frozenset[str] = PLAIN) -> Any:
    """Return all of a value but its texts, which are added to `leaves`, as something to look up.

    The texts under the keys `plain` are part of the shape: the role of a message, the type of a
    part or call.
    """
    if isinstance(value, str):
        leaves.append(value)
        return None
    if isinstance(value, dict):
        return (
            dict,
            *[
                (
                    key,
                    inner
                    if key in plain and isinstance(inner, str)
                    else shape_of(inner, leaves, _plain_below(key, plain)),
                )
                for key, inner in value.items()
            ],
        )
    if isinstance(value, list | tuple):
        return (list, *[shape_of(inner, leaves, plain) for inner in value])
    return (type(value), repr(value))


def _plain_below(key: str, plain: frozenset[str]) -> frozenset[str]:
    """Return the keys whose texts are part of the shape in what a key holds."""
    is_listed = plain is PLAIN and key in ("content", "tool_calls")
    return PLAIN_OF_ITEMS if is_listed else NOTHING_PLAIN


def _with_origins(
    message: Mapping[str, Any],
    number: int,
    leaves: dict[TextOrigin, list[tuple[str, str]]],
    tape: Tape,
) -> dict[str, Any]:
    """Return the message with texts that know it, in the order of `shape_of`."""

    def named(key: str, field: str) -> str:
        return _key(key, TextOrigin(number, field), tape)

    def given(value: Any, field: str, plain: frozenset[str]) -> Any:
        if isinstance(value, str):
            origin, source = TextOrigin(number, field), tape.new_text()
            leaves.setdefault(origin, []).append((value, source))
            return make(tape, [Part(value, origin, source, 0)])
        if isinstance(value, dict):
            values = {
                named(key, _field_of(key, field)): inner
                if key in plain and isinstance(inner, str)
                else given(inner, _field_of(key, field), _plain_below(key, plain))
                for key, inner in value.items()
            }
            return MediaPart(value._number, values) if isinstance(value, MediaPart) else values
        if isinstance(value, list | tuple):
            # The items of a field are told apart, those of its items are not.
            is_field = field.isidentifier()
            names = [f"{field}[{i}]" if is_field else field for i in range(len(value))]
            return [given(v, name, plain) for v, name in zip(value, names, strict=True)]
        return value

    found: dict[str, Any] = given(message, "", PLAIN)
    return found


def _field_of(key: str, field: str) -> str:
    """Return the field of what an object within a field holds: arguments are told from the rest of
    their call, which may be told again with its result.

    >>> _field_of("content", ""), _field_of("name", "tool_calls[0]")
    ('content', 'tool_calls[0]')
    >>> _field_of("arguments", "tool_calls[0]")
    'tool_calls[0].arguments'
    """
    is_call = key == "arguments" and field.startswith("tool_calls[") and field.endswith("]")
    return f"{field}.{key}" if is_call else field or key


def _tools_with_origin(value: Any, tape: Tape) -> Any:
    """Return tools with texts that are no template's, but constant: they are part of the shape."""
    if isinstance(value, str):
        return make(tape, [Part(value, TextOrigin(NO_MESSAGE, "tools"))])
    if isinstance(value, dict):
        origin = TextOrigin(NO_MESSAGE, "tools")
        return {
            _key(key, origin, tape): _tools_with_origin(inner, tape) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_tools_with_origin(inner, tape) for inner in value]
    return value


def _key(key: str, origin: TextOrigin, tape: Tape) -> str:
    """Return the key of an object, which is content like its value unless a form has it so."""
    return key if key in FORMAL else make(tape, [Part(key, origin)])


def _said(error: BaseException) -> str:
    return short(" ".join(str(error).split()) or type(error).__name__, 300)
