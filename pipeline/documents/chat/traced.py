"""What is known about a text that a template works with: its parts, and the tape that records it.

    Traced  'hello<end>'    parts  'hello' of message 0, content | '<end>' of the template

Asks and names only; `texts` has the methods that templates call, and makes new texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.origins import Mark, Part, Parts
from dataprep.pipeline.documents.chat.tape import UNKNOWN, Tape


class Traced(str):
    """A text with the origin of each of its characters."""

    __slots__ = ("_parts", "_tape")
    _parts: Parts
    _tape: Tape


def plain(text: str) -> str:
    """Return a `str` that is no `Traced`, without a question that the tape would record."""
    return "".join(part.value for part in text._parts) if isinstance(text, Traced) else text


def parts_of(text: str) -> Parts:
    return text._parts if isinstance(text, Traced) else ((Part(text),) if text else ())


def source_of(text: str, tape: Tape) -> str:
    """Return the tape's expression for a text."""
    parts = [part for part in parts_of(text) if not isinstance(part.origin, Mark)]
    names = [part.source or tape.constant(part.value) for part in parts]
    if UNKNOWN in names:
        tape.breaks("a part of a text of several is used")
        return tape.constant("")
    if not names:
        return tape.constant("")
    return names[0] if len(names) == 1 else tape.value("+".join(names))


def called(text: Traced, call: str, args: Sequence[Any]) -> str:
    """Return the variable for the result of a call; "" if that is a constant."""
    if not varies((text, *args)):
        return ""
    return text._tape.value(expression_of(text, call, args))


def varies(values: Iterable[Any]) -> bool:
    """Return whether a text among the values may be another one for another conversation."""
    texts = (value for value in values if isinstance(value, Traced))
    return any(part.source for text in texts for part in text._parts)


def expression_of(text: Traced, call: str, args: Sequence[Any]) -> str:
    tape = text._tape
    names = [source_of(a, tape) if isinstance(a, Traced) else tape.constant(a) for a in args]
    return call.format(source_of(text, tape), *names)


def asked(text: Traced, call: str, answer: Any, args: Sequence[Any] = ()) -> Any:
    if varies((text, *args)):
        text._tape.condition(expression_of(text, call, args), answer)
    return answer


def origins_in(values: Iterable[Any]) -> set[Any]:
    found: set[Any] = set()
    for value in values:
        if isinstance(value, str):
            found |= {part.origin for part in parts_of(value)}
        elif isinstance(value, dict):
            found |= origins_in((*value.keys(), *value.values()))
        elif isinstance(value, list | tuple):
            found |= origins_in(value)
    return found


def first_text(values: Iterable[Any]) -> Traced | None:
    for value in values:
        inner = (*value.keys(), *value.values()) if isinstance(value, dict) else value
        found = (
            value
            if isinstance(value, Traced)
            else first_text(inner)
            if isinstance(inner, list | tuple)
            else None
        )
        if found is not None:
            return found
    return None
