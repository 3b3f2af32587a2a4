"""Whose turn each token of a conversation is in: the values of the mask `turns`.

    <s> <|system|>be kind | <|user|>hi | <|assistant|>look("it") | <|tool|>a thing | <|user|>and?
    0 ───────────────────   5 ────────   10 ─────────────────────   15 ────────────   17 ────────

    value = 4 · message + role      role 0 system, 1 user, 2 assistant, 3 any other, such as tool

Messages are numbered from 0, and what a template writes before all of them counts as message 0 of
the system. So values tell neighbouring messages apart, and ascend within a document. A document
that is no conversation has 0 throughout.

The first system messages are the *preamble*. A *turn* is a user's message with all that follows up
to the next one, so an answer stays with its question, and what a tool says with the call; an answer
that stands before any question is a turn by itself.

    preamble  0 0 0 0   turn  5 5 5 10 10 15   turn  17 17
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.storage.masks import MaskRuns
from dataprep.pipeline.types import Mask, Offsets

ROLES = ("system", "user", "assistant", "other")
SYSTEM, USER, ASSISTANT, OTHER = range(len(ROLES))
_ROLE_OF = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT}


def turn_value(message: int, role: str) -> int:
    """Return the value of a message's tokens.

    >>> turn_value(0, "system"), turn_value(1, "user"), turn_value(3, "tool")
    (0, 5, 15)
    """
    return len(ROLES) * message + _ROLE_OF.get(role, OTHER)


def roles_of(values: NDArray[Any]) -> NDArray[Any]:
    """Return the number in ROLES of each value."""
    return values % len(ROLES)


def messages_of(values: NDArray[Any]) -> NDArray[Any]:
    """Return the message that each value is of."""
    return values // len(ROLES)


def starts_turn(values: NDArray[Any], document: Offsets) -> Mask:
    """Return which runs begin a turn, given the values of runs in order, and their documents.

    >>> runs = np.array([0, 5, 10, 15, 17, 0, 2, 5])
    >>> starts_turn(runs, np.array([0, 0, 0, 0, 0, 1, 1, 1])).astype(int).tolist()
    [0, 1, 0, 0, 1, 0, 1, 1]
    """
    roles = roles_of(values)
    said = np.cumsum(roles != SYSTEM)  # runs up to this one that are not of the system
    before = np.concatenate(([0], said))[np.searchsorted(document, document, side="left")]
    is_first = (roles != SYSTEM) & (said - before == 1)
    found: Mask = is_first | (roles == USER)
    return found


def find_turns(runs: MaskRuns, document_ends: Offsets) -> tuple[Offsets, Offsets]:
    """Return the document of each turn in consecutive documents, and its first token among all.

    >>> runs = MaskRuns(ends=np.array([2, 6, 9, 12]), values=np.array([0, 5, 10, 5]))
    >>> document, start = find_turns(runs, np.array([4, 12]))
    >>> document.tolist(), start.tolist()
    ([0, 1, 1], [2, 4, 9])
    """
    ends = np.union1d(runs.ends, document_ends)  # neighbouring documents may share a run
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)[: len(ends)]
    values = runs.values[np.searchsorted(runs.ends, starts, side="right")]
    document = np.searchsorted(document_ends, starts, side="right")
    is_start = starts_turn(values, document)
    return document[is_start], starts[is_start]


def check_turns(runs: MaskRuns, document_ends: Offsets) -> str:
    """Return what is wrong with the turns of consecutive documents, or ''."""
    messages = messages_of(runs.values).astype(np.int64)
    is_within = ~np.isin(runs.ends[:-1], document_ends)  # the next run is of the same document
    if (np.diff(messages)[is_within] < 0).any():
        return "the messages of a conversation do not ascend"
    return ""
