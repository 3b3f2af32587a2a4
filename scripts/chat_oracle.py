"""Where the loss of a rendered conversation belongs, by `transformers` alone.

    R(messages[:i])                 <user>hi<end>
    R(messages[:i], prompt)         <user>hi<end><bot>                    the header ends here
    R(messages[:i + 1])             <user>hi<end><bot>yo<end>             the turn ends here
    R(messages)                     <user>hi<end><bot>yo<end><user>and

Conversations are cut short and rendered again, and their texts compared: nothing of what dataprep
knows about templates is used. Where a template writes the beginning of a conversation otherwise
than in the whole of it, nothing is said about that edge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORD = re.compile(r"[usatz]\d+w\d+q")  # a word of a message tells its role and number
# What a generation prompt may hold after the role header.
SCAFFOLD = re.compile(r"\s*(<\|open\|>)?<?\|?(/?think|channel|START_(THINKING|RESPONSE)|>>>)", re.I)
CUT_MARKER = re.compile(r"<[^<>]*$")  # in the middle
MARKER = re.compile(r"\s*(<[^<>]*>|\[[^\[\]]*\]|\S+)")
ENDING = re.compile(r"(<(?![^<>]*(user|assistant|tool|system|start|begin))[^<>]+>\s*)+", re.I)

Render = Callable[[Sequence[Mapping[str, Any]], bool], str | None]  # messages, with a prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What must and must not have loss of an assistant's message."""

    number: int
    header: tuple[int, int] | None  # characters without loss, but those of the turn before
    end: int | None  # where the turn ends; None: not known
    said: int  # where the text of the message ends, as far as that is known
    after_user: str  # the end of a user's turn; some templates ask for an answer in any case


def turns_of(messages: Sequence[Mapping[str, Any]], text: str, render: Render) -> list[Turn]:
    """Return the turns of the assistant, given the text of the whole conversation."""
    found = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        words = [m.end() for m in WORD.finditer(text) if m[0].startswith(f"a{number}w")]
        if not words:
            continue
        said = words[-1] + _rest(message, text, words[-1])
        found.append(
            Turn(
                number=number,
                header=_header(messages, number, text, render),
                end=_end(messages, number, text, said, render),
                said=said,
                after_user=_after_user(render),
            )
        )
    return found


def _rest(message: Mapping[str, Any], text: str, last_word: int) -> int:
    """Return how many characters of a message follow its last word."""
    last = [m.end() for m in WORD.finditer(message["content"])]
    rest = message["content"][last[-1] :] if last else ""
    known = (each for each in (rest, rest.rstrip()) if text.startswith(each, last_word))
    return len(next(known, ""))


def _after_user(render: Render) -> str:
    text = render([{"role": "user", "content": "z0w0q"}], False) or ""
    return text.rpartition("z0w0q")[2]


def _header(
    messages: Sequence[Mapping[str, Any]], number: int, text: str, render: Render
) -> tuple[int, int] | None:
    before, prompt = (render(messages[:number], asked) for asked in (False, True))
    if before is None or prompt is None or before == prompt or not text.startswith(prompt):
        return None
    return num_common(before, prompt), len(prompt)


def _end(
    messages: Sequence[Mapping[str, Any]], number: int, text: str, said: int, render: Render
) -> int | None:
    if number + 1 == len(messages):
        return len(text)
    upto = render(messages[: number + 1], False)
    if upto is None or ("tool_calls" in messages[number] and not text.startswith(upto)):
        return None
    common = num_common(upto, text)
    cut = CUT_MARKER.search(text, said, common)
    common = cut.start() if cut else common
    return common if common >= said else None


def fault(turn: Turn, text: str, has_loss: Sequence[bool], stop: Sequence[str]) -> str:
    """Return what is wrong with the mask of a turn, or ''."""
    if turn.header is not None:
        start, header_end = turn.header
        first = next((i for i in range(start, len(text)) if has_loss[i]), len(text))
        inside = text[first:header_end]
        if inside.strip() and not SCAFFOLD.match(inside):
            return f"{inside!r} of a header has loss"
    if turn.end is None:
        return ""
    mark = MARKER.search(text, turn.said, turn.end)
    if mark and not all(has_loss[mark.start(1) : mark.end(1)]):
        return f"{mark[1]!r}, which ends a turn, has no loss"
    without = "".join(text[i] for i in range(turn.said, turn.end) if not has_loss[i]).strip()
    if without and turn.after_user.find(without, 1) < 0:
        return f"{without!r} of the end of a turn has no loss"
    beyond = turn.end
    while beyond < len(text) and has_loss[beyond]:
        beyond += 1
    more = text[turn.end : beyond].strip()
    is_stop = any(token and more.startswith(token) for token in stop)
    if more and not is_stop and not ENDING.fullmatch(more):
        return f"{more!r} after the end of a turn has loss"
    return ""


def num_common(left: str, right: str) -> int:
    """Return how many characters two texts begin with in common."""
    return next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )
