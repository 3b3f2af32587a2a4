"""Give what a template writes in no loop over messages to the messages that it stands between.

    hi | <|end|><|assistant|> | yo | <|end|><|user|> | and
         end of 0   header of 1      end of 1  header of 2

Templates that copy messages, go by numbers or call themselves write texts of messages while no
loop is at one. Then the headers, which are known from other conversations, tell where one message
ends and the next begins. Where they do not, all stays as it was, and is refused later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from dataprep.pipeline.documents.chat.blocks import message_of
from dataprep.pipeline.documents.chat.cutting import cut_part
from dataprep.pipeline.documents.chat.headers import Headers
from dataprep.pipeline.documents.chat.render import Conversation, OwnedPart, Rendering


def with_owners(
    rendering: Rendering, conversation: Conversation, headers: Headers, stop: Sequence[str]
) -> Rendering:
    """Return the rendering with an owner of each part, if none of its texts has one."""
    texts = [i for i, owned in enumerate(rendering.parts) if message_of(owned.part) is not None]
    if rendering.has_tags or any(rendering.parts[i].owner >= 0 for i in texts):
        return rendering
    numbers = [message_of(rendering.parts[i].part) or 0 for i in texts]
    said = [number for number in numbers if number >= 0]
    if said != sorted(said) or len(set(said)) < 2 or min(numbers) < -1:
        return rendering  # one message is known by its text; texts of several cannot be told apart
    found: list[OwnedPart] = []
    edges = [(-1, -1), *zip(texts, numbers, strict=True)]
    for (before, owner), (place, number) in pairwise(edges):
        gap = rendering.parts[before + 1 : place]
        if number in (owner, -1):
            size: int | None = sum(len(owned.part.value) for owned in gap)
        else:
            size = _num_of_end(gap, owner, number, conversation, headers, stop)
        if size is None:
            return rendering
        found += _split(gap, size, owner, number, rendering)
        found.append(replace(rendering.parts[place], owner=number))
    rest = rendering.parts[texts[-1] + 1 :]
    ending = headers.ending(conversation) if _is_answer(conversation, numbers[-1]) else ""
    is_ended = "".join(owned.part.value for owned in rest).startswith(ending)
    found += _split(rest, len(ending) if is_ended else 0, numbers[-1], -1, rendering)
    return replace(rendering, parts=tuple(found))


def _num_of_end(
    gap: Sequence[OwnedPart],
    owner: int,
    number: int,
    conversation: Conversation,
    headers: Headers,
    stop: Sequence[str],
) -> int | None:
    """Return how many characters of a gap end the message before it; None if that is not known."""
    text = "".join(owned.part.value for owned in gap)
    roles = [str(message["role"]) for message in conversation.messages]
    if any(owned.part.source for owned in gap):
        return None
    if roles[number] == "assistant":
        header = headers.after(roles[number - 1] if number else "user", conversation)
        role = header.role.lstrip() if header.is_known else ""
        size = text.rfind(role) if role.strip() else -1
    else:
        introduction = headers.introduction(roles[number], conversation) or ""
        is_there = introduction.strip() and text.endswith(introduction)
        size = len(text) - len(introduction) if is_there else -1
    if size < 0:
        return 0 if owner < 0 and roles[number] == "system" else None
    end = text[:size].strip()
    is_end = not end or end == headers.ending(conversation).strip() or any(t in end for t in stop)
    return size if is_end or not _is_answer(conversation, owner) else None


def _is_answer(conversation: Conversation, number: int) -> bool:
    return number >= 0 and conversation.messages[number]["role"] == "assistant"


def _split(
    gap: Sequence[OwnedPart], size: int, owner: int, number: int, rendering: Rendering
) -> list[OwnedPart]:
    """Return the parts of a gap, of which so many characters belong to the message before."""
    found: list[OwnedPart] = []
    place = 0
    for owned in gap:
        for start, part in cut_part(owned.part, [size - place], rendering):
            of = owner if place + start < size else number
            found.append(replace(owned, part=part, owner=of))
        place += len(owned.part.value)
    return found
