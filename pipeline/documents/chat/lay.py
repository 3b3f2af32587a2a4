"""Lay out conversations: the text of each in strings, each with one weight in the loss.

    <|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n   0     |  hello<|im_end|>\\n   1

The template is run once for every shape of conversation (roles, keys, all but the texts), and its
tape played for all others of that shape. Both give the same: some of what is replayed is rendered
again and compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from types import MappingProxyType
from typing import Any

from dataprep.pipeline.documents.chat.cutting import (
    Details,
    SpannedParts,
    messages_of,
    whole,
    with_details,
)
from dataprep.pipeline.documents.chat.edges import with_edges
from dataprep.pipeline.documents.chat.gaps import with_owners
from dataprep.pipeline.documents.chat.headers import Headers
from dataprep.pipeline.documents.chat.json_text import quoted
from dataprep.pipeline.documents.chat.origins import Part
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer, shape_of_messages
from dataprep.pipeline.documents.chat.spans import SpanRules, check_nothing_lost, spans_of
from dataprep.pipeline.documents.chat.tape import UNKNOWN, Replay
from dataprep.pipeline.documents.chat.thinking import messages_without
from dataprep.pipeline.documents.chat.traits import Traits, find_traits
from dataprep.pipeline.errors import DataprepError
from dataprep.pipeline.storage.turns import turn_value

MAX_PROGRAMS = 2048  # replays that are kept; more shapes than that are rendered each time
MAX_OF_SHAPE = 8
MAX_VARIABLES = 64  # different ones, of which it is known what the template does with them
CHECKED_FIRST, CHECKED_EVERY = 2, 512  # replays that are rendered again

NO_DETAILS: Mapping[int, Details] = MappingProxyType({})


class InexactReplayError(DataprepError):
    """A replay gave another text than the template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    strings: Sequence[str]
    weights: tuple[float, ...]  # of each string in the loss; 0: none
    is_content: tuple[bool, ...]  # whether the string is from the record, and not the template
    messages: tuple[int, ...]  # the message that each string belongs to; -1: before all
    turns: tuple[int, ...]  # of each string, as in `storage.turns`; they ascend
    media: tuple[int, ...]  # the medium that each string stands for; -1: none
    unwritten: tuple[int, ...]  # messages whose thinking the template does not write


@dataclass(slots=True, kw_only=True)
class _Program:
    replay: Replay
    weights: tuple[float, ...]
    is_content: tuple[bool, ...]
    messages: tuple[int, ...]
    turns: tuple[int, ...]
    media: tuple[int, ...]
    unwritten: tuple[int, ...]
    num_played: int = 0

    def is_to_be_checked(self) -> bool:
        """Count a replay; the first ones, and then one in many, are rendered again."""
        self.num_played += 1
        return self.num_played <= CHECKED_FIRST or self.num_played % CHECKED_EVERY == 0


