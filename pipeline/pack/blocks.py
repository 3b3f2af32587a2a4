"""Find the blocks of codes in documents, tags included, and count those that rows cut.

document   a b c <vision> 7 8 8193 </vision> d e        block [3, 8)
rows       a b c <vision> 7 | 7 8 8193 </vision> d e    cut at 5: inside, so one block is cut
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from dataprep.pipeline.pack.pieces import DocumentPieces
from dataprep.pipeline.pack.selected import PlannedDocuments
from dataprep.pipeline.pack.strategies import Blocks, RowPlan
from dataprep.pipeline.pack.strategies.windows import Window
from dataprep.pipeline.ragged import offsets_of
from dataprep.pipeline.storage.masks import blocks_among
from dataprep.pipeline.types import Offsets


def blocks_of_window(corpus: PlannedDocuments, window: Window, capacity: int) -> Blocks | None:
    """Return the blocks of documents that are longer than a row, numbered as in the window."""
    long = np.flatnonzero(window.lengths > capacity)
    blocks = find_blocks(corpus, long + window.first_document, window.lengths[long])
    return replace(blocks, document=long[blocks.document]) if len(blocks.document) else None


def find_blocks(corpus: PlannedDocuments, document: Offsets, length: Offsets) -> Blocks:
    """Return the blocks of these documents, which are numbered by their place in `document`."""
    pieces = DocumentPieces(document=document, start=np.zeros_like(document), length=length)
    found = [np.zeros((3, 0), np.int64)]
    for mask in blocks_among(corpus.masks):
        parts = corpus.mask_parts(mask, pieces)
        first = offsets_of(length)[parts.piece]
        inside = parts.value & (parts.length > 0)
        stop = (np.cumsum(parts.length) - first)[inside]
        owner = parts.piece[inside]
        before, after = corpus.tag_lengths(mask, document[owner])
        start = np.maximum(stop - parts.length[inside] - before, 0)
        found.append(np.stack([owner, start, np.minimum(stop + after, length[owner])]))
    blocks = np.concatenate(found, axis=1)
    blocks = blocks[:, np.lexsort((blocks[1], blocks[0]))]
    return Blocks(document=blocks[0], start=blocks[1], stop=blocks[2])


def count_cut_blocks(corpus: PlannedDocuments, plans: Iterable[RowPlan]) -> Iterator[RowPlan]:
    """Yield plans that were made without regard to blocks, with the number of blocks they cut."""
    # From the plan before: its last document and block may continue in this one.
    last, last_document = (-1, -1), -1
    for plan in plans:
        if not blocks_among(corpus.masks):
            yield plan
            continue
        cut = _cut_blocks(corpus, plan, last_document)
        num_cut = len(cut) - (len(cut) > 0 and cut[0] == last)
        last = cut[-1] if cut else last
        last_document = int(plan.document[-1]) if len(plan.document) else last_document
        yield replace(plan, counts=replace(plan.counts, blocks_cut=num_cut))


def _cut_blocks(corpus: PlannedDocuments, plan: RowPlan, going_on: int) -> list[tuple[int, int]]:
    """Return (document, start) of each block that a row ends or starts within; the document
    `going_on` began in the plan before."""
    # A document whose end is missing has a piece as long as a row, or is the last of all; one
    # that was cut after its first token has two pieces that start with it.
    may_be_cut = (plan.start > 0) | (plan.length >= plan.capacity) | (plan.length == 1)
    document = np.unique(np.append(plan.document[may_be_cut], plan.document[-1:]))
    length = corpus.lengths_of(document)
    blocks = find_blocks(corpus, document, length)
    place = np.searchsorted(document, plan.document)
    own = np.flatnonzero(document.take(place, mode="clip") == plan.document)
    place, start = place[own], plan.start[own]
    end = start + plan.length[own]
    # Neighbouring pieces share a token, so a piece that does not begin its document begins one
    # token before the cut, unless the beginning of the document was truncated.
    continued = document[place] == going_on
    order = np.lexsort((start, place))
    continued[order[1:]] |= place[order][1:] == place[order][:-1]
    owners = np.concatenate([place[end < length[place]], place[(start > 0) & ~continued]])
    cuts = np.concatenate([end[end < length[place]], start[(start > 0) & ~continued]])
    # The last block of the same document that starts before the cut.
    scale = int(length.max(initial=0)) + 1
    keys = blocks.document * scale + blocks.start
    nearest = np.searchsorted(keys, owners * scale + cuts) - 1
    known = nearest >= 0
    nearest, owners, cuts = nearest[known], owners[known], cuts[known]
    inside = (blocks.document[nearest] == owners) & (blocks.stop[nearest] > cuts)
    hit = np.unique(nearest[inside])
    return list(
        zip(document[blocks.document[hit]].tolist(), blocks.start[hit].tolist(), strict=True)
    )
