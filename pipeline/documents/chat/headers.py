"""Find out what a template writes before the text of a message: its role header.

    after a user     <|im_start|>assistant\\n<think>\\n       the generation prompt
    of a user        <|im_start|>user\\n                     what stands before a user's text
    role header      <|im_start|>assistant\\n                the shortest start that ends like it

Conversations that are always the same are rendered, never the data: what is found must not depend
on which record comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.origins import Part, TextOrigin
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
_WORD = re.compile(r"<[^<>\s]*>|\[[^\[\]\s]*\]|\w+|.", re.DOTALL)  # a marker is one word


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the text of an assistant's message."""

    role: str  # of its role alone
    prompt: str  # the generation prompt, which may hold more
    shared: int  # how much of it the header of a user has, too
    is_known: bool  # False: the template writes no prompt, and what it writes instead differs


UNKNOWN_HEADER = Header(role="", prompt="", shared=0, is_known=False)


class Headers:
    """The headers of one template with certain variables, found when they are first needed."""

    def __init__(self, renderer: Renderer, traits: Traits) -> None:
        self._renderer = renderer
        self._traits = traits
        self._known: dict[str, Header] = {}
        self._of_user: str | None = None
        self._introductions: dict[str, str | None] = {}

    def after(self, role: str, conversation: Conversation) -> Header:
        """Return the header of an assistant's message that follows one of this role."""
        context = role if role in _CONTEXTS else "user"
        if context not in self._known:
            bare = replace(conversation, tools=None)
            found = self._find(context, bare)
            if not found.is_known:  # some templates are for conversations with tools only
                found = self._find(context, replace(bare, tools=[SYNTHETIC_TOOL]))
            self._known[context] = found
        return self._known[context]

    def of_user(self, conversation: Conversation) -> str:
        """Return what stands before the text of a user's message that is not the first; '' if it is
        not known."""
        if self._of_user is None:
            messages = [_USER, {"role": "assistant", "content": _ANSWERS[0]}, _USER]
            asked = replace(conversation, messages=messages, tools=None)
            self._of_user = self._before_text(asked, 2) or ""
        return self._of_user

    def introduction(self, role: str, conversation: Conversation) -> str | None:
        """Return what always stands before the text of a role, whoever wrote it: this message, or
        the one before; None if that is not known.

        It is what the first message of a conversation and one after an answer have in common.
        """
        if role == "assistant":
            header = self.after("user", conversation)
            return header.role if header.is_known and header.role.strip() else None
        if role not in self._introductions:
            own = _TOOL if role == "tool" else {**_USER, "role": role}
            answer = {"role": "assistant", "content": _ANSWERS[0]}
            found = [
                self._gap(replace(conversation, messages=[*before, own], tools=None), len(before))
                for before in ((), (_USER, answer))
            ]
            first, later = found
            both = None if first is None or later is None else common_end(first, later)
            if first and both and self._has_more(first.removesuffix(both), conversation):
                both = both.removeprefix(self._end_in(both, conversation))
            self._introductions[role] = both
        return self._introductions[role]

    def _has_more(self, before: str, conversation: Conversation) -> bool:
        """Return whether a template writes more than BOS before the first header: a prompt of its
        own, whose end is that of any turn."""
        bos = str(conversation.variables.get("bos_token") or "")
        return bool(before.strip().removeprefix(bos).strip())

    def _end_in(self, introduction: str, conversation: Conversation) -> str:
        """Return what the introduction begins with that ends an answer; '' if that is all of it."""
        answer = {"role": "assistant", "content": _ANSWERS[0]}
        rendering = self._rendered(replace(conversation, messages=[_USER, answer], tools=None))
        block = block_of(rendering, 1) if rendering else None
        if rendering is None or block is None:
            return ""
        after = before_text(rendering.parts[i] for i in reversed(block))
        end = begun_at_end("".join(reversed(after)), introduction)
        return end if end.strip() != introduction.strip() else ""

    def _gap(self, conversation: Conversation, number: int) -> str | None:
        """Return all that the template writes between the text of a message and the one before."""
        rendering = self._rendered(conversation)
        if rendering is None:
            return None
        parts = [owned.part for owned in rendering.parts]
        texts = [i for i, part in enumerate(parts) if isinstance(part.origin, TextOrigin)]
        own = next((i for i in texts if _message_of(parts[i]) == number), None)
        if own is None:
            return None
        before = max((i for i in texts if i < own), default=-1)
        return "".join(part.value for part in parts[before + 1 : own])

    def _find(self, context: str, base: Conversation) -> Header:
        try:
            prompt = self._prompt(replace(base, messages=_CONTEXTS[context]))
        except TemplateFailedError:
            if context == "user":
                return UNKNOWN_HEADER
            return self._find("user", base)
        if not prompt:
            return self._without_prompt(base, _CONTEXTS[context])
        first = self._before_text(replace(base, messages=[_USER]), 0) or ""
        users = (first, self.of_user(base))
        role: str | None = role_header(prompt, *users)
        if prompt[len(role or "") :].strip() and has_other_separator(prompt, *users):
            role = self._after_separator(prompt, role or "", base)
        if role is None:
            return UNKNOWN_HEADER
        shared = num_shared(prompt, *users)
        return Header(role=role, prompt=prompt, shared=shared, is_known=True)

    def _after_separator(self, prompt: str, role: str, base: Conversation) -> str | None:
        """Return the role header of a prompt that may begin with what separates turns: with the
        header of an answer that is the first message; None if there can be none."""
        answer = {"role": "assistant", "content": _ANSWERS[0]}
        own = self._before_text(replace(base, messages=[answer]), 0)
        if own is None:
            return None
        place = prompt.rfind(own.strip())
        if place < 0 or not own.strip():
            return role
        return with_blanks(prompt, place + len(own.strip()))

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
        rendering = self._rendered(conversation)
        block = block_of(rendering, number) if rendering else None
        if rendering is None or block is None:
            return None
        return "".join(before_text(rendering.parts[i] for i in block))

    def _rendered(self, conversation: Conversation) -> Rendering | None:
        """Return what the template makes of a conversation; None if it fails."""
        try:
            suited = replace(conversation, messages=self._traits.applied(conversation.messages))
            return self._renderer.render(suited)
        except TemplateFailedError:
            return None


