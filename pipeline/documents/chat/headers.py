"""Find out what a template writes before the text of a message: its role header.

    after a user     <|im_start|>assistant\\n<think>\\n       the generation prompt
    of a user        <|im_start|>user\\n                     what stands before a user's text
    role header      <|im_start|>assistant\\n                the shortest start that ends like it

Conversations that are always the same are rendered, never the data: what is found must not depend
on which record comes first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.origins import TextOrigin
from dataprep.pipeline.documents.chat.render import Conversation, OwnedPart, Renderer, Rendering
from dataprep.pipeline.documents.chat.traits import SYNTHETIC_TOOL, Traits

_USER = {"role": "user", "content": "What is it?"}
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "look", "arguments": {"at": "it"}},
}
_CALLING = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
_TOOL = {"role": "tool", "name": "look", "tool_call_id": "call00001", "content": "A thing."}
_CONTEXTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "user": [_USER],
    "tool": [_USER, _CALLING, _TOOL],
}
MARKER_ENDS = ">]}\n:"  # a header ends with one of these where it is not there as a whole
_ANSWERS = ("Yes, it is.", "Not at all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the text of an assistant's message."""

    role: str  # of its role alone
    prompt: str  # the generation prompt, which may hold more
    shared: int  # how much of it the header of a user has, too
    is_known: bool  # False: the template writes no prompt, and what it writes instead differs


UNKNOWN_HEADER = Header(role="", prompt="", shared=0, is_known=False)


class Headers:
    """The headers of one template, found when they are first needed."""

    def __init__(self, renderer: Renderer, traits: Traits) -> None:
        self._renderer = renderer
        self._traits = traits
        self._known: dict[tuple[str, str], Header] = {}
        self._of_user: dict[str, str] = {}

    def after(self, role: str, conversation: Conversation) -> Header:
        """Return the header of an assistant's message that follows one of this role."""
        context = role if role in _CONTEXTS else "user"
        key = context, json.dumps(conversation.variables, sort_keys=True, default=str)
        if key not in self._known:
            bare = replace(conversation, tools=None)
            found = self._find(context, bare)
            if not found.is_known:  # some templates are for conversations with tools only
                found = self._find(context, replace(bare, tools=[SYNTHETIC_TOOL]))
            self._known[key] = found
        return self._known[key]

    def of_user(self, conversation: Conversation) -> str:
        """Return what stands before the text of a user's message that is not the first; '' if it is
        not known."""
        key = json.dumps(conversation.variables, sort_keys=True, default=str)
        if key not in self._of_user:
            messages = [_USER, {"role": "assistant", "content": _ANSWERS[0]}, _USER]
            asked = replace(conversation, messages=messages, tools=None)
            self._of_user[key] = self._before_text(asked, 2) or ""
        return self._of_user[key]

    def _find(self, context: str, base: Conversation) -> Header:
        try:
            prompt = self._prompt(replace(base, messages=_CONTEXTS[context]))
        except TemplateFailedError:
            if context == "user":
                return UNKNOWN_HEADER
            return self._find("user", base)
        if not prompt:
            return self._without_prompt(base, _CONTEXTS[context])
        before_user = self._before_text(replace(base, messages=[_USER]), 0) or ""
        return Header(
            role=role_header(prompt, before_user),
            prompt=prompt,
            shared=num_shared(prompt, before_user),
            is_known=True,
        )

    def _prompt(self, conversation: Conversation) -> str:
        suited = replace(conversation, messages=self._traits.applied(conversation.messages))
        without, asked = (self._renderer.render(suited, prompt=p) for p in (False, True))
        if asked.text == without.text:
            return ""
        last = max((i for i, p in enumerate(asked.parts) if p.owner >= 0), default=-1)
        after = "".join(part.part.value for part in asked.parts[last + 1 :]) if last >= 0 else ""
        return after or asked.text[num_common(without.text, asked.text) :]

    def _without_prompt(self, base: Conversation, before: Sequence[Mapping[str, Any]]) -> Header:
        """Return what two different answers have in common before their text."""
        answers = [{"role": "assistant", "content": answer} for answer in _ANSWERS]
        found = [
            self._before_text(replace(base, messages=[*before, answer]), len(before))
            for answer in answers
        ]
        if None in found or len(set(found)) > 1:
            return UNKNOWN_HEADER
        text = str(found[0])
        return Header(role=text, prompt=text, shared=len(text), is_known=True)

    def _before_text(self, conversation: Conversation, number: int) -> str | None:
        """Return what the template itself writes before the text of a message; None if unknown."""
        try:
            suited = replace(conversation, messages=self._traits.applied(conversation.messages))
            rendering = self._renderer.render(suited)
        except TemplateFailedError:
            return None
        block = block_of(rendering, number)
        if block is None:
            return None
        return before_text([rendering.parts[i] for i in block], number)


