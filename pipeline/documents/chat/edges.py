"""Move what a template writes at a user's message, but is not of that turn, to where it belongs.

    <|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n | <|im_start|>user\\n | hi
    before all                                                     header of a user

Some templates write BOS, or the prompt of a system that nobody gave, while they are at the first
message. It is of no turn: a conversation that loses its oldest turns must keep it.

    <|bot|>hello | <|end|> | <|user|>and?
    answer         its end   the next turn

Some write the token that ends an answer when they are at the next message. It goes with the answer,
unless the first user's message begins with such a token, too: then it separates messages, and must
stand between what is before all and whichever turn comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.pipeline.documents.chat.cutting import SpannedParts, cut_part
from dataprep.pipeline.documents.chat.origins import Part
from dataprep.pipeline.documents.chat.render import Rendering


def with_edges(
    found: SpannedParts,
    roles: Sequence[str],
    header: str,
    stop: Sequence[str],
    rendering: Rendering,
) -> SpannedParts:
    """Return the parts with the messages that they belong to.

    `header`: what the template writes before the text of a user's message that is not the first;
    `stop`: tokens that end a turn.
    """
    users = [i for i, role in enumerate(roles) if role == "user"]
    if not users:
        return found
    prefix = _text(found, _before_text(found, users[0]))
    if not _ending(prefix, stop):
        for user in users[1:]:
            before = _before_text(found, user)
            size = _ending(_text(found, before), stop)
            if size and before[0]:
                found = _moved(found, before, size, found.messages[before[0] - 1], rendering)
    header = header.lstrip()
    size = len(prefix) - len(header)
    if header and prefix.endswith(header) and prefix[:size].strip():
        found = _moved(found, _before_text(found, users[0]), size, -1, rendering)
    return found


def _ending(prefix: str, stop: Sequence[str]) -> int:
    """Return how many characters of a prefix end the turn before."""
    blanks = len(prefix) - len(prefix.lstrip())
    token = next((token for token in stop if token and prefix.startswith(token, blanks)), "")
    return blanks + len(token) if token else 0


def _before_text(found: SpannedParts, message: int) -> list[int]:
    """Return the parts of a message that the template wrote before the first text or medium."""
    own: list[int] = []
    for i, owner in enumerate(found.messages):
        if owner == message:
            is_given = found.parts[i].origin is not None or found.media[i] >= 0
            if is_given or (own and i != own[-1] + 1):
                break
            own.append(i)
    return own


def _text(found: SpannedParts, parts: Sequence[int]) -> str:
    return "".join(found.parts[i].value for i in parts)


def _moved(
    found: SpannedParts, before: Sequence[int], size: int, message: int, rendering: Rendering
) -> SpannedParts:
    """Return the parts, of which the first `size` characters of these belong to a message."""
    parts: list[Part] = []
    messages: list[int] = []
    owners: list[int] = []
    media: list[int] = []
    place = 0
    for i in before:
        for start, part in cut_part(found.parts[i], [size - place], rendering):
            parts.append(part)
            messages.append(message if place + start < size else found.messages[i])
            owners.append(found.owners[i])
            media.append(found.media[i])
        place += len(found.parts[i].value)
    first, rest = before[0], before[-1] + 1
    return replace(
        found,
        parts=(*found.parts[:first], *parts, *found.parts[rest:]),
        owners=(*found.owners[:first], *owners, *found.owners[rest:]),
        messages=(*found.messages[:first], *messages, *found.messages[rest:]),
        media=(*found.media[:first], *media, *found.media[rest:]),
    )