class Layer:
    """Lays out conversations by one template."""

    def __init__(self, renderer: Renderer, rules: SpanRules, *, replay: bool = True) -> None:
        self._renderer = renderer
        self._most_programs = MAX_PROGRAMS if replay else 0
        self._rules = rules
        self._known: dict[str, tuple[Traits, Headers]] = {}  # by the template's variables
        self._programs: dict[Any, list[_Program]] = {}
        self._num_programs = 0
        self._last: tuple[Any, str] = (None, "")  # variables, and their key

    def lay(
        self,
        conversation: Conversation,
        weights: Sequence[float],
        details: Mapping[int, Details] = NO_DETAILS,
    ) -> Laid:
        """Return the layout, given the weight of each message; RefusedError or TemplateFailedError
        if there is none. With details, the template is run."""
        traits, headers = self._traits_of(conversation)
        conversation = replace(conversation, messages=traits.applied(conversation.messages))
        leaves: list[str] = []
        shape = shape_of_messages(conversation.messages, leaves)
        tools = None if conversation.tools is None else json.dumps(conversation.tools)
        key: Any = (shape, tuple(weights), tools, self._variables_of(conversation))
        known = self._programs.get(key, ()) if not details else ()
        for program in known:
            strings = _played(program.replay, leaves)
            if strings is not None:
                laid = Laid(
                    strings=strings,
                    weights=program.weights,
                    is_content=program.is_content,
                    messages=program.messages,
                    turns=program.turns,
                    media=program.media,
                    unwritten=program.unwritten,
                )
                if program.is_to_be_checked():
                    again = self._render(conversation, weights, headers, None, NO_DETAILS)
                    _check_equal(laid, again)
                return laid
        is_full = len(known) >= MAX_OF_SHAPE or self._num_programs >= self._most_programs
        key = None if is_full or details else key
        return self._render(conversation, weights, headers, key, details)

    def _traits_of(self, conversation: Conversation) -> tuple[Traits, Headers]:
        key = self._variables_of(conversation)
        if key not in self._known:
            if len(self._known) >= MAX_VARIABLES:
                self._known.pop(next(iter(self._known)))
            traits = find_traits(self._renderer, conversation.variables)
            self._known[key] = traits, Headers(self._renderer, traits)
        return self._known[key]

    def _variables_of(self, conversation: Conversation) -> str:
        """Return the variables that the template looks at, as something to look up."""
        given = conversation.variables
        if given is not self._last[0]:  # that of all records without arguments of their own
            used = {name: given[name] for name in sorted(self._renderer.names & given.keys())}
            self._last = given, json.dumps(used, default=str)
        return self._last[1]

    def _render(
        self,
        conversation: Conversation,
        weights: Sequence[float],
        headers: Headers,
        key: Any,
        details: Mapping[int, Details],
    ) -> Laid:
        """Run the template; what it did is kept under the key, if there is one."""
        rendering = self._renderer.render(conversation)
        if rendering.text != self._renderer.plain(conversation):
            raise RefusedError("the template does with its texts what cannot be followed")
        rendering = with_owners(rendering, conversation, headers, self._rules.stop)
        trained = [i for i, weight in enumerate(weights) if weight > 0]
        if self._rules.is_everything:
            check_nothing_lost(rendering, conversation)
            # What comes before all messages has loss, too.
            owners = tuple(m if m >= 0 else len(weights) for m in messages_of(rendering))
            found, weights = whole(rendering, owners), (*weights, 1.0)
        else:
            found = spans_of(rendering, conversation, trained, headers, self._rules)
        if details:
            found = with_details(found, details, rendering)
        if all(owner < 0 for owner in found.owners):
            raise RefusedError("the template writes nothing of what has loss")
        roles = [str(message["role"]) for message in conversation.messages]
        header = headers.introduction("user", conversation) or headers.of_user(conversation)
        stop = (*self._rules.stop, headers.ending(conversation).strip())
        found = with_edges(found, roles, header, stop, rendering)
        groups = _grouped(found, weights)
        messages = tuple(kind[2] for kind, _ in groups)
        laid = Laid(
            strings=["".join(part.value for part in parts) for _, parts in groups],
            weights=tuple(kind[0] for kind, _ in groups),
            is_content=tuple(kind[1] for kind, _ in groups),
            messages=messages,
            media=tuple(kind[3] for kind, _ in groups),
            turns=_turns(messages, roles),
            unwritten=messages_without(rendering),
        )
        if key is not None:
            outputs = [_sources(parts, rendering.tape) for _, parts in groups]
            replay = rendering.tape.function(outputs, {"quoted": quoted})
            if replay is not None:
                program = _Program(
                    replay=replay,
                    weights=laid.weights,
                    is_content=laid.is_content,
                    messages=laid.messages,
                    turns=laid.turns,
                    media=laid.media,
                    unwritten=laid.unwritten,
                )
                self._programs.setdefault(key, []).append(program)
                self._num_programs += 1
        return laid


def _check_equal(replayed: Laid, rendered: Laid) -> None:
    if replayed != rendered:
        raise InexactReplayError(
            "a conversation laid out by replaying the chat template differs from what the "
            "template itself gives; set chat.replay to false, and please report the template"
        )


def _played(replay: Replay, leaves: Sequence[str]) -> list[str] | None:
    try:
        return replay(leaves)
    except (IndexError, ValueError):  # of another text: the template itself would do otherwise
        return None


def _sources(parts: Sequence[Part], tape: Any) -> list[str]:
    for part in parts:
        if part.source == UNKNOWN:
            tape.breaks("a part of a text of several is written")
    return [part.source or tape.constant(part.value) for part in parts]


def _grouped(
    found: SpannedParts, weights: Sequence[float]
) -> list[tuple[tuple[float, bool, int, int], list[Part]]]:
    """Return neighbours of the same weight, kind, message and medium together."""
    columns = zip(found.parts, found.owners, found.messages, found.media, strict=True)
    each = [
        ((weights[owner] if owner >= 0 else 0.0, part.origin is not None, message, medium), part)
        for part, owner, message, medium in columns
    ]
    return [
        (kind, [part for _, part in group])
        for kind, group in groupby(each, key=lambda item: item[0])
    ]


def _turns(messages: Sequence[int], roles: Sequence[str]) -> tuple[int, ...]:
    """Return the turn of each string, given the message that it belongs to.

    A string of an earlier message, which the template wrote late, is in the turn that it is in.

    >>> _turns([-1, 0, 1, 0, 2], ["system", "user", "assistant"])
    (0, 0, 5, 5, 10)
    """
    values = (0 if number < 0 else turn_value(number, roles[number]) for number in messages)
    return tuple(accumulate(values, max))