def role_header(prompt: str, before_user: str) -> str:
    """Return the shortest start of a prompt that ends most like the header of a user.

    It has more than what the two have in common, so that it says whose turn it is.

    >>> role_header("<|im_start|>assistant\\n<think>\\n", "<|im_start|>user\\n")
    '<|im_start|>assistant\\n'
    >>> role_header("<|Assistant|><think>", "<|User|>"), role_header("ASSISTANT:", "USER: ")
    ('<|Assistant|>', 'ASSISTANT:')
    >>> role_header("<|start|>assistant", "<|start|>user<|message|>")
    '<|start|>assistant'
    """
    shared = num_shared(prompt, before_user)
    starts = [
        prompt[:i]
        for i in range(shared + 1, len(prompt) + 1)
        if prompt[i - 1] in MARKER_ENDS or i == len(prompt)
    ]
    common = [num_common(start[::-1], before_user[::-1]) for start in starts]
    best = max(common, default=0)
    return starts[common.index(best)] if best else prompt


def num_shared(prompt: str, before_user: str) -> int:
    """Return how many characters of a prompt the header of a user has, too."""
    places = range(len(before_user))
    return max((num_common(prompt, before_user[i:]) for i in places), default=0)


def num_common(a: str, b: str) -> int:
    """Return how many characters two texts begin with in common."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def find_header(prefix: str, header: Header) -> int:
    """Return where the role header in a prefix ends; -1 if it is not there.

    What separates it from the turn before may be there or not; if only its beginning is there, it
    ends with the last whole marker of that.
    """
    wanted = header.role.lstrip()
    place = prefix.rfind(wanted)
    if place >= 0:
        return place + len(wanted)
    wanted = header.prompt.lstrip()
    length = next((n for n in range(len(wanted), 0, -1) if wanted[:n] in prefix), 0)
    while length and wanted[length - 1] not in MARKER_ENDS:
        length -= 1
    blanks = len(header.prompt) - len(wanted)
    # What a user's header has, too, does not say whose turn it is.
    return prefix.rfind(wanted[:length]) + length if length + blanks > header.shared else -1


def before_text(block: Sequence[OwnedPart], number: int) -> str:
    """Return what the template writes in a block before the first text of the message."""
    found = []
    for owned in block:
        if isinstance(owned.part.origin, TextOrigin):
            break
        found.append(owned.part.value)
    return "".join(found)


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


def _unowned_of(rendering: Rendering, number: int) -> list[int]:
    def message_of(i: int) -> int | None:
        origin = rendering.parts[i].part.origin
        return origin.message if isinstance(origin, TextOrigin) else None

    places = range(len(rendering.parts))
    first = next(
        (i for i in places if message_of(i) == number and rendering.parts[i].owner < 0), -1
    )
    if first < 0:
        return []
    start = stop = first
    while start > 0 and rendering.parts[start - 1].owner < 0:
        start -= 1
    while stop + 1 < len(rendering.parts) and rendering.parts[stop + 1].owner < 0:
        stop += 1
    found = {message_of(i) for i in range(start, stop + 1)} - {None}
    return list(range(start, stop + 1)) if found == {number} else []
