"""Find which characters of a rendered conversation the loss is on, or say why that is not certain.

    <|im_start|>assistant\\n | <think>\\n… | hello | <|im_end|>\\n
    header                    span ───────────────────────────────

Tags of the template win. Else a message's span is its block without the role header: what the
template wrote while it was at that message, up to the token that ends the turn. A message whose
text is elsewhere, or lost, or whose header is not known, is refused: there is no guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataprep.pipeline.documents.chat.headers import (
    Headers,
    before_text,
    block_of,
    find_header,
)
from dataprep.pipeline.documents.chat.origins import SEVERAL_FIELDS, Part, TextOrigin
from dataprep.pipeline.documents.chat.render import Conversation, OwnedPart, Rendering
from dataprep.pipeline.documents.chat.texts import TracedText, make

Details = tuple[tuple[int, int], ...]  # characters of a content that have loss


# What a turn consists of; other texts of a message, such as its name, belong to the header.
SAID = (
    "content",
    "reasoning_content",
    "thinking",
    "reasoning",
    "tool_calls",
    "media",
    SEVERAL_FIELDS,
)


class RefusedError(ValueError):
    """It is not certain where the loss belongs; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRules:
    span: str = "turn"  # turn | reply
    stop: tuple[str, ...] = ()  # tokens that end a turn
    is_everything: bool = False  # every token has loss


@dataclass(frozen=True, slots=True, kw_only=True)
class SpannedParts:
    """A rendering cut so that each part is within one span, or in none."""

    parts: tuple[Part, ...]
    owners: tuple[int, ...]  # the message whose span a part is in; -1: none
    messages: tuple[int, ...]  # the message that a part belongs to; -1: what comes before all
    media: tuple[int, ...]  # the medium that a part stands for; -1: none


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
                told = "has loss, but the template has no {% generation %} tag for it"
                raise RefusedError(_told(conversation, number, told))
        return whole(rendering, owners)
    cutter = _Cutter(rendering)
    for number in trained:
        _add_span(cutter, rendering, conversation, number, headers, rules)
    return cutter.cut()


def whole(rendering: Rendering, owners: tuple[int, ...]) -> SpannedParts:
    """Return a rendering that is cut nowhere."""
    return SpannedParts(
        parts=tuple(owned.part for owned in rendering.parts),
        owners=owners,
        messages=messages_of(rendering),
        media=tuple(owned.medium for owned in rendering.parts),
    )


def messages_of(rendering: Rendering) -> tuple[int, ...]:
    """Return the message that each part belongs to: what no loop owns goes with what is before."""
    found: list[int] = []
    last = -1
    for owned in rendering.parts:
        origin = owned.part.origin
        if owned.owner >= 0:
            last = owned.owner
        elif isinstance(origin, TextOrigin) and origin.message >= 0:
            last = origin.message
        found.append(last)
    return tuple(found)


class _Cutter:
    """Collects spans by characters, then cuts parts at their ends."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering
        self._spans: list[tuple[int, int, int, int, int]] = []

    def add(self, owner: int, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Add a span: from (part, character) up to (part, character)."""
        self._spans.append((owner, *first, *last))

    def cut(self) -> SpannedParts:
        parts: list[Part] = []
        owners: list[int] = []
        messages: list[int] = []
        media: list[int] = []
        of_parts = messages_of(self._rendering)
        cuts: dict[int, set[int]] = {}
        for _, p, a, q, b in self._spans:
            cuts.setdefault(p, set()).add(a)
            cuts.setdefault(q, set()).add(b)
        for i, owned in enumerate(self._rendering.parts):
            places = sorted(cuts.get(i, ()))
            for start, part in cut_part(owned.part, places, self._rendering):
                parts.append(part)
                owners.append(self._owner(i, start))
                messages.append(of_parts[i])
                media.append(owned.medium)
        return SpannedParts(
            parts=tuple(parts),
            owners=tuple(owners),
            messages=tuple(messages),
            media=tuple(media),
        )

    def _owner(self, part: int, start: int) -> int:
        for owner, p, a, q, b in self._spans:
            if (p, a) <= (part, start) < (q, b):
                return owner
        return -1


def cut_part(part: Part, places: Sequence[int], rendering: Rendering) -> list[tuple[int, Part]]:
    """Return the pieces of a part, each with its first character."""
    inner = [place for place in places if 0 < place < len(part.value)]
    if not inner:
        return [(0, part)]
    text = make(rendering.tape, [part])
    starts = [0, *inner]
    found: list[tuple[int, Part]] = []
    for start, stop in zip(starts, [*inner, None], strict=True):
        piece = text[start:stop]
        assert isinstance(piece, TracedText)
        found += [(start, inner_part) for inner_part in piece._parts]
    return found


