"""Find out what a template writes before the text of a message: its role header.

    after a user     <|im_start|>assistant\\n<think>\\n       the generation prompt
    of a user        <|im_start|>user\\n                     what stands before a user's text
    role header      <|im_start|>assistant\\n                the shortest start that ends like it

Conversations that are always the same are rendered, never the data: what is found must not depend
on which record comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataprep.pipeline.documents.chat.blocks import before_text, block_of, message_of
from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.header_text import (
    MAX_PROMPT,
    UNKNOWN_HEADER,
    Header,
    before_scaffold,
    common_end,
    common_start,
    find_header,
    has_other_separator,
    may_be_begun,
    num_common,
    num_shared,
    role_header,
    with_blanks,
)
from dataprep.pipeline.documents.chat.origins import TextOrigin
from dataprep.pipeline.documents.chat.render import Conversation, Renderer, Rendering
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
_ANSWERS = ("Yes, it is.", "Not at all")
_ANSWER = {"role": "assistant", "content": _ANSWERS[0]}
MAX_PLACES = 256  # of which the header is kept


class Headers:
    """The headers of one template with certain variables, found when they are first needed."""

    def __init__(self, renderer: Renderer, traits: Traits) -> None:
        self._renderer = renderer
        self._traits = traits
        self._known: dict[str, Header] = {}
        self._of_user: str | None = None
        self._first: str | None = None  # all before the text of a user who is the first
        self._introductions: dict[str, str | None] = {}
        self._ending: str | None = None
        self._at_place: dict[tuple[str, ...], Header] = {}

    def after(self, role: str, conversation: Conversation) -> Header:
        """Return the header of an assistant's message that follows one of this role."""
        context = role if role in _CONTEXTS else "user"
        if context not in self._known:
            bare = replace(conversation, tools=None)
            found = self._find(_CONTEXTS[context], bare)
            if not found.is_known:  # some templates are for conversations with tools only
                found = self._find(_CONTEXTS[context], replace(bare, tools=[SYNTHETIC_TOOL]))
            self._known[context] = found
        return self._known[context]

    def at_place(self, roles: Sequence[str], conversation: Conversation) -> Header:
        """Return the header of an assistant's message after messages of these roles: some
        templates number them."""
        key = tuple(roles)
        if key not in self._at_place:
            if len(self._at_place) >= MAX_PLACES:
                self._at_place.pop(next(iter(self._at_place)))
            before = [
                _CALLING if (role, following) == ("assistant", "tool") else _message(role)
                for role, following in zip(key, (*key, "")[1:], strict=True)
            ]
            self._at_place[key] = self._find(before, replace(conversation, tools=None))
        return self._at_place[key]

    def of_user(self, conversation: Conversation) -> str:
        """Return what stands before the text of a user's message that is not the first; '' if it is
        not known."""
        if self._of_user is None:
            asked = replace(conversation, messages=[_USER, _ANSWER, _USER], tools=None)
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
            self._introductions[role] = self._introduction(role, replace(conversation, tools=None))
        return self._introductions[role]

    def _introduction(self, role: str, base: Conversation) -> str | None:
        own = _message(role)
        after = replace(base, messages=[_USER, _ANSWER, own])
        first, later = self._gap(replace(base, messages=[own]), 0), self._gap(after, 2)
        if first is None or later is None:
            return None
        both = common_end(first, later)
        bos = str(base.variables.get("bos_token") or "")
        before = first.removesuffix(both).strip().removeprefix(bos).strip()
        if not before and not (bos and both.lstrip().startswith(bos)):
            return both
        # What stands before the first header, such as a prompt of the template's own, may end as
        # any turn does: then both have that end, which is no header.
        written = self._before_text(after, 2) or ""
        both = common_end(both, written) if written.strip() else both
        last = self._last(replace(base, messages=[_USER, _ANSWER])).strip()
        if last and both.startswith(last) and both.removeprefix(last).strip():
            return both.removeprefix(last).lstrip()
        if written.strip():
            return both
        answered = self._gap(replace(base, messages=[_USER, _ANSWER]), 1) or ""
        is_clear = not common_start(both, answered).strip()
        return both if is_clear and not later.removesuffix(both).strip() else None

    def may_be_begun(self, tail: str, conversation: Conversation) -> bool:
        """Return whether what ends a block may be half of the header of a user that follows."""
        header = self.introduction("user", conversation) or ""
        if self._first is None:
            self._first = self._gap(replace(conversation, messages=[_USER], tools=None), 0) or ""
        return may_be_begun(tail, self._first.removesuffix(header), header)

    def ending(self, conversation: Conversation) -> str:
        """Return what follows an answer both before the next header and at the end of all: it ends
        a turn, wherever a template writes it; '' if there is nothing of that kind."""
        if self._ending is None:
            base = replace(conversation, tools=None)
            later = self._gap(replace(base, messages=[_USER, _ANSWER, _USER]), 2)
            header = self.introduction("user", base)
            is_known = later is not None and header and later.endswith(header)
            between = (later or "").removesuffix(header or "") if is_known else ""
            last = self._last(replace(base, messages=[_USER, _ANSWER]))
            self._ending = common_start(between, last)
        return self._ending

    def _last(self, conversation: Conversation) -> str:
        """Return what the template writes after the last text of a conversation."""
        rendering = self._rendered(conversation)
        parts = reversed(rendering.parts) if rendering else ()
        return "".join(before_text(parts, is_reversed=True))

    def _gap(self, conversation: Conversation, number: int) -> str | None:
        """Return all that the template writes between the text of a message and the one before."""
        rendering = self._rendered(conversation)
        if rendering is None:
            return None
        parts = [owned.part for owned in rendering.parts]
        texts = [i for i, part in enumerate(parts) if isinstance(part.origin, TextOrigin)]
        own = next((i for i in texts if message_of(parts[i]) == number), None)
        if own is None:
            return None
        before = max((i for i in texts if i < own), default=-1)
        return "".join(part.value for part in parts[before + 1 : own])

    def _find(self, before: Sequence[Mapping[str, Any]], base: Conversation) -> Header:
        """Return the header of an answer to these messages."""
        try:
            prompt = self._prompt(replace(base, messages=before))
        except TemplateFailedError:
            if before is _CONTEXTS["tool"]:
                return self._find(_CONTEXTS["user"], base)
            return UNKNOWN_HEADER
        if not prompt:
            return self._without_prompt(base, before)
        if len(prompt) > MAX_PROMPT:
            return UNKNOWN_HEADER
        first = self._before_text(replace(base, messages=[_USER]), 0) or ""
        users = (first, self.of_user(base))
        role: str | None = role_header(prompt, *users)
        if prompt[len(role or "") :].strip() and has_other_separator(prompt, *users):
            role = self._after_separator(prompt, role or "", base)
        if role is None:
            return UNKNOWN_HEADER
        role = self._with_rest(role, prompt, replace(base, messages=[*before, _ANSWER]))
        shared = num_shared(prompt, *users)
        found = Header(role=role, prompt=prompt, shared=shared, is_known=True)
        return self._without_end(found, base, before)

    def _without_end(
        self, header: Header, base: Conversation, before: Sequence[Mapping[str, Any]]
    ) -> Header:
        """Return the header without what ends the turn before, if the prompt begins with that: it
        is no part of what the template writes before an answer, but between all messages."""
        own = (
            self._before_text(replace(base, messages=[*before, _ANSWER]), len(before)) or ""
        ).strip()
        place = header.prompt.find(own)
        if not own or place <= 0 or find_header(own, header) >= 0:
            return header
        later = self._gap(replace(base, messages=[_USER, _ANSWER, _USER]), 2) or ""
        if not later.lstrip().startswith(header.prompt[:place].strip()):
            return header
        prompt = header.prompt[place:]
        role = with_blanks(prompt, len(own))
        return Header(role=role, prompt=prompt, shared=0, is_known=True)

    def _after_separator(self, prompt: str, role: str, base: Conversation) -> str | None:
        """Return the role header of a prompt that may begin with what separates turns: with the
        header of an answer that is the first message; None if there can be none."""
        own = self._before_text(replace(base, messages=[_ANSWER]), 0)
        if own is None:
            return None
        place = prompt.rfind(own.strip())
        if place < 0 or not own.strip():
            return role
        return with_blanks(prompt, place + len(own.strip()))

    def _with_rest(self, role: str, prompt: str, answered: Conversation) -> str:
        """Return the role header with what follows it in the prompt, unless that is of the answer:
        what seemed to be all of it may end the turn before. Every answer has it, then."""
        more = before_scaffold(prompt[len(role) :])
        if not more.strip():
            return role
        own = (self._before_text(answered, len(answered.messages) - 1) or "").strip()
        whole = (role + more).strip()
        is_all = len(role + more) == len(prompt)
        is_there = own == whole if is_all else own.startswith(whole)
        return with_blanks(prompt, len(role + more)) if is_there else role

    def _prompt(self, conversation: Conversation) -> str:
        suited = replace(conversation, messages=self._traits.applied(conversation.messages))
        without, asked = (self._renderer.render(suited, prompt=p) for p in (False, True))
        if asked.text == without.text:
            return ""
        last = max((i for i, p in enumerate(asked.parts) if p.owner >= 0), default=-1)
        after = "".join(part.part.value for part in asked.parts[last + 1 :]) if last >= 0 else ""
        return after or asked.text[num_common(without.text, asked.text) :]

    def _without_prompt(self, base: Conversation, before: Sequence[Mapping[str, Any]]) -> Header:
        """Return what two different answers have in common before their text.

        Blanks that are not there before there is an answer are the model's to write.
        """
        answers = [{"role": "assistant", "content": answer} for answer in _ANSWERS]
        several = [replace(base, messages=[*before, answer]) for answer in answers]
        found = [self._before_text(each, len(before)) for each in several]
        gap = self._gap(several[0], len(before))
        if None in found:  # they are in no block
            found = [self._gap(each, len(before)) for each in several]
        if None in found or len(set(found)) > 1:
            return UNKNOWN_HEADER
        text = str(found[0])
        asked = self._last(replace(base, messages=before))
        if gap and asked.strip() and gap.rstrip() == asked.rstrip():
            text = text[: len(text) - max(0, len(gap) - len(asked))]
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


def _message(role: str) -> Mapping[str, Any]:
    """Return a message of a role that is always the same."""
    return {"tool": _TOOL, "assistant": _ANSWER}.get(role, {**_USER, "role": role})
