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
    modality: str  # "text" or the mask's name
    num_tokens: int


def spans_of(
    document: Mapping[str, NDArray[Any]], decode: Decode, config: Mapping[str, Any]
) -> list[Span]:
    """Cut a document where its loss or modality changes."""
    tokens, loss = document["tokens"], document["loss_mask"]
    vision = document.get("vision_mask", np.zeros(len(tokens), bool))
    if not len(tokens):
        return []
    changes = (loss[1:] != loss[:-1]) | (vision[1:] != vision[:-1])
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(tokens)]))
    spans = []
    for start, stop in pairwise(starts.tolist()):
        ids = tokens[start:stop]
        of_codes = bool(vision[start])
        spans.append(
            Span(
                text=_frames(ids, config) if of_codes else decode(ids.tolist()),
                loss=bool(loss[start]),
                modality="vision" if of_codes else "text",
                num_tokens=len(ids),
            )
        )
    return spans


def _frames(ids: NDArray[Any], config: Mapping[str, Any]) -> str:
    size = config["modalities"]["vision"]["tokens_per_frame"]
    return f"<vision {len(ids) // (size + 1)}×{size}>"
