"""Which parts of what a template wrote are a message's: what it wrote while it was at it.

<|user|>hi | <|assistant|>yo<|end|> | <|user|>and
             block of message 1
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from dataprep.pipeline.documents.chat.origins import Part, TextOrigin
from dataprep.pipeline.documents.chat.render import OwnedPart, Rendering


def before_text(parts: Iterable[OwnedPart], *, is_reversed: bool = False) -> list[str]:
    """Return what the template writes before the first text of a message; of parts that are given
    in reverse, after the last."""
    own = takewhile(lambda owned: not isinstance(owned.part.origin, TextOrigin), parts)
    found = [owned.part.value for owned in own]
    return found[::-1] if is_reversed else found


def block_of(rendering: Rendering, number: int) -> range | None:
    """Return the parts that a message owns; None if they are not known, or not together.

    A message that no loop owns has what the template wrote between the messages that one does, if
    no other message is in it.
    """
    own = [i for i, part in enumerate(rendering.parts) if part.owner == number]
    if not own:
        own = _unowned_of(rendering, number)
    if own and own[-1] - own[0] + 1 != len(own):  # blanks after another message are no text
        own = [
            i
            for i in own
            if rendering.parts[i].part.origin or rendering.parts[i].part.value.strip()
        ]
    if not own or own[-1] - own[0] + 1 != len(own):
        return None
    return range(own[0], own[-1] + 1)


def message_of(part: Part) -> int | None:
    return part.origin.message if isinstance(part.origin, TextOrigin) else None


def _unowned_of(rendering: Rendering, number: int) -> list[int]:
    def owner_at(i: int) -> int | None:
        return message_of(rendering.parts[i].part)

    places = range(len(rendering.parts))
    first = next((i for i in places if owner_at(i) == number and rendering.parts[i].owner < 0), -1)
    if first < 0:
        return []
    start = stop = first
    while start > 0 and rendering.parts[start - 1].owner < 0:
        start -= 1
    while stop + 1 < len(rendering.parts) and rendering.parts[stop + 1].owner < 0:
        stop += 1
    found = {owner_at(i) for i in range(start, stop + 1)} - {None}
    return list(range(start, stop + 1)) if found == {number} else []