def _add_span(
    cutter: _Cutter,
    rendering: Rendering,
    conversation: Conversation,
    number: int,
    headers: Headers,
    rules: SpanRules,
) -> None:
    block = block_of(rendering, number)
    if block is None:
        raise RefusedError(_told(conversation, number, "stands in no block of its own"))
    parts = [rendering.parts[i] for i in block]
    for owned in parts:
        origin = owned.part.origin
        if isinstance(origin, TextOrigin) and origin.message != number:
            other = "others or of tools" if origin.message < 0 else f"message {origin.message + 1}"
            raise RefusedError(_told(conversation, number, f"holds text of {other}"))
    start = _start(rendering, conversation, number, block, headers, rules)
    stop = _stop(rendering, number, block, rules)
    if start < stop:
        cutter.add(number, start, stop)


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
    prefix = before_text(parts, number)
    first = next((p.part.origin for p in parts if isinstance(p.part.origin, TextOrigin)), None)
    if isinstance(first, TextOrigin) and first.field.partition("[")[0] not in SAID:
        raise RefusedError(
            _told(
                conversation, number, f"begins with its {first.field}, which is no part of a turn"
            )
        )
    role = conversation.messages[number].get("role")
    if role != "assistant":
        return _place(rendering, block, len(prefix))
    before = str(conversation.messages[number - 1].get("role")) if number else "user"
    header = headers.after(before, conversation)
    if not header.is_known:
        raise RefusedError(
            _told(conversation, number, "has a header that cannot be told from its text")
        )
    end = find_header(prefix, header)
    if end < 0:
        if not prefix.strip():
            return _place(rendering, block, 0)
        raise RefusedError(
            _told(conversation, number, f"does not begin with its header {header.role!r}")
        )
    if rules.span == "reply":
        return _after_prompt(rendering, block, prefix, end, header.prompt[len(header.role) :])
    return _place(rendering, block, end)


def _after_prompt(
    rendering: Rendering, block: range, prefix: str, end: int, rest: str
) -> tuple[int, int]:
    """Return the place after the whole generation prompt, if the text goes on with it."""
    written = prefix[end:]
    if written.startswith(rest):
        return _place(rendering, block, end + len(rest))
    following = _place(rendering, block, len(prefix))
    if rest.startswith(written) and following[0] < block.stop:
        missing = rest[len(written) :]
        part = rendering.parts[following[0]].part
        if make(rendering.tape, [part]).startswith(missing):
            if part.source:
                size = f"(len({part.source}) > {rendering.tape.constant(len(missing))})"
                rendering.tape.condition(size, len(part.value) > len(missing))
            return following[0], len(missing)
    return _place(rendering, block, end)


def _stop(rendering: Rendering, number: int, block: range, rules: SpanRules) -> tuple[int, int]:
    """Return the place after the token that ends the turn, and the blanks that go with it."""
    parts = rendering.parts
    last = block.stop - 1
    while last >= block.start and parts[last].part.origin is None:
        last -= 1
    tail = "".join(parts[i].part.value for i in range(last + 1, block.stop))
    ends = [tail.rfind(token) + len(token) for token in rules.stop if token in tail]
    if ends:
        end = max(ends)
        end += len(tail[end:]) - len(tail[end:].lstrip())
        inside = _place(rendering, range(last + 1, block.stop), end)
        if end < len(tail):
            return inside
    after = _after_block(parts, block, with_next=not ends)
    begins = len(after) - len(after.lstrip())
    token = next((t for t in rules.stop if after[begins:].startswith(t)), "")
    if not token:
        return block.stop, 0
    return _place(rendering, range(block.stop, len(parts)), begins + len(token))


def _after_block(parts: Sequence[OwnedPart], block: range, *, with_next: bool) -> str:
    """Return what the template writes right after a block, `with_next` for the next message."""
    found = []
    for owned in parts[block.stop :]:
        if owned.part.origin is not None or (owned.owner >= 0 and not with_next):
            break
        found.append(owned.part.value)
    return "".join(found)


def _place(rendering: Rendering, parts: range, characters: int) -> tuple[int, int]:
    """Return the part and character that so many characters of constant parts lead to."""
    for i in parts:
        size = len(rendering.parts[i].part.value)
        if characters < size or (characters == 0 and rendering.parts[i].part.source):
            return i, characters
        characters -= size
    return parts.stop, 0


def check_nothing_lost(rendering: Rendering, conversation: Conversation) -> None:
    """Raise if the template leaves out the text of a message, or one of its tool calls.

    A text of blanks may be left out, so that it is blank becomes a condition of the tape.
    """
    origins = {owned.part.origin for owned in rendering.parts}
    for origin, texts in rendering.leaves.items():
        name = origin.field.partition("[")[0]
        several = TextOrigin(origin.message, SEVERAL_FIELDS)
        if name not in ("content", "tool_calls") or {origin, several} & origins:
            continue
        for text, source in texts:
            if text.strip():
                told = f"has {origin.field} that the template leaves out"
                raise RefusedError(_told(conversation, origin.message, told))
            rendering.tape.condition(f"bool({source}.strip())", False)


def _told(conversation: Conversation, number: int, what: str) -> str:
    role = conversation.messages[number].get("role")
    return f"message {number + 1} ({role}) {what}"


def with_details(
    found: SpannedParts, details: Mapping[int, Details], rendering: Rendering
) -> SpannedParts:
    """Return the spans without those characters of contents that are not to be trained on."""
    rows: list[tuple[Part, int, int, int]] = []
    columns = (found.parts, found.owners, found.messages, found.media)
    for part, owner, message, medium in zip(*columns, strict=True):
        field = part.origin.field if isinstance(part.origin, TextOrigin) else ""
        is_content = field.partition("[")[0] == "content"
        if owner not in details or not is_content:
            rows.append((part, owner, message, medium))
            continue
        if part.start < 0 or field not in ("content", "content[0]"):
            raise RefusedError(
                f"message {owner + 1} has training_detail, but the template changes its content"
            )
        ends = sorted({end - part.start for pair in details[owner] for end in pair})
        for start, piece in cut_part(part, ends, rendering):
            first = part.start + start
            has_loss = any(a <= first < b for a, b in details[owner])
            rows.append((piece, owner if has_loss else -1, message, medium))
    parts, owners, messages, media = zip(*rows, strict=True)
    return SpannedParts(parts=parts, owners=owners, messages=messages, media=media)
