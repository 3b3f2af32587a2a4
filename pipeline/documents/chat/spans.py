"""Find which characters of a rendered conversation the loss is on, or say why that is not certain.

    <|im_start|>assistant\\n | <think>\\n… | hello | <|im_end|>\\n
    header                    span ───────────────────────────────

Tags of the template win. Else a message's span is its block without the role header: what the
template wrote while it was at that message, up to the token that ends the turn. A message whose
text is elsewhere, or lost, or whose header is not known, is refused: there is no guess.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from dataprep.pipeline.documents.chat.blocks import before_text, block_of
from dataprep.pipeline.documents.chat.cutting import (
    SpanCutter,
    SpannedParts,
    messages_of,
    place_of,
    whole,
)
from dataprep.pipeline.documents.chat.ends import end_of
from dataprep.pipeline.documents.chat.header_text import UNKNOWN_HEADER, find_header
from dataprep.pipeline.documents.chat.headers import Headers
from dataprep.pipeline.documents.chat.origins import SEVERAL_FIELDS, Part, TextOrigin
from dataprep.pipeline.documents.chat.refused import RefusedError, told
from dataprep.pipeline.documents.chat.render import REASONING, Conversation, Rendering
from dataprep.pipeline.documents.chat.texts import make
from dataprep.pipeline.errors import short

# What a turn consists of; other texts of a message, such as its name, belong to the header.
SAID = (
    "content",
    *REASONING,
    "tool_calls",
    "media",
    SEVERAL_FIELDS,
)


TOLD_ONCE = ("content", *REASONING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRules:
    span: str = "turn"  # turn | reply
    stop: tuple[str, ...] = ()  # tokens that end a turn
    is_everything: bool = False  # every token has loss


def spans_of(
    rendering: Rendering,
    conversation: Conversation,
    trained: Sequence[int],
    headers: Headers,
    rules: SpanRules,
) -> SpannedParts:
    """Return the rendering with the spans of the trained messages."""
    check_nothing_lost(rendering, conversation)
    if rendering.has_tags:
        messages = messages_of(rendering)
        pairs = zip(rendering.parts, messages, strict=True)
        owners = tuple(m if p.is_tagged and m in trained else -1 for p, m in pairs)
        for number in trained:
            if number not in owners:
                why = "has loss, but the template has no {% generation %} tag for it"
                raise RefusedError(told(conversation, number, why))
        return whole(rendering, owners)
    cutter = SpanCutter(rendering)
    for number in trained:
        _add_span(cutter, rendering, conversation, number, headers, rules)
    return cutter.cut()


def _add_span(
    cutter: SpanCutter,
    rendering: Rendering,
    conversation: Conversation,
    number: int,
    headers: Headers,
    rules: SpanRules,
) -> None:
    block = block_of(rendering, number)
    if block is None:
        raise RefusedError(told(conversation, number, "stands in no block of its own"))
    parts = [rendering.parts[i] for i in block]
    for owned in parts:
        origin = owned.part.origin
        if isinstance(origin, TextOrigin) and origin.message != number:
            other = "others or of tools" if origin.message < 0 else f"message {origin.message + 1}"
            raise RefusedError(told(conversation, number, f"holds text of {other}"))
    inside = {owned.part.origin for owned in parts}
    for i, owned in enumerate(rendering.parts):
        if i not in block and _says(owned.part, number, inside):
            why = "has text outside of its block, which would have no loss"
            raise RefusedError(told(conversation, number, why))
    start = _start(rendering, conversation, number, block, headers, rules)
    stop = end_of(rendering, conversation, number, block, headers, rules.stop)
    if start < stop:
        cutter.add(number, start, stop)


def _says(part: Part, number: int, inside: Set[Any]) -> bool:
    """Return whether a part is content or thinking of a message, or what it calls and is not
    `inside` of its block: that may be told again with the results."""
    origin = part.origin
    if not isinstance(origin, TextOrigin) or origin.message != number:
        return False
    field = _field(origin)
    return field in TOLD_ONCE or (field in SAID and origin not in inside)


def _field(origin: TextOrigin) -> str:
    return origin.field.partition("[")[0]


def _start(
    rendering: Rendering,
    conversation: Conversation,
    number: int,
    block: range,
    headers: Headers,
    rules: SpanRules,
) -> tuple[int, int]:
    """Return the place after the header."""
    parts = [rendering.parts[i] for i in block]
    prefix = "".join(before_text(parts))
    first = next((p.part.origin for p in parts if isinstance(p.part.origin, TextOrigin)), None)
    if isinstance(first, TextOrigin) and _field(first) not in SAID:
        raise RefusedError(
            told(conversation, number, f"begins with its {first.field}, which is no part of a turn")
        )
    role = conversation.messages[number].get("role")
    if role != "assistant":
        return place_of(rendering, block, len(prefix))
    before = str(conversation.messages[number - 1].get("role")) if number else "user"
    header = headers.after(before, conversation)
    roles = [str(message["role"]) for message in conversation.messages[:number]]
    is_bare = header.is_known and not header.role.strip()
    if is_bare and prefix.strip():  # thinking, or a header that is there at some places only
        there = headers.at_place(roles, conversation)
        header = UNKNOWN_HEADER if there.role.strip() or not there.is_known else header
    if not header.is_known:
        raise RefusedError(
            told(conversation, number, "has a header that cannot be told from its text")
        )
    end = find_header(prefix, header)
    if end < 0 and prefix.strip():
        header = headers.at_place(roles, conversation)
        end = find_header(prefix, header) if header.is_known else -1
    if end < 0:
        if not prefix.strip():
            _check_before(rendering, conversation, number, block, header.role.strip())
            return place_of(rendering, block, 0)
        raise RefusedError(
            told(conversation, number, f"does not begin with its header {header.role!r}")
        )
    if rules.span == "reply":
        return _after_prompt(rendering, block, prefix, end, header.prompt[len(header.role) :])
    return place_of(rendering, block, end)


def _check_before(
    rendering: Rendering, conversation: Conversation, number: int, block: range, role: str
) -> None:
    """Raise if the header of a block is written before it, with more than blanks in between."""
    before = ""
    for owned in reversed(rendering.parts[: block.start]):
        if owned.part.origin is not None:
            break
        before = owned.part.value + before
    rest = before.rpartition(role)[2].strip() if role and role in before else ""
    if rest:
        why = f"has {short(rest)!r} between its header and its block, which would have no loss"
        raise RefusedError(told(conversation, number, why))


def _after_prompt(
    rendering: Rendering, block: range, prefix: str, end: int, rest: str
) -> tuple[int, int]:
    """Return the place after the whole generation prompt, if the text goes on with it."""
    written = prefix[end:]
    if written.startswith(rest):
        return place_of(rendering, block, end + len(rest))
    following = place_of(rendering, block, len(prefix))
    if rest.startswith(written) and following[0] < block.stop:
        missing = rest[len(written) :]
        part = rendering.parts[following[0]].part
        if make(rendering.tape, [part]).startswith(missing):
            if part.source:
                size = f"(len({part.source}) > {rendering.tape.constant(len(missing))})"
                rendering.tape.condition(size, len(part.value) > len(missing))
            return following[0], len(missing)
    return place_of(rendering, block, end)


def check_nothing_lost(rendering: Rendering, conversation: Conversation) -> None:
    """Raise if the template leaves out the text of a message, or one of its tool calls.

    A text of blanks may be left out, so that it is blank becomes a condition of the tape.
    """
    origins = {owned.part.origin for owned in rendering.parts}
    for origin, texts in rendering.leaves.items():
        name = _field(origin)
        several = TextOrigin(origin.message, SEVERAL_FIELDS)
        if name not in ("content", "tool_calls") or {origin, several} & origins:
            continue
        for text, source in texts:
            if text.strip():
                why = f"has {origin.field} that the template leaves out"
                raise RefusedError(told(conversation, origin.message, why))
            rendering.tape.condition(f"bool({source}.strip())", False)
