"""What LWM's data classes do, in plain Python: the rules that the drop-in is held against.

Written from its behaviour, not from ours: lists of examples become one list of tokens, or rows, and
batches are cut out of it with NumPy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARRAYS = {
    "input_tokens": np.int32,
    "target_tokens": np.int32,
    "loss_masks": np.float32,
    "input_vision_masks": np.bool_,
    "target_vision_masks": np.bool_,
}
Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    line: int
    end: int  # the byte at which the next example begins
    tokens: list[int]
    loss: list[float]
    vision: list[bool]


def examples_of(
    lines: Sequence[str], tokenizer: Any, fields: str = "", frame: int = 0
) -> list[Example]:
    """The examples of a file of JSON lines; without `fields`, each record names its own."""
    found: list[Example] = []
    begins = np.cumsum([0, *(len(line.encode()) + 1 for line in lines)]).tolist()
    for i, line in enumerate(lines):
        if not line.strip():
            continue
        record = json.loads(line)
        spec = fields or record["fields"]
        if isinstance(spec, list):
            spec = random.Random(i).choice(spec)
        tokens, loss, vision = [tokenizer.bos_token_id], [0.0], [False]
        for field in spec.split(","):
            name, weight = (field[1:-1], 0.0) if field[0] == "[" else (field, 1.0)
            ids, marks = _field(record, name, tokenizer, frame)
            tokens += ids
            loss += [weight] * len(ids)
            vision += marks
        tokens.append(tokenizer.eos_token_id)
        later = [j for j in range(i + 1, len(lines)) if lines[j].strip()]
        found.append(
            Example(
                line=i,
                end=begins[later[0]] if later else begins[-1],
                tokens=tokens,
                loss=[*loss, 1.0],
                vision=[*vision, False],
            )
        )
    return found


def _field(record: Any, name: str, tokenizer: Any, frame: int) -> tuple[list[int], list[bool]]:
    if "vision" not in name or not frame:
        text = " ".join(record[key] for key in name.split("+"))
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids, [False] * len(ids)
    codes: list[int] = record[name]
    frames = [codes[i * frame : (i + 1) * frame] for i in range(len(codes) // frame)]
    inner = [code for one in frames for code in (*one, 8192)]
    inner[-1] = 8193
    tags = [tokenizer.encode(tag, add_special_tokens=False) for tag in ("<vision>", "</vision>")]
    marks = [False] * len(tags[0]) + [True] * len(inner) + [False] * len(tags[1])
    return [*tags[0], *inner, *tags[1]], marks


def stream(
    examples: Sequence[Example], rows: int, length: int, *, first: int = 0, restarts: bool = False
) -> Iterator[tuple[Batch, Example]]:
    """Batches cut out of one list of tokens, with the example that was read last.

    `first`: the example to begin with; `restarts`: what is left at the end of the file is dropped,
    else it goes on with the first example.
    """
    size, at = rows * length, first
    held: list[tuple[int, float, bool]] = []
    while True:
        held = [] if restarts else held
        for example in examples[at:]:
            held += zip(example.tokens, example.loss, example.vision, strict=True)
            while len(held) > size + 1:
                tokens, loss, vision = map(np.array, zip(*held[: size + 1], strict=True))
                yield _batch(tokens, loss, vision, rows), example
                held = held[size:]
        at = 0


def _batch(tokens: Any, loss: Any, vision: Any, rows: int) -> Batch:
    arrays = (tokens[:-1], tokens[1:], loss[1:], vision[:-1], vision[1:])
    named = zip(ARRAYS.items(), arrays, strict=True)
    return {name: array.astype(kind).reshape(rows, -1) for (name, kind), array in named}


def padded(
    examples: Sequence[Example],
    rows: int,
    length: int,
    bos: int,
    *,
    first: int = 0,
    bug: bool = True,
) -> Iterator[tuple[Batch, Example]]:
    """One example a row; `bug`: as LWM has it, the loss of full rows is one too far to the left."""
    order = (examples[(first + i) % len(examples)] for i in count())
    while True:
        batch = {
            name: np.full((rows, length), bos if "tokens" in name else 0, kind)
            for name, kind in ARRAYS.items()
        }
        for i in range(rows):
            example = next(order)
            tokens, vision = example.tokens[: length + 1], example.vision[: length + 1]
            loss = example.loss[1 : length + 1]
            if len(example.tokens) > length and bug:
                loss = loss[1:]
            parts = (tokens[:-1], tokens[1:], loss, vision[:-1], vision[1:])
            for (_, array), part in zip(batch.items(), parts, strict=True):
                array[i, : len(part)] = part
        yield batch, example
