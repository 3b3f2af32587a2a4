"""Move what a template writes at a user's message, but is not of that turn, to where it belongs.

    <|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n | <|im_start|>user\\n | hi
    before all                                                     header of a user

Some templates write BOS, or the prompt of a system that nobody gave, while they are at the first
message. It is of no turn: a conversation that loses its oldest turns must keep it.

    <|bot|>hello | <|end|> | <|user|>and?
    answer         its end   the next turn

Some write the token that ends a message when they are at the next one. It goes with the message
that it ends, be it an answer or the system's, unless it is a part of every user's header.
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

    `header`: what the template writes before the text of any user's message; `stop`: tokens that
    end a turn.
    """
    users = [i for i, role in enumerate(roles) if role == "user"]
    header = header.lstrip()
    for user in users:
        before = _before_text(found, user)
        prefix = _text(found, before)
        is_known = bool(header) and prefix.endswith(header)
        size = len(prefix) - len(header) if is_known else 0
        if user != users[0]:
            size = _ending(prefix, size if is_known else len(prefix), stop)
            message = found.messages[before[0] - 1] if before and before[0] else -1
        else:
            size, message = size if prefix[:size].strip() else 0, -1
        if size and (user == users[0] or before[0]):
            found = _moved(found, before, size, message, rendering)
    return found


def _ending(prefix: str, most: int, stop: Sequence[str]) -> int:
    """Return how many characters of a prefix, of which at most so many are of no header, end the
    turn before.

    >>> _ending("<|end|>\\n<|user|>", 8, ["<|end|>"]), _ending("<|end|><|user|>", 0, ["<|end|>"])
    (8, 0)
    """
    prefix = prefix[:most]
    blanks = len(prefix) - len(prefix.lstrip())
    token = next((token for token in stop if token and prefix.startswith(token, blanks)), "")
    end = blanks + len(token)
    return end + len(prefix[end:]) - len(prefix[end:].lstrip()) if token else 0


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
