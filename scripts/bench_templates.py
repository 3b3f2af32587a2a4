"""Try chat templates on random conversations: what is equal, what is refused, what is wrong.

    scripts/bench templates FOLDER [--conversations 60] [--seed 0]

FOLDER has chat templates, *.jinja. For every template and conversation:

    text      that of `transformers`, to the character; where it raises, so do we
    masks     on something; never on a word of a user, system or tool message; every word of what an
              assistant says in the text is in a span (words are unique, so this needs no template)
    tags      where the template has {% generation %}, spans are its own
    replay    a conversation of a shape that was seen gives the same as the template itself
    refused   by reason; what the template itself loses is counted apart
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from transformers.utils import chat_template_utils as transformers_chat

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.lay import Laid, Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
STOP = (
    *(
        "</s>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<|user|>",
        "<|observation|>",
    ),
    *("<|endoftext|>", "<turn|>", "<|assistant_end|>", "<|eot|>", "<|end_of_text|>", "<|return|>"),
)
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Find a thing",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
    },
}
ODD = (
    "",
    " ",
    "\n",
    "😀",
    "<b>&",
    '"q"',
    "</think>",
    "{{ x }}",
    "é\u0301",
    "  two  ",
    "\\n",
    "None",
)
WORD = re.compile(r"[usatz]\d+w\d+q")


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Frozen:
        return cls(*NOW.timetuple()[:6])


def conversation_of(rng: random.Random) -> tuple[list[dict[str, Any]], list[Any] | None]:
    """Return random messages, whose words tell the role and number of the message."""
    messages: list[dict[str, Any]] = []

    def said(letter: str) -> str:
        words = [f"{letter}{len(messages)}w{i}q" for i in range(rng.randint(1, 3))]
        pieces = [piece for word in words for piece in (rng.choice(ODD), word)]
        return "".join(pieces[rng.randint(0, 1) :]) + rng.choice(ODD)

    has_tools = rng.random() < 0.3
    if rng.random() < 0.3:
        messages.append({"role": "system", "content": said("s")})
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": said("u")})
        if has_tools and rng.random() < 0.6:
            calls = [
                {
                    "id": f"call0000{i}",
                    "type": "function",
                    "function": {"name": "find", "arguments": {"what": said("a"), "n": i}},
                }
                for i in range(rng.randint(1, 2))
            ]
            content = said("a") if rng.random() < 0.3 else ""
            messages.append({"role": "assistant", "content": content, "tool_calls": calls})
            for call in calls:
                messages.append(
                    {
                        "role": "tool",
                        "name": "find",
                        "tool_call_id": call["id"],
                        "content": said("t"),
                    }
                )
        answer: dict[str, Any] = {"role": "assistant", "content": said("a")}
        if rng.random() < 0.3:
            answer["reasoning_content"] = said("a")
        messages.append(answer)
    return messages, [TOOL] if has_tools else None


def check(laid: Laid, has_tags: bool) -> str:
    """Return what is wrong with the spans, or ''."""
    spans = "".join(s if w else "\0" for s, w in zip(laid.strings, laid.weights, strict=True))
    rest = "".join("\0" if w else s for s, w in zip(laid.strings, laid.weights, strict=True))
    if not spans.strip("\0"):
        return "no loss at all"
    foreign = [word for word in WORD.findall(spans) if word[0] != "a"]
    if foreign:
        return f"the word {foreign[0]} of another message has loss"
    left = [word for word in WORD.findall(rest) if word[0] == "a"]
    own = set(WORD.findall(spans))
    if not has_tags and any(word not in own for word in left):
        return f"the word {left[0]} of an assistant has no loss"
    return ""


def tried(path: Path, count: int, seed: int) -> Counter[str]:
    source = path.read_bytes().decode()
    has_tags = "endgeneration" in source
    renderer = Renderer(source, NOW)
    layer = Layer(renderer, SpanRules(stop=STOP))
    without = Layer(renderer, SpanRules(stop=STOP), replay=False)
    found: Counter[str] = Counter()
    rng = random.Random(f"{seed} {path.name}")
    for number in range(count):
        messages, tools = conversation_of(rng)
        given = Conversation(messages=messages, tools=tools, variables=TOKENS)
        text, indices = expected(source, messages, tools)
        try:
            mine: str | None = renderer.render(given).text
        except TemplateFailedError:
            mine = None
        found["texts"] += 1
        found["texts that differ"] += mine != text
        if mine != text:
            print(f"{path.name} #{number}: text differs: {text!r:.200} {mine!r:.200}")
        weights = [float(message["role"] == "assistant") for message in messages]
        try:
            laid = layer.lay(given, weights)
        except TemplateFailedError:
            found["raised"] += 1
            continue
        except RefusedError as error:
            lost = "leaves out" in str(error)
            found["lost by the template" if lost else "refused"] += 1
            if not lost:
                print(f"{path.name} #{number}: refused: {error}")
            continue
        found["laid out"] += 1
        again = without.lay(given, weights)
        if (laid.strings, laid.weights) != (again.strings, again.weights):
            found["replays that differ"] += 1
            print(f"{path.name} #{number}: replay differs")
        wrong = check(laid, has_tags)
        if not wrong and has_tags and text is not None and "".join(laid.strings) == text:
            wrong = "" if marked(laid) == tagged(text, indices) else "spans are not the tags"
        if wrong:
            found["wrong"] += 1
            print(f"{path.name} #{number}: {wrong}: {shown(laid)[-400:]!r}")
    return found


def expected(source: str, messages: Any, tools: Any) -> tuple[str | None, list[tuple[int, int]]]:
    try:
        texts, indices = transformers_chat.render_jinja_template(
            [messages],
            tools=tools,
            chat_template=source,
            return_assistant_tokens_mask="endgeneration" in source,
            **TOKENS,
        )
    except Exception:
        return None, []
    return texts[0], indices[0] if indices else []


def marked(laid: Laid) -> list[bool]:
    return [bool(w) for s, w in zip(laid.strings, laid.weights, strict=True) for _ in range(len(s))]


def tagged(text: str, indices: list[tuple[int, int]]) -> list[bool]:
    return [any(a <= i < b for a, b in indices) for i in range(len(text))]


def shown(laid: Laid) -> str:
    pairs = zip(laid.strings, laid.weights, strict=True)
    return "".join(f"⟦{text}⟧" if weight else text for text, weight in pairs).replace("⟧⟦", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--conversations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    transformers_chat.datetime = Frozen
    total: Counter[str] = Counter()
    for path in sorted(args.folder.glob("*.jinja")):
        total += tried(path, args.conversations, args.seed)
    print(json.dumps(total, indent=1))
    proven = total["laid out"] + total["refused"]
    print(f"refused: {total['refused'] / max(proven, 1):.2%} of those that lose nothing")


if __name__ == "__main__":
    main()
