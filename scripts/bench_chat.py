"""Conversations per second on one core: rendered, with masks and tokens; beside transformers.

    scripts/bench chat DATA [--rounds 3]

DATA has chat.jsonl ({"messages": …}) and tokenizers/qwen3 with its chat template. Both do the same
work: `apply_chat_template(return_assistant_tokens_mask=True)` renders, encodes and makes a mask;
dataprep reads JSON, renders, proves its spans, encodes and makes the mask. Times are CPU seconds of
one process with one thread; transformers is given a part, since it is slow.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", type=int, default=1500, help="conversations for transformers")
    args = parser.parse_args()
    lines = (args.data / "chat.jsonl").read_bytes().splitlines(keepends=True)
    tokenizer = args.data / "tokenizers" / "qwen3"
    ours, engine = make_ours(tokenizer)
    theirs = make_theirs(tokenizer)
    part = [json.loads(line)["messages"] for line in lines[: args.part]]
    print(f"{len(lines):,} conversations, {sum(map(len, lines)) / 1e6:.1f} MB; engine {engine}")
    for number in range(args.rounds):
        fast = len(lines) / seconds(lambda: ours(lines))
        slow = len(part) / seconds(lambda: theirs(part))
        name = "first pass" if number == 0 else f"pass {number + 1}"
        print(
            f"{name}: dataprep {fast:,.0f}/s, transformers {slow:,.0f}/s, {fast / slow:.1f} times"
        )


def seconds(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def make_ours(tokenizer: Path) -> tuple[Callable[[Sequence[bytes]], None], str]:
    from dataprep.configs.chat import ChatConfig
    from dataprep.pipeline.caches import default_cache
    from dataprep.pipeline.documents.chat.batch import lay_out_conversations, weigh
    from dataprep.pipeline.documents.chat.forms import FoundForm
    from dataprep.pipeline.documents.chat.rules import ChatRules
    from dataprep.pipeline.documents.chat.templates import find_templates
    from dataprep.pipeline.engine import load_engine, resolve_tokenizer, select_engine
    from dataprep.pipeline.ragged import nothing_held
    from dataprep.pipeline.sources.json.records import JsonRecords
    from dataprep.pipeline.sources.lines import LineBlock

    files = resolve_tokenizer(str(tokenizer))
    selection = select_engine("auto", files, cache_dir=default_cache())
    engine = load_engine(selection, files)
    config = ChatConfig()
    rules = ChatRules(
        config=config,
        templates=find_templates(config, files),
        found=FoundForm(form="openai", keys=("messages",)),
        files=files,
        drop_nulls=False,
    )
    read = JsonRecords(rules.keys, held_by=nothing_held, in_lines=True, max_record_bytes=1 << 30)

    def work(lines: Sequence[bytes]) -> None:
        for i in range(0, len(lines), 1000):
            data = b"".join(lines[i : i + 1000])
            sizes = np.array([len(line) for line in lines[i : i + 1000]])
            ends = np.cumsum(sizes)
            block = LineBlock(
                data=data, position=0, starts=ends - sizes, ends=ends - 1, num_bytes=len(data)
            )
            records = read(block, i)
            reasons: dict[int, str] = {}
            found = lay_out_conversations(records, rules, reasons)
            ids, offsets = engine.encode(found.texts)
            weigh(found, ids, offsets, rules, reasons)
            assert not reasons, reasons

    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    work([json.dumps({"messages": messages}).encode() + b"\n"])  # loads what it needs
    return work, f"{selection.name} {selection.version}"


def make_theirs(tokenizer: Path) -> Callable[[Sequence[Any]], None]:
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer)

    def work(conversations: Sequence[Any]) -> None:
        for messages in conversations:
            loaded.apply_chat_template(
                messages, return_dict=True, return_assistant_tokens_mask=True
            )

    work([[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]])
    return work


if __name__ == "__main__":
    main()
