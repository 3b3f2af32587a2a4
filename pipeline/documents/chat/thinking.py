"""Thinking of messages that have loss, which a template does not write: it is counted.

    {"content": "yes", "reasoning_content": "hm"}     under a name of its own
    {"content": "<think>hm</think>yes"}               in the content

Templates that never write thinking, or only that of the last turn, are no error: what is left out
is what a model of theirs would not see either. But whoever means to teach it must know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dataprep.pipeline.documents.chat.origins import SEVERAL_FIELDS, TextOrigin
from dataprep.pipeline.documents.chat.render import REASONING, Rendering

OPENED, CLOSED = "<think>", "</think>"


def messages_without(rendering: Rendering) -> tuple[int, ...]:
    """Return the messages whose thinking, under a name of its own, is not in the output.

    Whether there is any becomes a condition of the tape.
    """
    written = {o for p in rendering.parts if isinstance(o := p.part.origin, TextOrigin)}
    whole = {o.message for o in written if _is_thinking(o) or o.field == SEVERAL_FIELDS}
    found: set[int] = set()
    for origin, texts in rendering.leaves.items():
        if not _is_thinking(origin) or origin.message in whole:
            continue
        for text, source in texts:
            rendering.tape.condition(f"bool({source}.strip())", bool(text.strip()))
            found |= {origin.message} if text.strip() else set()
    return tuple(sorted(found))


def _is_thinking(origin: TextOrigin) -> bool:
    return origin.field.partition("[")[0] in REASONING


def num_left_out(
    messages: Sequence[Mapping[str, Any]],
    weights: Sequence[float],
    unwritten: Sequence[int],
    strings: Sequence[str],
    owners: Sequence[int],
) -> int:
    """Return how many messages with loss have thinking that is not written, in either form.

    `unwritten` are those of the first form, `strings` what is written, with their `owners`.

    >>> messages = [{"content": "<think>hm</think>yes", "role": "assistant"}]
    >>> num_left_out(messages, [1.0], (), ["<bot>", "yes"], [0, 0])
    1
    >>> num_left_out(messages, [1.0], (), ["<bot>", "<think>hm</think>yes"], [0, 0])
    0
    """
    count = sum(weights[number] > 0 for number in unwritten)
    for number, weight in enumerate(weights):
        content = messages[number].get("content") if weight > 0 else None
        if not isinstance(content, str) or CLOSED not in content:
            continue
        thought = content.partition(CLOSED)[0].rpartition(OPENED)[2].strip()
        own = (s for s, owner in zip(strings, owners, strict=True) if owner == number)
        count += bool(thought) and not any(thought in string for string in own)
    return count