def role_header(prompt: str, *of_users: str) -> str:
    """Return the shortest start of a prompt that ends most like the headers of users.

    It has more than what they have in common with it, so that it says whose turn it is, and the
    blanks that follow, which no model has to write.

    >>> role_header("<|im_start|>assistant\\n<think>\\n", "<|im_start|>user\\n")
    '<|im_start|>assistant\\n'
    >>> role_header("<|Assistant|><think>", "<|User|>"), role_header("ASSISTANT:", "USER: ")
    ('<|Assistant|>', 'ASSISTANT:')
    >>> role_header("<|start|>assistant", "<|start|>user<|message|>")
    '<|start|>assistant'
    >>> role_header("<|end|><|bot|>\\n", "<|me|>", "<|end|><|me|>")
    '<|end|><|bot|>\\n'
    """
    shared = num_shared(prompt, *of_users)
    starts = [
        prompt[:i]
        for i in range(shared + 1, len(prompt) + 1)
        if prompt[i - 1] in MARKER_ENDS or i == len(prompt)
    ]
    common = [max(num_common(s[::-1], user[::-1]) for user in of_users) for s in starts]
    best = max(common, default=0)
    return with_blanks(prompt, len(starts[common.index(best)])) if best else prompt


def with_blanks(prompt: str, size: int) -> str:
    """Return so many characters of a prompt, and the blanks that follow."""
    rest = prompt[size:]
    return prompt[: size + len(rest) - len(rest.lstrip())]


def has_other_separator(prompt: str, first: str, later: str) -> bool:
    """Return whether users that are not the first have something before their header, with which
    the prompt does not begin: it may begin with something else of that kind.

    >>> has_other_separator("<|/me|><|bot|>", "<|me|>", "<|/bot|><|me|>")
    True
    >>> has_other_separator("<|end|><|bot|>", "<|me|>", "<|end|><|me|>")
    False
    """
    separator = later[: len(later) - len(common_end(first, later))].strip()
    return bool(separator) and not prompt.lstrip().startswith(separator)


def num_shared(prompt: str, *of_users: str) -> int:
    """Return how many characters of a prompt the header of a user has, too."""
    ends = (user[i:] for user in of_users for i in range(len(user)))
    return max((num_common(prompt, end) for end in ends), default=0)


def common_end(left: str, right: str) -> str:
    """Return what two texts end with in common, by whole words.

    >>> common_end("<s>[INST] ", "</s>[INST] "), common_end("A chat. USER: ", "\\nUSER: ")
    ('[INST] ', 'USER: ')
    """
    words = [_WORD.findall(text)[::-1] for text in (left, right)]
    count = num_common(*words)
    return "".join(words[0][:count][::-1])


def begun_at_end(text: str, header: str) -> str:
    """Return the longest start of a header that a text ends with, by whole words.

    >>> begun_at_end("\\n### ", "### User:"), begun_at_end("<|end|>", "<|user|>")
    ('### ', '')
    """
    words = _WORD.findall(header)
    starts = ("".join(words[:count]) for count in range(len(words), 0, -1))
    return next((start for start in starts if text.endswith(start)), "")


def num_common(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Return how many characters or words two sequences begin with in common."""
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
    most = next((n for n in range(len(wanted), 0, -1) if wanted[:n] in prefix), 0)
    length = next((n for n in range(most, 0, -1) if wanted[n - 1] in MARKER_ENDS), 0)
    length = min(most, len(with_blanks(wanted, length))) if length else 0
    blanks = len(header.prompt) - len(wanted)
    # What a user's header has, too, does not say whose turn it is.
    return prefix.rfind(wanted[:length]) + length if length + blanks > header.shared else -1


def before_text(block: Iterable[OwnedPart]) -> list[str]:
    """Return what the template writes in a block before the first text of the message."""
    own = takewhile(lambda owned: not isinstance(owned.part.origin, TextOrigin), block)
    return [owned.part.value for owned in own]


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


def _message_of(part: Part) -> int | None:
    return part.origin.message if isinstance(part.origin, TextOrigin) else None


def _unowned_of(rendering: Rendering, number: int) -> list[int]:
    def message_of(i: int) -> int | None:
        return _message_of(rendering.parts[i].part)

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
