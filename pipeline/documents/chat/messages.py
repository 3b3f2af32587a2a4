"""Messages, calls and tools as templates expect them, out of what datasets hold.

{"role": "assistant", "content": null, "tool_calls": "[{\\"name\\": …}]"}    null, JSON in a string
{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {…}}]}

Tables fill every object with nulls for keys that other rows have; such keys are dropped, as
transformers does. What cannot be meant is a ValueError that says where.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from dataprep.pipeline.errors import short

# What a message says about its own loss, and not to the template.
ROLE = re.compile(r"[\w .:/-]{1,64}")
USUAL = frozenset(("system", "user", "assistant", "tool"))
ANNOTATIONS = ("weight", "train", "training", "loss", "loss_mask", "training_detail")


def parsed(value: Any, what: str) -> Any:
    """Return a value that may be JSON in a string."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is a text, but not JSON ({error}): {short(value)!r}") from None


def is_bare(message: Mapping[str, Any]) -> bool:
    """Return whether a message has a role and a text as content, and nothing else."""
    return len(message) == 2 and type(message.get("content")) is str and "role" in message


def clean_messages(value: Any, key: str, *, drop_nulls: bool) -> list[dict[str, Any]]:
    """Return a list of messages; `drop_nulls`: nulls in arguments are a table's padding, too."""
    found = parsed(value, f"field {key!r}")
    if not isinstance(found, list) or not found:
        raise ValueError(f"field {key!r} must be a list of messages, got {short(repr(found))}")
    messages: list[dict[str, Any]] = []
    for i, item in enumerate(found):
        if type(item) is dict and is_bare(item) and item.get("role") in USUAL:
            messages.append(item)
            continue
        where = f"field '{key}[{i}]'"
        if not isinstance(item, dict):
            raise ValueError(f"{where} must be a message, got {short(repr(item))}")
        messages += _messages_of(_without_nulls(item), where, drop_nulls=drop_nulls)
    return messages


def _messages_of(item: dict[str, Any], where: str, *, drop_nulls: bool) -> list[dict[str, Any]]:
    """Return the message, or the several that the blocks of Anthropic's form stand for."""
    role = item.get("role")
    if not isinstance(role, str):
        raise ValueError(f"{where} has no role (keys: {', '.join(sorted(item))})")
    if not ROLE.fullmatch(role):
        raise ValueError(f"{where} has the role {short(repr(role))}, which can be no role")
    if "function_call" in item and "tool_calls" not in item:  # its name before there were several
        item = {k: v for k, v in item.items() if k != "function_call"} | {
            "tool_calls": [parsed(item["function_call"], f"{where}.function_call")]
        }
    content = item.get("content")
    if isinstance(content, list):
        content = [_part(part, f"{where}.content[{i}]") for i, part in enumerate(content)]
        if any(part.get("type") in ("tool_use", "tool_result", "thinking") for part in content):
            return _of_blocks(item, content)
        item = {**item, "content": content}
    elif content is not None and not isinstance(content, str):
        raise ValueError(f"{where}.content must be text or a list, got {short(repr(content))}")
    calls = parsed(item.get("tool_calls"), f"{where}.tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise ValueError(f"{where}.tool_calls must be a list, got {short(repr(calls))}")
        cleaned = [
            clean_call(call, f"{where}.tool_calls[{i}]", drop_nulls=drop_nulls)
            for i, call in enumerate(calls)
        ]
        # Templates want a text beside the calls, if only an empty one.
        item = {**item, "content": item.get("content", ""), "tool_calls": cleaned}
    elif "tool_calls" in item:
        item = {key: value for key, value in item.items() if key != "tool_calls"}
    if "content" not in item:
        raise ValueError(f"{where} has no content (keys: {', '.join(sorted(item))})")
    return [item]


def _part(part: Any, where: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise ValueError(f"{where} must be a text or an object, got {short(repr(part))}")
    if part.get("type") == "text" and not isinstance(part.get("text"), str):
        raise ValueError(f"{where} is of type text, but has none: {short(repr(part))}")
    return _without_nulls(part)


def _of_blocks(item: dict[str, Any], blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of Anthropic's blocks: results of tools are messages of their own."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if results and blocks[: len(results)] != results:
        raise ValueError("has a tool_result after other blocks of its message; put results first")
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    thinking = [str(b.get("thinking", "")) for b in blocks if b.get("type") == "thinking"]
    rest = [
        block
        for block in blocks
        if block.get("type") not in ("tool_result", "tool_use", "thinking")
    ]
    found: list[dict[str, Any]] = [
        {
            "role": "tool",
            "content": _text_of_blocks(block.get("content", "")),
            **({"tool_call_id": block["tool_use_id"]} if "tool_use_id" in block else {}),
        }
        for block in results
    ]
    if rest or calls or thinking or not results:
        message = {**item, "content": _text_of_blocks(rest)}
        if thinking:
            message["reasoning_content"] = "\n".join(thinking)
        if calls:
            message["tool_calls"] = [
                {
                    "type": "function",
                    "id": str(call.get("id", "")),
                    "function": {"name": call.get("name"), "arguments": call.get("input") or {}},
                }
                for call in calls
            ]
        found.append(message)
    return found


def _text_of_blocks(blocks: Any) -> Any:
    """Return the text of blocks that are all text, else the blocks."""
    if isinstance(blocks, list) and all(
        isinstance(block, dict) and block.get("type") == "text" for block in blocks
    ):
        return "\n".join(str(block.get("text", "")) for block in blocks)
    return blocks


def clean_call(call: Any, where: str, *, drop_nulls: bool) -> dict[str, Any]:
    """Return a tool call as {"type": "function", "function": {"name", "arguments"}}."""
    if not isinstance(call, dict):
        raise ValueError(f"{where} must be an object, got {short(repr(call))}")
    call = _without_nulls(call)
    if "function" not in call and "name" in call:  # without its wrapper
        inner = {key: call.pop(key) for key in ("name", "arguments") if key in call}
        call = {**call, "function": inner}
    function = parsed(call.get("function"), f"{where}.function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError(f"{where} has no function with a name, got {short(repr(call))}")
    function = _without_nulls(function)
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        arguments = json.loads(arguments) if _is_json(arguments) else arguments
    if drop_nulls:
        arguments = _without_padding(arguments)
    return {"type": "function", **call, "function": {**function, "arguments": arguments}}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def clean_tools(value: Any, key: str, *, drop_nulls: bool) -> list[Any] | None:
    """Return the tools of a record: a list of schemas with their wrapper, or None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str) and not value.strip():
        return None
    tools = parsed(value, f"field {key!r}")
    if isinstance(tools, dict):
        tools = [tools]
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise ValueError(f"field {key!r} must be a list of tools, got {short(repr(tools))}")
    found = [
        _tool(parsed(tool, f"field '{key}[{i}]'"), f"field '{key}[{i}]'")
        for i, tool in enumerate(tools)
    ]
    return [_without_padding(tool) if drop_nulls else tool for tool in found] or None


def _tool(tool: Any, where: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise ValueError(f"{where} must be the schema of a tool, got {short(repr(tool))}")
    if "function" in tool or "name" not in tool:
        return tool
    if "input_schema" in tool:  # Anthropic's name for it
        tool = {"parameters" if k == "input_schema" else k: v for k, v in tool.items()}
    return {"type": "function", "function": tool}


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if inner is not None}


def _without_padding(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_padding(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_padding(inner) for inner in value]
    return value
