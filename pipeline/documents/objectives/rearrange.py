"""New documents of old ones: ranges of their tokens in another order, with added ids between.

    tokens       a b c d e f | BOS EOS X Y       those of the batch, then a table of added ids
    ranges       6:1 8:1 2:3 0:2 9:1 7:1         BOS X  c d e  a b  Y EOS

An objective says which ranges each new document has; tokens and masks are copied here, many
documents at once. Added ids have loss, and weight 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataprep.pipeline.ragged import numbers_within, offsets_of, owner_of, ranges
from dataprep.pipeline.storage.documents import Documents
from dataprep.pipeline.storage.masks import (
    MASKS,
    MaskRuns,
    dense_mask,
    runs_of_dense,
    runs_of_parts,
)
from dataprep.pipeline.types import Ids, Mask, Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """Parts of documents without their BOS and EOS: the whole of each, or cut to a context."""

    document: Offsets  # i64[b], ascending: which document each is of
    number: Offsets  # i64[b], among those of its document
    start: Offsets  # i64[b], among the tokens of the batch
    length: Offsets  # i64[b]
    bos: Offsets  # i64[b], 1 where it begins its document, and that has a BOS
    eos: Offsets  # i64[b], the same for the end


def bodies_of(documents: Documents, *, bos: int, eos: int, most: int | None = None) -> Bodies:
    """Return the bodies of documents, which have `bos` ids added before them and `eos` after.

    One that is longer than `most` is cut into as few as possible, of about equal length.
    """
    starts = np.concatenate(([0], documents.ends[:-1])) + bos
    lengths = documents.ends - eos - starts
    counts = np.ones(len(lengths), np.int64)
    if most is not None:
        counts = np.maximum(-(-lengths // most), 1)
    document, number = owner_of(counts), numbers_within(counts)
    begins = number * lengths[document] // counts[document]
    ends = (number + 1) * lengths[document] // counts[document]
    return Bodies(
        document=document,
        number=number,
        start=starts[document] + begins,
        length=ends - begins,
        bos=bos * (number == 0),
        eos=eos * (number == counts[document] - 1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The ranges of all new documents, in order."""

    start: Offsets  # i64[r], among the tokens of the batch and the added ids
    length: Offsets  # i64[r]
    counts: Offsets  # i64[d], of each new document
    sides: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # by mask: a value each
    no_loss: Mask | None = None  # bool[r]: ranges that have none


def rearranged(documents: Documents, masks: Sequence[str], added: Ids, wanted: Ranges) -> Documents:
    """Return the new documents; none of them may be empty."""
    place = ranges(wanted.start, wanted.length)
    tokens = np.concatenate((documents.tokens, added.astype(documents.tokens.dtype)))[place]
    stops = offsets_of(wanted.length)[np.cumsum(wanted.counts)]
    made = []
    for name, runs in zip(masks, documents.masks, strict=True):
        if name in wanted.sides:
            made.append(runs_of_parts(wanted.sides[name], wanted.length))
        elif name == "loss":
            made.append(_loss(runs, len(added), place, wanted))
        else:
            made.append(_moved(runs, MASKS[name].default, len(added), place))
    return Documents(tokens=tokens, ends=stops, masks=tuple(made))


def _loss(runs: MaskRuns, num_added: int, place: Offsets, wanted: Ranges) -> MaskRuns:
    if len(runs.values) and runs.values.all():  # every token: then ranges tell all
        if wanted.no_loss is None:
            return _constant(True, len(place))
        return runs_of_parts(~wanted.no_loss, wanted.length)
    dense = np.concatenate((dense_mask(runs), np.ones(num_added, np.bool_)))[place]
    if wanted.no_loss is not None:
        dense &= ~np.repeat(wanted.no_loss, wanted.length)
    return runs_of_dense(dense)


def _moved(runs: MaskRuns, default: Any, num_added: int, place: Offsets) -> MaskRuns:
    if (runs.values == default).all():
        return _constant(default, len(place))
    return runs_of_dense(np.append(dense_mask(runs), np.repeat(default, num_added))[place])


def _constant(value: Any, length: int) -> MaskRuns:
    return runs_of_parts(np.array([value]), np.array([length]))
