"""Find out in which form a template takes contents and arguments, and give it that.

    content     "hello"  or  [{"type": "text", "text": "hello"}]
    arguments   {"at": "it"}  or  '{"at": "it"}'

As with headers, conversations that are always the same are tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.messages import is_bare
from dataprep.pipeline.documents.chat.render import Conversation, Renderer

_SAID = ("Qqqq1", "Aaaa2")
SYNTHETIC_TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at something",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    takes_text: bool
    takes_parts: bool
    takes_objects: bool  # as arguments of tool calls

    def applied(self, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the messages in the form that the template takes."""
        if self.takes_text and all(map(is_bare, messages)):
            return [*messages]
        return [self._message(message) for message in messages]

    def _message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        content, calls = message.get("content"), message.get("tool_calls")
        if isinstance(content, str):
            if not self.takes_text and self.takes_parts:
                message = {**message, "content": [{"type": "text", "text": content}]}
        elif _is_text(content) and not self.takes_parts and self.takes_text:
            message = {**message, "content": "".join(part["text"] for part in content or ())}
        if isinstance(calls, list) and not self.takes_objects:
            message = {**message, "tool_calls": [_as_text(call) for call in calls]}
        return message


def _is_text(content: Any) -> bool:
    return isinstance(content, list) and all(part.get("type") == "text" for part in content)


def _as_text(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return call
    text = json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def find_traits(renderer: Renderer, variables: Mapping[str, Any]) -> Traits:
    def shows(messages: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> bool:
        base = Conversation(messages=messages, variables=variables)
        for tools in (None, [SYNTHETIC_TOOL]):
            try:
                text = renderer.plain(replace(base, tools=tools))
            except TemplateFailedError:
                continue
            return all(each in text for each in wanted) and "'type'" not in text
        return False

    roles = ("user", "assistant")
    texts = [{"role": role, "content": said} for role, said in zip(roles, _SAID, strict=True)]
    parts = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in texts]
    return Traits(
        takes_text=shows(texts, _SAID),
        takes_parts=shows(parts, _SAID),
        takes_objects=shows(_calling({"at": "Aaaa2"}), ["Aaaa2"])
        or not shows(_calling('{"at": "Aaaa2"}'), ["Aaaa2"]),
    )


def _calling(arguments: Any) -> list[Mapping[str, Any]]:
    function = {"name": "look", "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return [
        {"role": "user", "content": "What is it?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "look", "tool_call_id": "call00001", "content": "A thing."},
        {"role": "assistant", "content": "It is a thing."},
    ]
