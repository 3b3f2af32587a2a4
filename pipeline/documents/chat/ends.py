"""Find where a turn ends: after the token that ends it, before the header of the next.

yo<|im_end|>\\n            the token that ends a turn, and the blanks that go with it
yo | <|user|>and?        a token that the template writes at the next message, or after all: it is
                         known to end turns, or does so at the end of all, too
yo\\n | USER:             no such token, but the header of the next message in this block
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.cutting import place_of
from dataprep.pipeline.documents.chat.header_text import begun_at_end, common_end
from dataprep.pipeline.documents.chat.headers import Headers
from dataprep.pipeline.documents.chat.refused import RefusedError, told
from dataprep.pipeline.documents.chat.render import Conversation, OwnedPart, Rendering
from dataprep.pipeline.errors import short


def end_of(
    rendering: Rendering,
    conversation: Conversation,
    number: int,
    block: range,
    headers: Headers,
    stop: Sequence[str],
) -> tuple[int, int]:
    """Return the place after the token that ends the turn, and the blanks that go with it."""
    parts = rendering.parts
    last = block.stop - 1
    while last >= block.start and parts[last].part.origin is None:
        last -= 1
    tail = "".join(parts[i].part.value for i in range(last + 1, block.stop))
    ends = [tail.rfind(token) + len(token) for token in stop if token in tail]
    if ends:
        end = max(ends)
        end += len(tail[end:]) - len(tail[end:].lstrip())
    else:
        following = _after_block(parts, block, with_next=True)
        end = len(tail) - _introducing(tail, following, conversation, number, headers)
    if end < len(tail):
        return place_of(rendering, range(last + 1, block.stop), end)
    after = _after_block(parts, block, with_next=not ends)
    begins = len(after) - len(after.lstrip())
    possible = stop
    if conversation.messages[number].get("role") == "assistant":
        ending = headers.ending(conversation).strip()
        possible = stop if ending in tail else (*stop, ending)
    token = next((t for t in possible if t and after[begins:].startswith(t)), "")
    if not token:
        return block.stop, 0
    if token not in stop and headers.may_be_begun(token, conversation):
        raise _unclear(token, conversation, number)
    end = begins + len(token)
    end += _blanks_with(after, end, conversation, number, headers)
    return place_of(rendering, range(block.stop, len(parts)), end)


def _blanks_with(
    after: str, end: int, conversation: Conversation, number: int, headers: Headers
) -> int:
    """Return how many blanks go with a token that ends a turn, but stands after its block: those
    that are not of the next header."""
    rest = conversation.messages[number + 1 : number + 2]
    header = headers.introduction(str(rest[0]["role"]), conversation) if rest else ""
    if header is None or not after.endswith(header):
        return 0
    between = after[end : max(end, len(after) - len(header))]
    return len(between) - len(between.lstrip())


def _introducing(
    tail: str, following: str, conversation: Conversation, number: int, headers: Headers
) -> int:
    """Return how many characters at the end of a block, which has no token that ends a turn, are
    the header of the next message: some templates write it there.

    `following` is what comes before the text of the next message, and is its own.
    """
    if not tail.strip():
        return 0
    rest = conversation.messages[number + 1 : number + 2]
    following = following if rest else ""
    known = {role: headers.introduction(role, conversation) for role in _roles(rest)}
    is_unknown = None in known.values() and not following.strip()
    if is_unknown or headers.may_be_begun(tail, conversation):
        raise _unclear(tail, conversation, number)
    count = common_end if rest else begun_at_end  # at the end there may be the start of one
    written = [len(count(tail + following, header or "")) for header in known.values()]
    header = tail[len(tail) - max(0, *(size - len(following) for size in written)) :]
    return len(header.lstrip())


def _unclear(end: str, conversation: Conversation, number: int) -> RefusedError:
    why = (
        f"ends with {short(end)!r}, which may be the header of the next; name the token that ends "
        "a turn in chat.stop"
    )
    return RefusedError(told(conversation, number, why))


def _roles(following: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return whose header may come next: that of the next message, or of a user."""
    return {"user", *(str(message["role"]) for message in following)}


def _after_block(parts: Sequence[OwnedPart], block: range, *, with_next: bool) -> str:
    """Return what the template writes right after a block, `with_next` for the next message."""
    found = []
    for owned in parts[block.stop :]:
        if owned.part.origin is not None or (owned.owner >= 0 and not with_next):
            break
        found.append(owned.part.value)
    return "".join(found)
