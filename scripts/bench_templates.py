"""Try chat templates on random conversations: what is equal, what is refused, what is wrong.

    scripts/bench templates FOLDER [--conversations 60] [--seed 0]

FOLDER has chat templates, *.jinja. For every template and conversation:

    text      that of `transformers`, to the character; where it raises, so do we
    words     the loss is on something; never on a word of a user, system or tool message; every
              word of what an assistant says in the text has it (words are unique)
    turns     role headers have no loss, the ends of turns have: see `chat_oracle`, which asks
              `transformers` alone
    tags      where the template has {% generation %}, spans are its own
    replay    a conversation of a shape that was seen gives the same as the template itself
    refused   by reason; what the template itself loses is counted apart

Each is tried under several tokenizers: one whose stop tokens are known, one whose EOS is none of
what the template writes, one that has no BOS and whose EOS is `<|im_end|>`, one without any.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from chat_oracle import WORD, Turn, fault, turns_of
from transformers.utils import chat_template_utils as transformers_chat

from dataprep.pipeline.documents.chat.bounds import TemplateFailedError
from dataprep.pipeline.documents.chat.lay import Laid, Layer
from dataprep.pipeline.documents.chat.refused import RefusedError
from dataprep.pipeline.documents.chat.render import Conversation, Renderer
from dataprep.pipeline.documents.chat.spans import SpanRules

NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)
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
# By name: the special tokens of a tokenizer, and those that are known to end a turn.
TOKENIZERS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "known": ({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}, STOP),
    "other": ({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, ("<|endoftext|>",)),
    "no bos": ({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}, ("<|im_end|>",)),
    "none": ({}, ()),
}
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
    renderer = Renderer(source, NOW)
    found: Counter[str] = Counter()
    for name, (tokens, stop) in TOKENIZERS.items():
        layers = [Layer(renderer, SpanRules(stop=stop), replay=replay) for replay in (True, False)]
        rng = random.Random(f"{seed} {path.name} {name}")
        for number in range(count):
            one = Trial(source, tokens, stop, *conversation_of(rng))
            found["texts"] += 1
            what, told = one.outcome(renderer, layers)
            found[what] += 1
            found["turns"] += len(one.turns)
            found["headers known"] += sum(turn.header is not None for turn in one.turns)
            found["ends known"] += sum(turn.end is not None for turn in one.turns)
            if told:
                print(f"{path.name} ({name}) #{number}: {what}: {told}")
    return found


class Trial:
    """One conversation, laid out by dataprep and held against transformers."""

    def __init__(
        self, source: str, tokens: dict[str, str], stop: tuple[str, ...], messages: Any, tools: Any
    ) -> None:
        self.turns: list[Turn] = []
        self._source, self._tokens, self._stop = source, tokens, stop
        self._messages, self._tools = messages, tools

    def outcome(self, renderer: Renderer, layers: list[Layer]) -> tuple[str, str]:
        """Return what became of it, and what is to be told about that."""
        messages, tools = self._messages, self._tools
        given = Conversation(messages=messages, tools=tools, variables=self._tokens)
        text, tags = self._expected(messages)
        try:
            mine: str | None = renderer.render(given).text
        except TemplateFailedError:
            mine = None
        if mine != text:
            return "text differs", f"{text!r:.200} {mine!r:.200}"
        weights = [float(message["role"] == "assistant") for message in messages]
        try:
            laid, again = (layer.lay(given, weights) for layer in layers)
        except TemplateFailedError:
            return "raised", ""
        except RefusedError as error:
            lost = "leaves out" in str(error)
            return ("lost by the template", "") if lost else ("refused", str(error))
        if (laid.strings, laid.weights) != (again.strings, again.weights):
            return "replay differs", shown(laid)
        wrong = self._wrong(laid, text or "", tags)
        return ("wrong", f"{wrong}: {shown(laid)[-600:]!r}") if wrong else ("laid out", "")

    def _wrong(self, laid: Laid, text: str, tags: list[tuple[int, int]]) -> str:
        has_tags = "endgeneration" in self._source
        if "".join(laid.strings) != text:
            # Contents or arguments are given in the form that the template takes.
            return check(laid, has_tags)
        mask = marked(laid)
        if has_tags:
            return check(laid, has_tags) or ("" if mask == tagged(text, tags) else "not the tags")
        self.turns = turns_of(
            self._messages, text, lambda given, prompt: self._expected(given, prompt)[0]
        )
        faults = (fault(turn, text, mask, self._stop) for turn in self.turns)
        return check(laid, has_tags) or next(filter(None, faults), "")

    def _expected(
        self, messages: Any, prompt: bool = False
    ) -> tuple[str | None, list[tuple[int, int]]]:
        try:
            texts, indices = transformers_chat.render_jinja_template(
                [messages],
                tools=self._tools,
                chat_template=self._source,
                return_assistant_tokens_mask="endgeneration" in self._source,
                add_generation_prompt=prompt,
                **self._tokens,
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
    proven = total["laid out"] + total["wrong"] + total["refused"]
    print(f"refused: {total['refused'] / max(proven, 1):.2%} of those that lose nothing")


if __name__ == "__main__":
    main()
