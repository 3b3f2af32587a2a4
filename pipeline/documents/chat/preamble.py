"""Find what a template writes into the first user's message, but before that message.

    <|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n | <|im_start|>user\\n | hi
    before all                                                     header of a user

Some templates write BOS or the prompt of a system that nobody gave while they are at the first
message. It is of no turn: a conversation that loses its oldest turns must keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.pipeline.documents.chat.origins import Part
from dataprep.pipeline.documents.chat.render import Rendering
from dataprep.pipeline.documents.chat.spans import Cut, cut_part


def with_preamble(found: Cut, first_user: int, header: str, rendering: Rendering) -> Cut:
    """Return the parts with what stands before the header of the first user before all messages.

    `header`: what the template writes before the text of a later user's message.
    """
    own = [i for i, message in enumerate(found.messages) if message == first_user]
    before = _before_text(found.parts, own)
    prefix = "".join(found.parts[i].value for i in before)
    header = header.lstrip()
    size = len(prefix) - len(header)
    if not header or not prefix.endswith(header) or not prefix[:size].strip():
        return found
    parts: list[Part] = list(found.parts[: own[0]])
    messages = list(found.messages[: own[0]])
    owners = list(found.owners[: own[0]])
    place = 0
    for i in before:
        for start, part in cut_part(found.parts[i], [size - place], rendering):
            parts.append(part)
            messages.append(-1 if place + start < size else first_user)
            owners.append(found.owners[i])
        place += len(found.parts[i].value)
    rest = before[-1] + 1
    return replace(
        found,
        parts=(*parts, *found.parts[rest:]),
        owners=(*owners, *found.owners[rest:]),
        messages=(*messages, *found.messages[rest:]),
    )


def _before_text(parts: Sequence[Part], own: Sequence[int]) -> list[int]:
    """Return the first of these parts, which follow each other, up to one of the record's."""
    found: list[int] = []
    for i in own:
        if parts[i].origin is not None or (found and i != found[-1] + 1):
            break
        found.append(i)
    return found
