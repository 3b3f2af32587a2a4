"""Put encoded texts and literal ids together: tokens and masks of many documents at once.

    parts    BOS | text 0 | text 1 | EOS | BOS | text 2 | …      each with its weight
    tokens   ids of the texts in order, literals put between them

`lay_out` decides which parts a document has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import owner_of, ranges
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import (
    MASKS,
    NUMBERS,
    TURN_DTYPE,
    WEIGHT_DTYPE,
    runs_of_parts,
)
from dataprep.pipeline.types import Ids, Mask, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The parts of consecutive documents as arrays; their texts are not encoded yet."""

    texts: Sequence[str]
    special: Offsets  # of each text, special tokens that the config's literals in it spell
    column: Offsets  # of each text, the number of its field in the budget; 0: it is not cut
    literals: Ids  # all literal ids, in order
    lengths: Offsets  # of each part; a text's is filled in after encoding
    is_text: Mask
    weight: NDArray[np.float64]  # of each part in the loss; 0: none
    mask: NDArray[np.int8]  # of each part, as in `Parts`
    is_added: Mask  # of each part: BOS and the like, which make no document by themselves
    document_ends: Offsets  # in parts
    kept: Offsets  # the record of each document, by its place in the batch
    codes_dropped: Offsets  # of each document
    codes_thinned: Offsets  # of each document
    turn: NDArray[Any] | None = None  # u32 of each part, as in `storage.turns`; None: 0
    optional: frozenset[str] = frozenset()  # optional keys of the rules that any record has


def merged(layouts: Sequence[Layout]) -> Layout:
    """Return the documents of several layouts of a batch as one, in the order of their records."""
    assert all(each.turn is None for each in layouts), "conversations are laid out together"
    kept = np.concatenate([each.kept for each in layouts])
    order = np.argsort(kept)
    lengths = np.concatenate([each.lengths for each in layouts])
    is_text = np.concatenate([each.is_text for each in layouts])
    sizes = np.concatenate([np.diff(each.document_ends, prepend=0) for each in layouts])

    def moved(counts: Offsets) -> Offsets:
        """Return where to take things from, of which each document has so many."""
        starts = np.cumsum(counts) - counts
        return ranges(starts[order], counts[order])

    def total(values: NDArray[Any]) -> Offsets:
        """Return the sum over the parts of each document."""
        return np.bincount(owner_of(sizes), values, len(sizes)).astype(np.int64)

    parts, of_texts = moved(sizes), moved(total(is_text))
    texts = list(chain.from_iterable(each.texts for each in layouts))
    return Layout(
        texts=[texts[i] for i in of_texts.tolist()],
        special=np.concatenate([each.special for each in layouts])[of_texts],
        column=np.concatenate([each.column for each in layouts])[of_texts],
        literals=np.concatenate([each.literals for each in layouts])[
            moved(total(np.where(is_text, 0, lengths)))
        ],
        lengths=lengths[parts],
        is_text=is_text[parts],
        weight=np.concatenate([each.weight for each in layouts])[parts],
        mask=np.concatenate([each.mask for each in layouts])[parts],
        is_added=np.concatenate([each.is_added for each in layouts])[parts],
        document_ends=np.cumsum(sizes[order]),
        kept=kept[order],
        codes_dropped=np.concatenate([each.codes_dropped for each in layouts])[order],
        codes_thinned=np.concatenate([each.codes_thinned for each in layouts])[order],
    )


def assemble(
    layout: Layout, ids: Ids, offsets: Offsets, masks: Sequence[str], dtype: np.dtype[Any]
) -> tuple[Documents, Mask]:
    """Return the documents that have tokens, and which of the layout's these are.

    BOS and EOS that were added do not count: a document without any other token has none.
    """
    lengths = layout.lengths.copy()
    lengths[layout.is_text] = np.diff(offsets)
    has_tokens = _sums(np.where(layout.is_added, 0, lengths), layout.document_ends) > 0
    literals = layout.literals
    if not has_tokens.all():
        is_left = np.repeat(has_tokens, np.diff(layout.document_ends, prepend=0))
        of_literals = np.where(layout.is_text, 0, lengths)
        literals = literals[np.repeat(is_left, of_literals)]
        lengths[~is_left] = 0
    part_ends = np.cumsum(lengths)
    tokens = np.empty(int(part_ends[-1]) if len(part_ends) else 0, dtype)
    of_text = np.repeat(layout.is_text, lengths)
    tokens[of_text] = ids
    literal = ~layout.is_text & (lengths > 0)
    if (lengths[literal] == 1).all():  # only BOS and EOS: a few places among many tokens
        tokens[part_ends[literal] - 1] = literals
    else:
        tokens[~of_text] = literals
    documents = Documents(
        tokens=tokens,
        ends=np.cumsum(_sums(lengths, layout.document_ends)[has_tokens]),
        masks=tuple(runs_of_parts(_values(layout, name), lengths) for name in masks),
    )
    return documents, has_tokens


def _sums(lengths: Offsets, document_ends: Offsets) -> Offsets:
    """Return the sum over the parts of each document, of which one may have none."""
    before = np.concatenate(([0], np.cumsum(lengths)))
    return np.diff(before[document_ends], prepend=0)


def _values(layout: Layout, mask: str) -> NDArray[Any]:
    """Return the value of a mask for each part."""
    if mask == "loss":
        return layout.weight > 0
    if mask == "turns":
        return np.zeros(len(layout.lengths), TURN_DTYPE) if layout.turn is None else layout.turn
    if MASKS[mask].is_weight:
        # Parts without loss get weight 1, the usual one, so that there are fewer runs.
        return np.where(layout.weight > 0, layout.weight, 1).astype(WEIGHT_DTYPE)
    of_mask: Mask = layout.mask == NUMBERS[mask]
    return of_mask
