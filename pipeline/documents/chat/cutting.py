"""Cut what a template wrote where spans begin and end.

    parts    <|im_start|>assistant\\n<think> | hello | <|im_end|>\\n
    spans                          └──────────────────────────┘
    cut      <|im_start|>assistant\\n | <think> | hello | <|im_end|>\\n    each in a span or none

`spans` and `ends` say where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataprep.pipeline.documents.chat.origins import Part, TextOrigin
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Rendering
from dataprep.pipeline.documents.chat.texts import TracedText, make

Details = tuple[tuple[int, int], ...]  # characters of a content that have loss


@dataclass(frozen=True, slots=True, kw_only=True)
class SpannedParts:
    """A rendering cut so that each part is within one span, or in none."""

    parts: tuple[Part, ...]
    owners: tuple[int, ...]  # the message whose span a part is in; -1: none
    messages: tuple[int, ...]  # the message that a part belongs to; -1: what comes before all
    media: tuple[int, ...]  # the medium that a part stands for; -1: none


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


class SpanCutter:
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


def place_of(rendering: Rendering, parts: range, characters: int) -> tuple[int, int]:
    """Return the part and character that so many characters of constant parts lead to."""
    for i in parts:
        size = len(rendering.parts[i].part.value)
        if characters < size or (characters == 0 and rendering.parts[i].part.source):
            return i, characters
        characters -= size
    return parts.stop, 0


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
