"""Texts and literal ids side by side: the tokens and masks of many documents in one stroke.

    parts    BOS | text 0 | text 1 | EOS | BOS | text 2 | …      each with its flags
    tokens   ids of the texts in order, literals put between them

What the parts of a document are is decided in `lay_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import MASKS, WEIGHT_DTYPE, runs_of_parts
from dataprep.pipeline.types import MODALITIES, Ids, Mask, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Parts of consecutive documents as arrays, texts not yet encoded."""

    texts: Sequence[str]
    literals: Ids  # all literal ids, in order
    lengths: Offsets  # of each part; a text's is filled in after encoding
    is_text: Mask
    weight: NDArray[np.float64]  # of each part in the loss; 0: none
    modality: NDArray[np.int8]  # of each part, as in `Parts`
    document_ends: Offsets  # in parts
    kept: Offsets  # which of the batch's records the documents are
    codes_dropped: Offsets  # by each document
    codes_thinned: Offsets


def assemble(
    layout: Layout, ids: Ids, offsets: Offsets, masks: Sequence[str], dtype: np.dtype[Any]
) -> tuple[Documents, Mask]:
    """Interleave encoded texts and literals; also which documents have tokens."""
    lengths = layout.lengths.copy()
    lengths[layout.is_text] = np.diff(offsets)
    part_ends = np.cumsum(lengths)
    tokens = np.empty(int(part_ends[-1]) if len(part_ends) else 0, dtype)
    of_text = np.repeat(layout.is_text, lengths)
    tokens[of_text] = ids
    literal = ~layout.is_text
    if (lengths[literal] == 1).all():  # BOS and EOS: a few places among many
        tokens[part_ends[literal] - 1] = layout.literals
    else:
        tokens[~of_text] = layout.literals
    ends = np.concatenate(([0], part_ends))[layout.document_ends]  # 0 parts have no token
    has_tokens = np.diff(ends, prepend=0) > 0
    documents = Documents(
        tokens=tokens,
        ends=ends[has_tokens],
        masks=tuple(runs_of_parts(_values(layout, name), lengths) for name in masks),
    )
    return documents, has_tokens


def _values(layout: Layout, mask: str) -> NDArray[Any]:
    """What a mask says of each part."""
    if mask == "loss":
        return layout.weight > 0
    if MASKS[mask].is_weight:
        # Where there is no loss the weight is 1, as it is everywhere else: fewer runs.
        return np.where(layout.weight > 0, layout.weight, 1).astype(WEIGHT_DTYPE)
    of_mask: Mask = layout.modality == MODALITIES.index(mask) + 1
    return of_mask
