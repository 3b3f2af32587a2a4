"""A document as spans that people can read: text, whether it is trained on, and its modality.

tokens  1 100 90 10 11 8192 30 31 8193 91     loss 0 0 1…     vision 0 0 0 1 1 1 1 1 1 0
spans   "<s>a" without loss, "<vision>" with, <vision 2×2> with, "</vision>" with
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    text: str
    loss: bool
    modality: str  # "text", "padding" or the mask's name
    num_tokens: int
    segment: int  # from 1; 0 is padding


def spans_of(
    item: Mapping[str, NDArray[Any]], decode: Decode, config: Mapping[str, Any]
) -> list[Span]:
    """Cut a document or row where its loss, modality or segment changes."""
    tokens, loss = item["tokens"], item["loss_mask"].astype(bool)
    vision = item.get("vision_mask", np.zeros(len(tokens), bool)).astype(bool)
    segments = item.get("segment_ids", np.ones(len(tokens), np.int32))
    if not len(tokens):
        return []
    changes = np.zeros(len(tokens) - 1, bool)
    for values in (loss, vision, segments):
        changes |= values[1:] != values[:-1]
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(tokens)]))
    spans = []
    for start, stop in pairwise(starts.tolist()):
        ids, segment = tokens[start:stop], int(segments[start])
        if not segment:
            text, modality = f"<padding {len(ids)}>", "padding"
        elif vision[start]:
            text, modality = _frames(ids, config), "vision"
        else:
            text, modality = decode(ids.tolist()), "text"
        spans.append(
            Span(
                text=text,
                loss=bool(loss[start]),
                modality=modality,
                num_tokens=len(ids),
                segment=segment,
            )
        )
    return spans


def _frames(ids: NDArray[Any], config: Mapping[str, Any]) -> str:
    size = config["modalities"]["vision"]["tokens_per_frame"]
    return f"<vision {len(ids) // (size + 1)}×{size}>"
