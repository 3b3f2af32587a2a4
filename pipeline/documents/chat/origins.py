"""Parts of texts, each with its origin: what `texts` is made of.

    '<user>' of the template | 'hello' of message 0, content | a mark: the loop goes on

How parts are cut, stripped and joined is here; `texts` makes it look like a `str`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dataprep.pipeline.documents.chat.tape import UNKNOWN, Tape


class TextOrigin(NamedTuple):
    message: int  # NO_MESSAGE: of the tools or other arguments; MIXED: of several messages
    field: str


class Mark(NamedTuple):
    """A place in the output, at which the template began or ended something."""

    kind: str  # begin | enter | set | end | train | stop
    value: int = -1


NO_MESSAGE, SEVERAL = -1, -2
SEVERAL_FIELDS = "several fields"
MIXED = TextOrigin(SEVERAL, "")


class Part(NamedTuple):
    value: str
    origin: TextOrigin | Mark | None = None  # None: of the template
    source: str = ""  # the tape's name for it; "": a constant, or unknown
    start: int = -1  # of its first character in the message's own text, where that is known
    owner: int = -1  # the message that the template was at when it put it to others


Parts = tuple[Part, ...]


def common_origin(origins: Iterable[Any]) -> TextOrigin | None:
    """Return the origin of a text that was made of several: one field, one message, or MIXED."""
    found = {origin for origin in origins if isinstance(origin, TextOrigin)}
    messages = {origin.message for origin in found}
    if len(found) == 1:
        return next(iter(found))
    if not messages:
        return None
    return TextOrigin(messages.pop(), SEVERAL_FIELDS) if len(messages) == 1 else MIXED


def cut_parts(parts: Sequence[Part], start: int, stop: int, source: str, tape: Tape) -> list[Part]:
    """Return the parts of a substring; marks stay where they are, those outside at its ends.

    Of several parts it is not known how many characters another conversation has in each.
    """
    written = [part for part in parts if part.value or part.source]
    is_one = len(written) == 1
    if not is_one and any(part.source for part in written):
        tape.breaks("a part of a text of several is taken")
    found: list[Part] = []
    place = 0
    for part in parts:
        a, b = max(start - place, 0), min(stop - place, len(part.value))
        place += len(part.value)
        if isinstance(part.origin, Mark):
            found.append(part)
        elif a < b or is_one:
            first = part.start + a if part.start >= 0 else -1
            name = source if is_one and part.source else part.source
            value = part.value[a:b] if a < b else ""
            found.append(Part(value, part.origin, name, first, part.owner))
    return found


def strip_parts(parts: Sequence[Part], chars: str | None, method: str, tape: Tape) -> list[Part]:
    """Strip part by part, by lstrip or rstrip: where one is left empty, the next is stripped."""
    from_left = method == "lstrip"
    found: list[Part] = []
    rest = iter(parts if from_left else parts[::-1])
    for part in rest:
        if isinstance(part.origin, Mark):
            found.append(part)
            continue
        value = str(getattr(str, method)(part.value, chars))
        start, source = part.start, part.source
        if start >= 0 and from_left:
            start += len(part.value) - len(value)
        if source == UNKNOWN:
            tape.breaks("a part of a text of several is stripped")
        elif source:
            source = tape.value(f"{source}.{method}({tape.constant(chars)})")
            tape.condition(f"bool({source})", bool(value))
        found.append(Part(value, part.origin, source, start, part.owner))
        if value:
            break
    found += rest
    return found if from_left else found[::-1]
